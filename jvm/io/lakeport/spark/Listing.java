package io.lakeport.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;

/**
 * The files of a scan, below its directories. Directories further down, whose names are values of partition columns, are only in the
 * paths of files: Spark, which takes partitions from paths, gets all files at once instead of a directory at a time.
 */
final class Listing {
    private final Map<String, List<String[]>> directories = new HashMap<>();

    /** One line for each file: its directory, its path below that, its size and its modification time, with tabs between. */
    static Listing parse(String lines) {
        Listing listing = new Listing();
        for (String line : lines.split("\n")) {
            String[] parts = line.split("\t");
            if (parts.length == 4) {
                listing.directories.computeIfAbsent(parts[0], key -> new ArrayList<>()).add(parts);
            }
        }
        return listing;
    }

    boolean has(String directory) {
        return directories.containsKey(directory);
    }

    /** The files below a directory. They are near to no machine more than to others. */
    FileStatus[] in(String directory, Path root) {
        return directories.get(directory).stream().map(parts -> status(parts, root)).toArray(FileStatus[]::new);
    }

    private static FileStatus status(String[] parts, Path root) {
        long size = Long.parseLong(parts[2]);
        Path path = new Path(root, parts[1]);
        return new LocatedFileStatus(new FileStatus(size, false, 1, Math.max(size, 1), Long.parseLong(parts[3]), path), new BlockLocation[0]);
    }
}
