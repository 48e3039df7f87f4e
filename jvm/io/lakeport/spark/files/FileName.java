package io.lakeport.spark.files;

import java.io.FileNotFoundException;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;

/** The name of a scan's file, {@code number-size.parquet}: tasks need no listing to open it. */
record FileName(int number, long size) {
    private static final String ENDING = ".parquet";

    static boolean matches(Path path) {
        return path.getName().endsWith(ENDING);
    }

    static FileName parse(Path path) throws FileNotFoundException {
        String name = path.getName();
        int dash = name.indexOf('-');
        if (dash < 1 || !name.endsWith(ENDING)) {
            throw new FileNotFoundException("the scan has no such file: " + path);
        }
        return new FileName(Integer.parseInt(name.substring(0, dash)), Long.parseLong(name.substring(dash + 1, name.length() - ENDING.length())));
    }

    @Override
    public String toString() {
        return number + "-" + size + ENDING;
    }

    /** Without preferred hosts. The modification time is the file's number: Spark offers it with every row. */
    FileStatus status(Path directory) {
        FileStatus plain = new FileStatus(size, false, 1, Math.max(size, 1), number, new Path(directory, toString()));
        return new LocatedFileStatus(plain, new BlockLocation[0]);
    }
}
