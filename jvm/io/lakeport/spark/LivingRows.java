package io.lakeport.spark;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.api.java.UDF2;

/** Whether a row of a file is not deleted, by the number of the file in the scan and the position of the row in it. */
public final class LivingRows implements UDF2<Integer, Long, Boolean> {
    private static final long serialVersionUID = 1;
    private static final Map<String, Positions> KNOWN = new ConcurrentHashMap<>();

    private final String scan;
    private final String address;
    private final String secret;
    private transient int lastFile;
    private transient Positions last;

    public LivingRows(String scan, String address, String secret) {
        this.scan = scan;
        this.address = address;
        this.secret = secret;
    }

    @Override
    public Boolean call(Integer file, Long row) {
        if (last == null || lastFile != file) {
            last = KNOWN.computeIfAbsent(scan + "/" + file, key -> fetch(file));
            lastFile = file;
        }
        return !last.contains(row);
    }

    private Positions fetch(int file) {
        try {
            return Positions.decode(Driver.of(scan, address, secret).vector(file));
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
