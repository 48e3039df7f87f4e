package io.lakeport.spark.files;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Network I/O on its own threads: a task can read several ranges at once, and can stop immediately, unlike a thread
 * blocked on a socket.
 */
public final class Fetching {
    static final Fetching RANGES = new Fetching("lakeport-fetching", 64);
    /** Requests to the driver. Ranges wait for them, so they need threads that ranges cannot occupy. */
    static final Fetching QUESTIONS = new Fetching("lakeport-asking", 16);

    private final ThreadPoolExecutor pool;

    private Fetching(String name, int threads) {
        pool = new ThreadPoolExecutor(threads, threads, 30, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> thread(work, name));
        pool.allowCoreThreadTimeOut(true);
    }

    private static Thread thread(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.setContextClassLoader(Fetching.class.getClassLoader());
        return thread;
    }

    /** A read, which may fail with an IOException. */
    public interface Work<T> {
        T run() throws IOException;
    }

    <T> CompletableFuture<T> start(Work<T> work) {
        CompletableFuture<T> result = new CompletableFuture<>();
        pool.execute(() -> {
            try {
                result.complete(work.run());
            } catch (Throwable error) {
                result.completeExceptionally(error);
            }
        });
        return result;
    }

    /** Waits for a result. If the waiting thread is interrupted, the work continues and its result is dropped. */
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
