package io.lakeport.spark.files;

import java.io.Closeable;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;

/** A file read by ranges. */
interface Ranges extends Closeable {
    /** Starts reading exactly these bytes. */
    CompletableFuture<Void> start(long start, byte[] into, int offset, int length);

    /** Reads exactly these bytes. */
    default void read(long start, byte[] into, int offset, int length) throws IOException {
        Fetching.await(start(start, into, offset, length));
    }

    /** A storage that is silent for {@code stallMs} gets another request. */
    static Ranges open(Driver driver, int file, long size, int stallMs) throws IOException {
        String url = driver.url(file);
        return url.startsWith("file:") ? new LocalRanges(url) : new HttpRanges(driver, file, size, stallMs);
    }
}
