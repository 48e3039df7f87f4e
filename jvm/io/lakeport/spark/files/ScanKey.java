package io.lakeport.spark.files;

import java.io.Serializable;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Where a scan's driver answers, and the secret that it asks for. */
public record ScanKey(String address, String id, String secret) implements Serializable {
    private static final String ADDRESS = "fs.lakeport.driver";
    private static final String SECRET = "fs.lakeport.secret";

    /** From the settings of a file system. */
    static ScanKey of(String id, Configuration conf) {
        return new ScanKey(conf.get(ADDRESS), id, conf.get(SECRET));
    }

    public Map<String, String> settings() {
        return Map.of(ADDRESS, address, SECRET, secret);
    }

    public Path path(String below) {
        return new Path("lakeport://" + id + below);
    }

    /** Omits the secret. */
    @Override
    public String toString() {
        return "scan " + id;
    }
}
