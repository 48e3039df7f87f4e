package io.lakeport.spark.files;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.concurrent.ThreadLocalRandom;

/** Connections with timeouts, kept alive for the next request, and the wait before a request is tried again. */
final class Http {
    private static final int CONNECT_MS = 15_000;
    private static final String KEPT = "http.maxConnections";
    private static final long FIRST_WAIT_MS = 50;
    private static final long LONGEST_WAIT_MS = 10_000;

    static {
        if (System.getProperty(KEPT) == null) {
            System.setProperty(KEPT, "64"); // Java's default of five per server is fewer than an executor's tasks
        }
    }

    private Http() {}

    static HttpURLConnection open(String url, int readMs) throws IOException {
        try {
            HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
            connection.setConnectTimeout(CONNECT_MS);
            connection.setReadTimeout(readMs);
            connection.setUseCaches(false);
            return connection;
        } catch (IllegalArgumentException | ClassCastException error) {
            throw new IOException("the URL of a file of the table is malformed"); // Java's message would contain it
        }
    }

    /** Drains the rest of a response so that the connection can be reused. */
    static void discard(HttpURLConnection connection) throws IOException {
        try (InputStream rest = connection.getErrorStream()) {
            if (rest != null) {
                rest.readNBytes(64 << 10);
            }
        }
    }

    /** Waits after this many failed tries, exponentially longer; returns at once for 0. */
    static void backOff(int tries) throws InterruptedIOException {
        if (tries == 0) {
            return;
        }
        long most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS << Math.min(tries, 10));
        try {
            Thread.sleep(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("the task was stopped while it read a file");
        }
    }
}
