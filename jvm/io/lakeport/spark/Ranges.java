package io.lakeport.spark;

import java.io.IOException;

/** A file that is read by ranges. */
interface Ranges {
    /** Exactly these bytes. */
    void read(long start, byte[] into, int offset, int length) throws IOException;

    static Ranges open(Driver driver, int file, long size) throws IOException {
        String url = driver.url(file);
        return url.startsWith("file:") ? new LocalRanges(url) : new HttpRanges(driver, file);
    }
}
