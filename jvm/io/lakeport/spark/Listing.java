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
 * The files of a scan, below its directories. Subdirectories, named by partition values, exist only in file paths:
 * Spark takes partitions from paths, and gets all files at once instead of one directory at a time.
 */
final class Listing {
    private final Map<String, List<String[]>> directories = new HashMap<>();

    /** One line per file, tab-separated: directory, path below it, size, modification time. */
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

    /** The files below a directory. They have no preferred hosts. */
    FileStatus[] in(String directory, Path root) {
        return directories.get(directory).stream().map(parts -> status(parts, root)).toArray(FileStatus[]::new);
    }

    private static FileStatus status(String[] parts, Path root) {
        long size = Long.parseLong(parts[2]);
        Path path = new Path(root, parts[1]);
        return new LocatedFileStatus(new FileStatus(size, false, 1, Math.max(size, 1), Long.parseLong(parts[3]), path), new BlockLocation[0]);
    }
}
