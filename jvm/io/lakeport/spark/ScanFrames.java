package io.lakeport.spark;

import io.lakeport.spark.columns.StoredNames;
import io.lakeport.spark.columns.StoredTypes;
import io.lakeport.spark.files.Driver;
import io.lakeport.spark.files.Fetching;
import io.lakeport.spark.files.ScanDocument;
import io.lakeport.spark.files.ScanFileSystem;
import io.lakeport.spark.rows.DeletedRows;
import io.lakeport.spark.rows.MarkedRows;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Builds frames over Spark's Parquet relation, for the Python process that planned the scans. */
public final class ScanFrames {
    /** Overrides session settings so that all rows are read, exactly as stored. */
    private static final Map<String, String> EXACT = Map.of(
            "ignoreCorruptFiles", "false",
            "ignoreMissingFiles", "false",
            "mergeSchema", "false",
            "datetimeRebaseMode", "CORRECTED",
            "int96RebaseMode", "CORRECTED");
    /** Query planning waits for looks at files. */
    private static final int LOOK_SECONDS = 5;

    /** The rows of a scan under the table's column names. The condition, or null, refers to table columns. */
    public Dataset<Row> read(SparkSession spark, String address, String id, String secret, Column condition) throws IOException {
        Scan scan = Scan.of(spark, new Driver.Key(address, id, secret));
        Dataset<Row> rows = scan.rows();
        if (condition != null) {
            rows = rows.select(columns(scan.document.table())).where(condition);
        }
        return rows.select(columns(scan.document.selected()));
    }

    /**
     * Why Spark's reader cannot return some columns, from the footers of some files; null if nothing is found, or the
     * storage does not respond in time.
     */
    public String whyNot(SparkSession spark, String address, String id, String secret) throws IOException {
        return Scan.of(spark, new Driver.Key(address, id, secret)).oddType();
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

    /** The first finding of looks at files in parallel; null if there is none in time. Failures are ignored. */
    private static String firstFinding(List<Fetching.Work<String>> looks) {
        CompletableFuture<String> found = new CompletableFuture<>();
        List<CompletableFuture<Void>> started = looks.stream().map(look -> startLooking(look, found)).toList();
        CompletableFuture.allOf(started.toArray(new CompletableFuture<?>[0])).thenRun(() -> found.complete(null));
        return found.completeOnTimeout(null, LOOK_SECONDS, TimeUnit.SECONDS).join();
    }

    /** On its own thread: those of `Fetching` do the reading. */
    private static CompletableFuture<Void> startLooking(Fetching.Work<String> look, CompletableFuture<String> found) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                String result = look.run();
                if (result != null) {
                    found.complete(result);
                }
            } catch (Exception error) { // the read itself will report it
            } finally {
                ended.complete(null);
            }
        }, "lakeport-looking");
        thread.setDaemon(true);
        thread.setContextClassLoader(ScanFrames.class.getClassLoader());
        thread.start();
        return ended;
    }

    private record Scan(SparkSession spark, Driver.Key key, ScanDocument document) {
        static Scan of(SparkSession spark, Driver.Key key) throws IOException {
            return new Scan(spark, key, Driver.of(key).document());
        }

        Dataset<Row> rows() {
            Object life = new Object();
            Driver.of(key).endAfter(life);
            List<Dataset<Row>> parts = new ArrayList<>();
            for (String root : document.roots()) {
                DeletedRows deleted = root.equals(ScanDocument.WITH_DELETED) ? new DeletedRows(key) : null;
                Dataset<Row> part = spark.baseRelationToDataFrame(relation(index(root), deleted, life));
                parts.add(deleted == null ? part : living(part));
            }
            return parts.stream().reduce(Dataset::union).orElseGet(() -> spark.createDataFrame(List.of(), less(document.table(), List.of())));
        }

        /** Spark derives partitions from the files' directories. */
        private FileIndex index(String root) {
            return new InMemoryFileIndex(
                    spark, CollectionConverters.asScala(List.of(key.path(root))).toList(), options(), Option.apply(document.table()),
                    NoopCache$.MODULE$, Option.empty(), Option.empty());
        }

        /** Nullable exactly where the table is: Spark makes everything it derives from paths nullable. */
        private HadoopFsRelation relation(FileIndex index, DeletedRows deleted, Object life) {
            List<String> names = List.of(index.partitionSchema().fieldNames());
            StructField[] partitions = names.stream().map(document.table()::apply).toArray(StructField[]::new);
            StructType columns = deleted == null ? less(document.table(), names) : less(document.table(), names).add(MarkedRows.POSITION);
            ScanFormat format = new ScanFormat(inFiles(), document.settings(), deleted, life);
            return new HadoopFsRelation(index, new StructType(partitions), columns, Option.empty(), format, options(), spark);
        }

        private StoredNames inFiles() {
            return new StoredNames(less(document.table(), List.of()), document.stored());
        }

        String oddType() {
            StructType checked = document.checked();
            if (checked.isEmpty()) {
                return null;
            }
            StoredTypes types = new StoredTypes(checked, inFiles().of(checked));
            Configuration conf = spark.sessionState().newHadoopConfWithOptions(options());
            return firstFinding(document.sample().stream()
                    .<Fetching.Work<String>>map(name -> () -> types.against(key.path("/" + name), conf))
                    .toList());
        }

        private scala.collection.immutable.Map<String, String> options() {
            Map<String, String> options = new HashMap<>(EXACT);
            options.put("fs.lakeport.impl", ScanFileSystem.class.getName());
            options.put("fs.lakeport.impl.disable.cache", "true");
            options.putAll(key.settings());
            return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
        }

        private static Dataset<Row> living(Dataset<Row> marked) {
            Column position = functions.col(MarkedRows.POSITION.name());
            return marked.where(position.geq(0)).drop(position);
        }
    }
}
