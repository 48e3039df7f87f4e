package io.lakeport.spark.files;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;

/** Connections with timeouts, kept alive for the next request. */
final class Http {
    private static final int CONNECT_MS = 15_000;
    private static final String KEPT = "http.maxConnections";

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
}
