package io.lakeport.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Makes frames over Spark's Parquet relation, for the Python process that has planned scans. */
public final class ScanFrames {
    private static final String WITH_DELETED = "/with-deleted";
    /** Whatever a session has for these, all rows are read, and as they are stored. */
    private static final Map<String, String> EXACT = Map.of(
            "ignoreCorruptFiles", "false",
            "ignoreMissingFiles", "false",
            "mergeSchema", "false",
            "datetimeRebaseMode", "CORRECTED",
            "int96RebaseMode", "CORRECTED");

    /**
     * The rows of a scan whose files are in directories, which are named with spaces between, by the names that the table has.
     * Schemas are JSON: the columns of the table, void ones too; the same as files have them, less void ones; and those that are wanted.
     * The condition, or null, is about the columns of the table. The settings, {@code name=value} with spaces between, are those of the
     * session with which it must be read.
     */
    public Dataset<Row> read(
            SparkSession spark, String scan, String address, String secret, String directories, String settings, String table, String stored,
            String wanted, Column condition) {
        StructType all = (StructType) DataType.fromJson(table);
        Scan planned = new Scan(spark, scan, address, secret, settings, all, (StructType) DataType.fromJson(stored));
        Dataset<Row> rows = planned.rows(directories.isEmpty() ? new String[0] : directories.split(" "));
        if (condition != null) {
            rows = rows.select(columns(all)).where(condition);
        }
        return rows.select(columns((StructType) DataType.fromJson(wanted)));
    }

    /**
     * Why Spark's reader cannot give some columns of the table, by the footers of some files of a scan; null if nothing is against it, or
     * if the storage does not tell at once. Files are named with spaces between, as they are below a directory without partitions.
     */
    public String whyNot(
            SparkSession spark, String scan, String address, String secret, String files, String table, String stored, String wanted) {
        StructType all = (StructType) DataType.fromJson(table);
        Scan planned = new Scan(spark, scan, address, secret, "", all, (StructType) DataType.fromJson(stored));
        return planned.oddType(files.split(" "), (StructType) DataType.fromJson(wanted));
    }

    private static Column[] columns(StructType schema) {
        return Arrays.stream(schema.fields()).map(ScanFrames::column).toArray(Column[]::new);
    }

    private static Column column(StructField field) {
        return isVoid(field) ? functions.lit(null).as(field.name()) : functions.col("`" + field.name().replace("`", "``") + "`");
    }

    /** No file holds such a column. */
    private static boolean isVoid(StructField field) {
        return field.dataType().equals(DataTypes.NullType);
    }

    private static StructType less(StructType schema, List<String> names) {
        return new StructType(
                Arrays.stream(schema.fields()).filter(field -> !isVoid(field) && !names.contains(field.name())).toArray(StructField[]::new));
    }

    private record Scan(
            SparkSession spark, String id, String address, String secret, String settings, StructType table, StructType stored) {
        /** Without the secret. */
        @Override
        public String toString() {
            return "scan " + id;
        }

        Dataset<Row> rows(String[] directories) {
            Object life = new Object();
            Lifetime.watch(life, id, address, secret);
            List<Dataset<Row>> parts = new ArrayList<>();
            for (String directory : directories) {
                DeletedRows deleted = directory.equals(WITH_DELETED) ? new DeletedRows(id, address, secret) : null;
                Dataset<Row> part = spark.baseRelationToDataFrame(relation(index(directory), deleted, life));
                parts.add(deleted == null ? part : living(part));
            }
            return parts.stream().reduce(Dataset::union).orElseGet(() -> spark.createDataFrame(List.of(), less(table, List.of())));
        }

        /** Spark takes partitions from the directories of the files. */
        private FileIndex index(String directory) {
            Path root = new Path("lakeport://" + id + directory);
            return new InMemoryFileIndex(
                    spark, CollectionConverters.asScala(List.of(root)).toList(), options(), Option.apply(table), NoopCache$.MODULE$, Option.empty(),
                    Option.empty());
        }

        /** With nulls where the table has them, and nowhere else: what Spark makes of paths by itself has them everywhere. */
        private HadoopFsRelation relation(FileIndex index, DeletedRows deleted, Object life) {
            List<String> names = List.of(index.partitionSchema().fieldNames());
            StructField[] partitions = names.stream().map(table::apply).toArray(StructField[]::new);
            StructType columns = deleted == null ? less(table, names) : less(table, names).add(MarkedRows.POSITION);
            ScanFormat format = new ScanFormat(inFiles(), parsed(settings), deleted, life);
            return new HadoopFsRelation(index, new StructType(partitions), columns, Option.empty(), format, options(), spark);
        }

        private static Map<String, String> parsed(String settings) {
            return Arrays.stream(settings.split(" ")).map(pair -> pair.split("=")).collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        }

        private StoredNames inFiles() {
            return new StoredNames(less(table, List.of()), stored);
        }

        String oddType(String[] files, StructType wanted) {
            StoredTypes types = new StoredTypes(wanted, inFiles().of(wanted));
            Configuration conf = spark.sessionState().newHadoopConfWithOptions(options());
            List<Fetching.Work<String>> looks = Arrays.stream(files)
                    .<Fetching.Work<String>>map(name -> () -> types.against(new Path("lakeport://" + id + "/" + name), conf))
                    .toList();
            return Looks.first(looks);
        }

        private scala.collection.immutable.Map<String, String> options() {
            Map<String, String> options = new HashMap<>(EXACT);
            options.put("fs.lakeport.impl", ScanFileSystem.class.getName());
            options.put("fs.lakeport.impl.disable.cache", "true");
            options.put(Driver.ADDRESS, address);
            options.put(Driver.SECRET, secret);
            return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
        }

        private static Dataset<Row> living(Dataset<Row> marked) {
            Column position = functions.col(MarkedRows.POSITION.name());
            return marked.where(position.geq(0)).drop(position);
        }
    }
}
