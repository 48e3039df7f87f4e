package io.lakeport.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Ranges of a file behind a signed URL. What fails for a while is tried again; where the storage refuses the URL, the driver is asked
 * for another. A body that is shorter than what was asked for is a failure.
 */
final class HttpRanges implements Ranges {
    private static final HttpClient HTTP = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(15))
            .followRedirects(HttpClient.Redirect.NORMAL)
            .build();
    private static final int TRIES = 9;
    private static final int NEW_URLS = 3;
    private static final long PATIENCE_S = 60;
    /** Larger ranges are fetched in parts, several at once. */
    private static final int PART = 8 << 20;

    private final Driver driver;
    private final int file;

    HttpRanges(Driver driver, int file) {
        this.driver = driver;
        this.file = file;
    }

    @Override
    public void read(long start, byte[] into, int offset, int length) throws IOException {
        List<Part> parts = new ArrayList<>();
        for (int done = 0; done < length; done += PART) {
            parts.add(new Part(start + done, into, offset + done, Math.min(PART, length - done)));
        }
        for (Part part : parts) {
            part.send();
        }
        for (Part part : parts) {
            part.receive();
        }
    }

    private final class Part {
        private final long start;
        private final byte[] into;
        private final int offset;
        private final int length;
        private String url;
        private CompletableFuture<HttpResponse<byte[]>> answer;

        Part(long start, byte[] into, int offset, int length) {
            this.start = start;
            this.into = into;
            this.offset = offset;
            this.length = length;
        }

        void send() throws IOException {
            url = driver.url(file);
            request();
        }

        private void request() {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url))
                    .header("Range", "bytes=" + start + "-" + (start + length - 1))
                    .build();
            answer = HTTP.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()).orTimeout(PATIENCE_S, TimeUnit.SECONDS);
        }

        void receive() throws IOException {
            int refusals = 0;
            for (int tried = 1; ; tried++) {
                String failure;
                try {
                    HttpResponse<byte[]> got = answer.get();
                    if (take(got)) {
                        return;
                    }
                    failure = "status " + got.statusCode() + " with " + got.body().length + " bytes";
                    if (isRefusal(got.statusCode())) {
                        if (++refusals > NEW_URLS) {
                            throw refused(got.statusCode());
                        }
                        url = driver.refused(file, url);
                    } else if (!mayPass(got.statusCode())) {
                        throw new IOException("a file of the table cannot be read: the storage answers with " + failure);
                    }
                } catch (ExecutionException error) {
                    Throwable cause = error.getCause();
                    failure = cause instanceof TimeoutException ? "no whole answer within " + PATIENCE_S + " s" : cause.getClass().getSimpleName();
                } catch (InterruptedException error) {
                    answer.cancel(true);
                    throw Waiting.interrupted(error);
                }
                if (tried >= TRIES) {
                    throw new IOException("a file of the table cannot be read, after " + tried + " tries: " + failure);
                }
                Waiting.before(tried);
                request();
            }
        }

        /** Whether the answer is what was asked for. */
        private boolean take(HttpResponse<byte[]> got) {
            byte[] body = got.body();
            if (got.statusCode() == 206 && body.length == length && isRange(got)) {
                System.arraycopy(body, 0, into, offset, length);
                return true;
            }
            if (got.statusCode() == 200 && body.length >= start + length) {
                System.arraycopy(body, (int) start, into, offset, length);
                return true;
            }
            return false;
        }

        private boolean isRange(HttpResponse<byte[]> got) {
            return got.headers()
                    .firstValue("Content-Range")
                    .map(text -> text.startsWith("bytes " + start + "-"))
                    .orElse(true);
        }
    }

    private static boolean isRefusal(int status) {
        return status == 401 || status == 403 || status == 404 || status == 410;
    }

    /** Other statuses stay as they are. A success that was not whole may come whole. */
    private static boolean mayPass(int status) {
        return status < 300 || status == 408 || status == 425 || status == 429 || status >= 500;
    }

    private static IOException refused(int status) {
        if (status == 404 || status == 410) {
            return new FileNotFoundException("the storage no longer has a file of the table; it may have been vacuumed: read a later version");
        }
        return new IOException("the storage refuses a file of the table, by a new URL too (status " + status + "); ask the provider");
    }
}
