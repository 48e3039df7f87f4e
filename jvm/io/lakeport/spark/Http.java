package io.lakeport.spark;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;

/** Connections that time out, and are kept for the next request. */
final class Http {
    private static final int CONNECT_MS = 15_000;
    private static final String KEPT = "http.maxConnections";

    static {
        if (System.getProperty(KEPT) == null) {
            System.setProperty(KEPT, "64"); // Java keeps five for each server, fewer than an executor has tasks
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
            throw new IOException("the URL of a file of the table is malformed"); // Java's message would tell it
        }
    }

    /** The rest of an answer is of no use; the connection is. */
    static void discard(HttpURLConnection connection) throws IOException {
        try (InputStream rest = connection.getErrorStream()) {
            if (rest != null) {
                rest.readNBytes(64 << 10);
            }
        }
    }
}
