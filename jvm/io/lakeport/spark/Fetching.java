package io.lakeport.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Work that waits for a network, on threads of its own: so a task reads several ranges at once, and leaves at once when it is
 * stopped, which a thread that reads from a socket cannot.
 */
final class Fetching {
    private static final int THREADS = 64;
    private static final ThreadPoolExecutor POOL =
            new ThreadPoolExecutor(THREADS, THREADS, 30, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Fetching::thread);

    static {
        POOL.allowCoreThreadTimeOut(true);
    }

    private Fetching() {}

    private static Thread thread(Runnable work) {
        Thread thread = new Thread(work, "lakeport-fetching");
        thread.setDaemon(true);
        thread.setContextClassLoader(Fetching.class.getClassLoader());
        return thread;
    }

    /** Something that is read, or fails as reading does. */
    interface Work<T> {
        T run() throws IOException;
    }

    static <T> CompletableFuture<T> start(Work<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        POOL.execute(() -> {
            try {
                result.complete(work.run());
            } catch (Throwable error) {
                result.completeExceptionally(error);
            }
        });
        return result;
    }

    /** What was started, when it is there. The work goes on where who waits for it is interrupted; its result is not used. */
    static <T> T await(CompletableFuture<T> started) throws IOException {
        try {
            return started.get();
        } catch (ExecutionException error) {
            throw asIOException(error.getCause());
        } catch (InterruptedException | CancellationException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("the task was stopped while it read a file");
        }
    }

    private static IOException asIOException(Throwable error) {
        if (error instanceof IOException) {
            return (IOException) error;
        }
        if (error instanceof Error) {
            throw (Error) error;
        }
        return new IOException(error);
    }
}
