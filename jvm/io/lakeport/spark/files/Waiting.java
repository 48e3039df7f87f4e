package io.lakeport.spark.files;

import java.io.InterruptedIOException;
import java.util.concurrent.ThreadLocalRandom;

/** Exponential backoff between retries. */
final class Waiting {
    private static final long FIRST_MS = 50;
    private static final long LONGEST_MS = 10_000;

    private Waiting() {}

    /** Waits after this many failed tries; returns at once for 0. */
    static void after(int tries) throws InterruptedIOException {
        if (tries == 0) {
            return;
        }
        long most = Math.min(LONGEST_MS, FIRST_MS << Math.min(tries, 10));
        try {
            Thread.sleep(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("the task was stopped while it read a file");
        }
    }
}
