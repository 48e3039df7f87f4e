package io.lakeport.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;

/**
 * The driver's Python process that planned a scan: it knows the files, their signed URLs and deletion vectors. Answers
 * are cached for all tasks of this process. Messages never contain a URL.
 */
final class Driver {
    static final String ADDRESS = "fs.lakeport.driver";
    static final String SECRET = "fs.lakeport.secret";

    private static final Recent<String, Driver> OPEN = new Recent<>(100);
    private static final int TRIES = 6;
    /** The driver may have to call the sharing server first, more than once. */
    private static final int PATIENCE_MS = 300_000;

    private final String scan;
    private final String address;
    private final String secret;
    private final Map<Integer, SignedUrl> urls = new ConcurrentHashMap<>();
    /** URL requests in flight: concurrent callers share one answer. */
    private final Map<String, CompletableFuture<SignedUrl>> asked = new ConcurrentHashMap<>();
    private volatile Listing listing;

    private Driver(String scan, String address, String secret) {
        this.scan = scan;
        this.address = address;
        this.secret = secret;
    }

    /** The driver process of a scan, from file system settings. */
    static Driver of(String scan, Configuration conf) {
        return of(scan, conf.get(ADDRESS), conf.get(SECRET));
    }

    static Driver of(String scan, String address, String secret) {
        return OPEN.get(scan, () -> new Driver(scan, address, secret));
    }

    Listing listing() throws IOException {
        Listing known = listing;
        if (known == null) {
            known = Listing.parse(new String(get("files"), StandardCharsets.UTF_8));
            listing = known;
        }
        return known;
    }

    /** A URL that stays valid for a while. */
    String url(int file) throws IOException {
        SignedUrl known = urls.get(file);
        return known != null && known.isGood() ? known.url : renewed(file, "");
    }

    /** A replacement for a URL that the storage rejects. */
    String refused(int file, String url) throws IOException {
        SignedUrl known = urls.get(file);
        return known != null && !known.url.equals(url) && known.isGood() ? known.url : renewed(file, "?refused=" + digest(url));
    }

    /** The positions of deleted rows in a file, in Delta's format. */
    byte[] vector(int file) throws IOException {
        return get("vectors/" + file);
    }

    /** Reports that no task needs the scan any more. Best effort. */
    void end() {
        OPEN.remove(scan);
        Fetching.QUESTIONS.start(() -> ask("ended"));
    }

    private String renewed(int file, String query) throws IOException {
        String question = "urls/" + file + query;
        CompletableFuture<SignedUrl> answer =
                asked.computeIfAbsent(question, what -> Fetching.QUESTIONS.start(() -> signed(file, what)));
        try {
            return Fetching.await(answer).url;
        } finally {
            asked.remove(question, answer);
        }
    }

    private SignedUrl signed(int file, String question) throws IOException {
        long start = System.nanoTime();
        String[] lines = new String(ask(question), StandardCharsets.UTF_8).split("\n", 2);
        SignedUrl signed = new SignedUrl(Long.parseLong(lines[0]), start, lines[1]);
        urls.put(file, signed);
        return signed;
    }

    private static String digest(String url) {
        try {
            byte[] bytes = MessageDigest.getInstance("SHA-256").digest(url.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(bytes);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    private byte[] get(String what) throws IOException {
        return Fetching.await(Fetching.QUESTIONS.start(() -> ask(what)));
    }

    private byte[] ask(String what) throws IOException {
        for (int tries = 1; ; tries++) {
            HttpURLConnection connection = Http.open(address + "/" + scan + "/" + what, PATIENCE_MS);
            connection.setRequestProperty("Authorization", "Bearer " + secret);
            int status;
            byte[] body;
            try {
                status = connection.getResponseCode();
                try (InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
                    body = stream.readAllBytes();
                }
            } catch (IOException error) {
                if (tries == TRIES) {
                    throw new IOException("the driver's Lakeport does not answer (" + error.getClass().getSimpleName()
                            + "): is its Python process still running, and can this machine reach it at " + address + "?");
                }
                Waiting.after(tries);
                continue;
            }
            if (status == 200) {
                return body;
            }
            String message = new String(body, StandardCharsets.UTF_8);
            throw status == 404 ? new FileNotFoundException(message) : new IOException(message);
        }
    }

    private static final class SignedUrl {
        /** Renew a URL when this share of its lifetime is left, so that a read started now can finish. */
        private static final double MARGIN = 0.2;

        private final long until;
        private final boolean lasts;
        private final String url;

        /** A lifetime of 0 means unknown: the URL is valid until rejected. */
        SignedUrl(long lifeMs, long asked, String url) {
            this.lasts = lifeMs == 0;
            this.until = asked + (long) (lifeMs * 1_000_000 * (1 - MARGIN));
            this.url = url;
        }

        boolean isGood() {
            return lasts || System.nanoTime() - until < 0;
        }
    }
}
