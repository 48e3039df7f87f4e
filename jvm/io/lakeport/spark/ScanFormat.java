package io.lakeport.spark;

import io.lakeport.spark.columns.CheckedTypes;
import io.lakeport.spark.columns.StoredFilters;
import io.lakeport.spark.columns.StoredNames;
import io.lakeport.spark.rows.DeletedRows;
import io.lakeport.spark.rows.MarkedRows;
import io.lakeport.spark.rows.WithoutNulls;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's Parquet format for files whose column names differ from the table's. Pruning and pushdown still work. */
final class ScanFormat extends ParquetFileFormat {
    private static final long serialVersionUID = 1;

    private final transient StoredNames names;
    private final transient java.util.Map<String, String> settings;
    private final transient DeletedRows deleted;
    private final transient Object life;

    /**
     * {@code deleted} is null for files without deleted rows. {@code settings} are required in the session: others
     * would change values. The scan lives as long as {@code life}.
     */
    ScanFormat(StoredNames names, java.util.Map<String, String> settings, DeletedRows deleted, Object life) {
        this.names = names;
        this.settings = settings;
        this.deleted = deleted;
        this.life = life;
    }

    /** Columns may be `SomeRows`, which Spark must not mistake for its reader's own. */
    @Override
    public Option<Seq<String>> vectorTypes(StructType wanted, StructType partitions, SQLConf conf) {
        return deleted != null && WithoutNulls.isNeeded(wanted) ? Option.empty() : super.vectorTypes(wanted, partitions, conf);
    }

    /** On the driver. Wraps the reader of Spark's own class in the checks: tasks need nothing of this class. */
    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession spark,
            StructType data,
            StructType partitions,
            StructType wanted,
            Seq<Filter> filters,
            Map<String, String> options,
            Configuration conf) {
        check(spark);
        boolean strict = WithoutNulls.isNeeded(wanted);
        StructType stored = strict ? names.of(wanted).asNullable() : names.of(wanted);
        Seq<Filter> storedFilters = new StoredFilters(names).of(filters);
        Function1<PartitionedFile, Iterator<InternalRow>> reader = new ParquetFileFormat()
                .buildReaderWithPartitionValues(spark, names.of(data), partitions, stored, storedFilters, options, conf);
        reader = new CheckedTypes(reader, wanted, stored, spark.sparkContext(), conf, life);
        if (deleted != null) {
            reader = new MarkedRows(reader, wanted, deleted);
        }
        return strict ? new WithoutNulls(reader, wanted) : reader;
    }

    private void check(SparkSession spark) {
        settings.forEach((name, needed) -> {
            if (!spark.conf().get(name, needed).equalsIgnoreCase(needed)) {
                throw new IllegalStateException(
                        "the session setting " + name + " is no longer " + needed + " as when the frame was made: set it back, or make the frame again");
            }
        });
    }
}
