package io.lakeport.spark.files;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.HttpURLConnection;
import java.util.concurrent.CompletableFuture;

/**
 * Ranges of a file behind a signed URL. Transient failures are retried from the point of failure. If the storage
 * rejects the URL, the driver supplies another. Only the requested bytes are accepted.
 */
final class HttpRanges implements Ranges {
    private static final int TRIES = 9;
    private static final int NEW_URLS = 3;
    /** Larger ranges are fetched in parts, in parallel. */
    private static final int PART = 8 << 20;

    private final Driver driver;
    private final int file;
    private final long size;
    private final int stallMs;
    private volatile boolean closed;

    HttpRanges(Driver driver, int file, long size, int stallMs) {
        this.driver = driver;
        this.file = file;
        this.size = size;
        this.stallMs = stallMs;
    }

    @Override
    public CompletableFuture<Void> start(long start, byte[] into, int offset, int length) {
        CompletableFuture<?>[] parts = new CompletableFuture<?>[Math.max(1, (length + PART - 1) / PART)];
        for (int i = 0; i < parts.length; i++) {
            int done = i * PART;
            Part part = new Part(start + done, into, offset + done, Math.min(PART, length - done));
            parts[i] = Fetching.RANGES.start(part);
        }
        return parts.length == 1 ? parts[0].thenApply(nothing -> null) : CompletableFuture.allOf(parts);
    }

    /** Running reads stop soon. */
    @Override
    public void close() {
        closed = true;
    }

    private final class Part implements Fetching.Work<Void> {
        private long start;
        private final byte[] into;
        private int offset;
        private int length;

        Part(long start, byte[] into, int offset, int length) {
            this.start = start;
            this.into = into;
            this.offset = offset;
            this.length = length;
        }

        @Override
        public Void run() throws IOException {
            String url = driver.url(file);
            int refusals = 0;
            for (int tries = 1; length > 0; tries++) {
                int before = length;
                String failure = ask(url);
                if (failure == null) {
                    continue;
                }
                if (failure.equals(REFUSED)) {
                    if (++refusals > NEW_URLS) {
                        throw refused();
                    }
                    url = driver.refused(file, url);
                } else if (length < before) {
                    tries = 1;
                } else if (tries >= TRIES) {
                    throw new IOException("a file of the table cannot be read, after " + tries + " tries: " + failure);
                }
                Http.backOff(tries);
            }
            return null;
        }

        private static final String REFUSED = "refused";
        private int status;

        /** Reads the response; returns the error, or null. Connection messages are not used: they contain the URL. */
        private String ask(String url) throws IOException {
            if (closed) {
                throw new InterruptedIOException("the file was closed while it was read");
            }
            HttpURLConnection connection = Http.open(url, stallMs);
            connection.setRequestProperty("Range", "bytes=" + start + "-" + (start + length - 1));
            try {
                status = connection.getResponseCode();
                if (status == 206 || status == 200) {
                    return take(connection);
                }
                Http.discard(connection);
            } catch (IOException error) {
                return error.getClass().getSimpleName();
            }
            if (isRefusal(status)) {
                return REFUSED;
            }
            if (!mayPass(status)) {
                throw new IOException("a file of the table cannot be read: the storage responds with status " + status);
            }
            return "status " + status;
        }

        private String take(HttpURLConnection connection) throws IOException {
            try (InputStream body = connection.getInputStream()) {
                if (!isWanted(connection)) {
                    return "other bytes than requested";
                }
                if (status == 200) {
                    body.skipNBytes(start);
                }
                while (length > 0 && !closed) {
                    int got = body.read(into, offset, length);
                    if (got < 0) {
                        return "a response that ends too early";
                    }
                    start += got;
                    offset += got;
                    length -= got;
                }
            }
            return null;
        }

        private boolean isWanted(HttpURLConnection connection) {
            long announced = connection.getContentLengthLong();
            if (status == 200) {
                return announced < 0 || announced == size;
            }
            String range = connection.getHeaderField("Content-Range");
            boolean isRange = range != null && range.startsWith("bytes " + start + "-" + (start + length - 1) + "/");
            return isRange && (announced < 0 || announced == length);
        }

        private IOException refused() {
            if (status == 404 || status == 410) {
                return new FileNotFoundException("the storage no longer has a file of the table; it may have been vacuumed: read a later version");
            }
            return new IOException("the storage rejects a file of the table even by a new URL (status " + status + "); ask the provider");
        }
    }

    private static boolean isRefusal(int status) {
        return status == 400 || status == 401 || status == 403 || status == 404 || status == 410;
    }

    private static boolean mayPass(int status) {
        return status == 408 || status == 425 || status == 429 || status >= 500;
    }
}
