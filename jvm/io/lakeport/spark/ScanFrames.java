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

/** Builds frames over Spark's Parquet relation, for the Python process that planned the scans. */
public final class ScanFrames {
    private static final String WITH_DELETED = "/with-deleted";
    /** Overrides session settings so that all rows are read, exactly as stored. */
    private static final Map<String, String> EXACT = Map.of(
            "ignoreCorruptFiles", "false",
            "ignoreMissingFiles", "false",
            "mergeSchema", "false",
            "datetimeRebaseMode", "CORRECTED",
            "int96RebaseMode", "CORRECTED");

    /**
     * The rows of a scan under the table's column names. {@code directories} is space-separated. Schemas are JSON: the
     * table's columns including void ones; the same as stored, without void ones; and the selected ones. The condition,
     * or null, refers to table columns. The settings, space-separated {@code name=value}, are the session's required
     * ones.
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
     * Why Spark's reader cannot return some columns, from the footers of some files; null if nothing is found, or the
     * storage does not respond in time. File names are space-separated, as below a directory without partitions.
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

    /** Files do not store such columns. */
    private static boolean isVoid(StructField field) {
        return field.dataType().equals(DataTypes.NullType);
    }

    private static StructType less(StructType schema, List<String> names) {
        return new StructType(
                Arrays.stream(schema.fields()).filter(field -> !isVoid(field) && !names.contains(field.name())).toArray(StructField[]::new));
    }

    private record Scan(
            SparkSession spark, String id, String address, String secret, String settings, StructType table, StructType stored) {
        /** Omits the secret. */
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

        /** Spark derives partitions from the files' directories. */
        private FileIndex index(String directory) {
            Path root = new Path("lakeport://" + id + directory);
            return new InMemoryFileIndex(
                    spark, CollectionConverters.asScala(List.of(root)).toList(), options(), Option.apply(table), NoopCache$.MODULE$, Option.empty(),
                    Option.empty());
        }

        /** Nullable exactly where the table is: Spark makes everything it derives from paths nullable. */
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
