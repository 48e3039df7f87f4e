package io.lakeport.spark;

import java.io.InterruptedIOException;
import java.util.concurrent.ThreadLocalRandom;

/** Pauses between tries, each about twice as long as the one before. */
final class Waiting {
    private static final long FIRST_MS = 100;
    private static final long LONGEST_MS = 10_000;

    private Waiting() {}

    /** Waits before a try; not before the first, which is number 0. */
    static void before(int tried) throws InterruptedIOException {
        if (tried == 0) {
            return;
        }
        long most = Math.min(LONGEST_MS, FIRST_MS << Math.min(tried, 10));
        try {
            Thread.sleep(ThreadLocalRandom.current().nextLong(most / 2, most + 1));
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    static InterruptedIOException interrupted(InterruptedException error) {
        Thread.currentThread().interrupt();
        InterruptedIOException interrupted = new InterruptedIOException("the task was stopped while it read a file");
        interrupted.initCause(error);
        return interrupted;
    }
}
