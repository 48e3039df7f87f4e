package io.lakeport.spark.files;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.lang.ref.Cleaner;
import java.net.HttpURLConnection;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * The driver's Python process that planned a scan. It answers the questions of `spark/driver.py` about the
 * scan, its signed URLs and deletion vectors. Answers are cached for all tasks of this process. Messages never contain
 * a URL.
 */
public final class Driver {
    private static final Recent<String, Driver> OPEN = new Recent<>(100);
    private static final Cleaner CLEANER = Cleaner.create();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int TRIES = 6;
    /** The driver may have to call the sharing server first, more than once. */
    private static final int PATIENCE_MS = 300_000;

    private final Key scan;
    private final Map<Integer, SignedUrl> urls = new ConcurrentHashMap<>();
    /** URL requests in flight: concurrent callers share one answer. */
    private final Map<String, CompletableFuture<SignedUrl>> asked = new ConcurrentHashMap<>();
    private volatile ScanDocument document;

    private Driver(Key scan) {
        this.scan = scan;
    }

    public static Driver of(Key scan) {
        return OPEN.get(scan.id(), () -> new Driver(scan));
    }

    public ScanDocument document() throws IOException {
        ScanDocument known = document;
        if (known == null) {
            known = ScanDocument.parse(get("document"));
            document = known;
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
        return known != null && !known.url.equals(url) && known.isGood() ? known.url : renewed(file, "&refused=" + digest(url));
    }

    /** The positions of deleted rows in a file, in Delta's format. */
    public byte[] vector(int file) throws IOException {
        return get("vector&file=" + file);
    }

    /** The scan ends when nothing refers to this object any more: all plans over the scan do. */
    public void endAfter(Object life) {
        Key key = scan; // the cleaner must not keep this object, which is rebuilt if it was evicted
        CLEANER.register(life, () -> of(key).end());
    }

    /** Reports that no task needs the scan any more. Best effort. */
    private void end() {
        OPEN.remove(scan.id());
        Fetching.QUESTIONS.start(() -> ask("end"));
    }

    private String renewed(int file, String refused) throws IOException {
        String question = "url&file=" + file + refused;
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
        JsonNode answer = JSON.readTree(ask(question));
        SignedUrl signed = new SignedUrl(answer.get("lifeMs").asLong(), start, answer.get("url").asText());
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
            HttpURLConnection connection = Http.open(scan.address() + "/" + scan.id() + "?ask=" + what, PATIENCE_MS);
            connection.setRequestProperty("Authorization", "Bearer " + scan.secret());
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
                            + "): is its Python process still running, and can this machine reach it at " + scan.address() + "?");
                }
                Http.backOff(tries);
                continue;
            }
            if (status == 200) {
                return body;
            }
            String message = new String(body, StandardCharsets.UTF_8);
            throw status == 404 ? new FileNotFoundException(message) : new IOException(message);
        }
    }

    /** Where the driver of a scan answers, and the secret that it asks for. */
    public record Key(String address, String id, String secret) implements Serializable {
        private static final String ADDRESS = "fs.lakeport.driver";
        private static final String SECRET = "fs.lakeport.secret";

        /** From the settings of a file system. */
        static Key of(String id, Configuration conf) {
            return new Key(conf.get(ADDRESS), id, conf.get(SECRET));
        }

        public Map<String, String> settings() {
            return Map.of(ADDRESS, address, SECRET, secret);
        }

        public Path path(String below) {
            return new Path("lakeport://" + id + below);
        }

        /** Omits the secret. */
        @Override
        public String toString() {
            return "scan " + id;
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
