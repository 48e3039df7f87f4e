package io.lakeport.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/** The files of a scan in virtual directories, whose names are values of partition columns: what is in each directory. */
final class Listing {
    private final Map<String, Map<String, FileStatus>> directories = new LinkedHashMap<>();

    /** One line for each file: its path below the scan, its size and its modification time, with tabs between. */
    static Listing parse(String lines) {
        Listing listing = new Listing();
        for (String line : lines.split("\n")) {
            String[] parts = line.split("\t");
            if (parts.length == 3) {
                listing.add(parts[0], Long.parseLong(parts[1]), Long.parseLong(parts[2]));
            }
        }
        return listing;
    }

    private void add(String path, long size, long modified) {
        FileStatus status = new FileStatus(size, false, 1, Math.max(size, 1), modified, new Path(path));
        String child = path;
        while (child.length() > 1) {
            String parent = child.substring(0, Math.max(child.lastIndexOf('/'), 1));
            boolean known = directories.containsKey(parent);
            directories.computeIfAbsent(parent, key -> new LinkedHashMap<>()).putIfAbsent(child, status);
            if (known) {
                return;
            }
            child = parent;
            status = new FileStatus(0, true, 0, 0, modified, new Path(child));
        }
    }

    /** What is directly in a directory; null if there is no such directory. */
    List<FileStatus> in(String directory) {
        Map<String, FileStatus> found = directories.get(directory);
        return found == null ? null : new ArrayList<>(found.values());
    }
}
