package io.lakeport.spark.files;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** The description of a scan, sent once by the driver's Python process: `ScanDocument` in `spark/driver.py`. */
public record ScanDocument(
        List<Entry> files, StructType table, StructType stored, StructType selected, StructType checked, Map<String, String> settings) {
    public static final String WITH_DELETED = "/with-deleted";
    private static final String WHOLE = "/whole";
    private static final int SAMPLE = 16;
    private static final ObjectMapper JSON =
            new ObjectMapper().registerModule(new SimpleModule().addDeserializer(StructType.class, new Schemas()));

    /** A file; its place in the list is its number. */
    record Entry(String directory, long size, boolean hasDeleted) {
        private String root() {
            return hasDeleted ? WITH_DELETED : WHOLE;
        }
    }

    static ScanDocument parse(byte[] json) throws IOException {
        return JSON.readValue(json, ScanDocument.class);
    }

    /** The directories that have files: that of files with deleted rows, that of others, both or none. */
    public List<String> roots() {
        return Stream.of(WITH_DELETED, WHOLE).filter(root -> files.stream().anyMatch(file -> file.root().equals(root))).toList();
    }

    /**
     * The files of a root. Directories below it, named by partition values, exist only in paths: Spark takes partitions
     * from paths, and gets all files at once instead of one directory at a time.
     */
    FileStatus[] below(String root, Path path) {
        return IntStream.range(0, files.size())
                .filter(number -> files.get(number).root().equals(root))
                .mapToObj(number -> name(number).status(in(path, files.get(number).directory())))
                .toArray(FileStatus[]::new);
    }

    /** The names of a few files, including the first and the last; all if there are few. */
    public List<String> sample() {
        int last = files.size() - 1;
        int count = Math.min(SAMPLE, files.size());
        return IntStream.range(0, count).mapToObj(part -> name((int) ((long) last * part / Math.max(1, count - 1))).toString()).toList();
    }

    private static Path in(Path root, String directory) {
        return directory.isEmpty() ? root : new Path(root, directory);
    }

    private FileName name(int number) {
        return new FileName(number, files.get(number).size());
    }

    private static final class Schemas extends JsonDeserializer<StructType> {
        @Override
        public StructType deserialize(JsonParser parser, DeserializationContext context) throws IOException {
            return (StructType) DataType.fromJson(parser.readValueAsTree().toString());
        }
    }
}
