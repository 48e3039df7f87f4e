package io.lakeport.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;

/**
 * The Python process on the driver that planned a scan: it knows the scan's files, their signed URLs and deletion vectors. What it
 * says is kept for all tasks of this process. A URL is never put into a message.
 */
final class Driver {
    static final String ADDRESS = "fs.lakeport.driver";
    static final String SECRET = "fs.lakeport.secret";

    private static final Map<String, Driver> OPEN = new ConcurrentHashMap<>();
    private static final int TRIES = 5;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    /** A URL is used up to this time before it expires. */
    private static final long MARGIN_MS = 5_000;

    private final String scan;
    private final String address;
    private final String secret;
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(15)).build();
    private final Map<Integer, SignedUrl> urls = new ConcurrentHashMap<>();
    private volatile Listing listing;

    private Driver(String scan, String address, String secret) {
        this.scan = scan;
        this.address = address;
        this.secret = secret;
    }

    /** The one for a scan, by the settings of a file system. */
    static Driver of(String scan, Configuration conf) {
        return of(scan, conf.get(ADDRESS), conf.get(SECRET));
    }

    static Driver of(String scan, String address, String secret) {
        return OPEN.computeIfAbsent(scan, key -> new Driver(key, address, secret));
    }

    Listing listing() throws IOException {
        Listing known = listing;
        if (known == null) {
            known = Listing.parse(new String(get("files"), StandardCharsets.UTF_8));
            listing = known;
        }
        return known;
    }

    /** A URL that is good for a while. */
    String url(int file) throws IOException {
        SignedUrl known = urls.get(file);
        return known != null && known.isGood() ? known.url : renewed(file, "");
    }

    /** Another URL, in place of one that the storage refuses. */
    String refused(int file, String url) throws IOException {
        SignedUrl known = urls.get(file);
        return known != null && !known.url.equals(url) ? known.url : renewed(file, "?refused=" + digest(url));
    }

    /** The positions of deleted rows in a file, as Delta stores them. */
    byte[] vector(int file) throws IOException {
        return get("vectors/" + file);
    }

    private String renewed(int file, String query) throws IOException {
        String[] lines = new String(get("urls/" + file + query), StandardCharsets.UTF_8).split("\n", 2);
        SignedUrl signed = new SignedUrl(Long.parseLong(lines[0]), lines[1]);
        urls.put(file, signed);
        return signed.url;
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
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + "/" + scan + "/" + what))
                .header("Authorization", "Bearer " + secret)
                .timeout(PATIENCE)
                .build();
        IOException last = null;
        for (int tried = 0; tried < TRIES; tried++) {
            Waiting.before(tried);
            try {
                HttpResponse<byte[]> answer = http.send(request, HttpResponse.BodyHandlers.ofByteArray());
                if (answer.statusCode() == 200) {
                    return answer.body();
                }
                String message = new String(answer.body(), StandardCharsets.UTF_8);
                if (answer.statusCode() == 404) {
                    throw new FileNotFoundException(message);
                }
                throw new IOException(message);
            } catch (java.net.ConnectException | java.net.http.HttpTimeoutException error) {
                last = new IOException("the driver's Lakeport does not answer: is its Python process still running?", error);
            } catch (InterruptedException error) {
                throw Waiting.interrupted(error);
            }
        }
        throw last;
    }

    private static final class SignedUrl {
        private final long expires;
        private final String url;

        SignedUrl(long expires, String url) {
            this.expires = expires;
            this.url = url;
        }

        /** 0 stands for a URL of unknown life: it is good until it is refused. */
        boolean isGood() {
            return expires == 0 || System.currentTimeMillis() < expires - MARGIN_MS;
        }
    }
}
