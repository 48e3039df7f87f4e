package io.lakeport.spark;

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

/** Spark's Parquet for files that have other names for the columns than the table. So Spark prunes and pushes as for any table. */
final class ScanFormat extends ParquetFileFormat {
    private static final long serialVersionUID = 1;

    private final transient StoredNames names;
    private final transient java.util.Map<String, String> settings;
    private final transient DeletedRows deleted;
    private final transient Object life;

    /**
     * Of files that are whole, where {@code deleted} is null, or of ones with deleted rows. Under other settings of the session, values
     * would be other ones. The scan lasts as long as {@code life} does.
     */
    ScanFormat(StoredNames names, java.util.Map<String, String> settings, DeletedRows deleted, Object life) {
        this.names = names;
        this.settings = settings;
        this.deleted = deleted;
        this.life = life;
    }

    /** Columns may be ones of `SomeRows`, which Spark must not take for those of its reader. */
    @Override
    public Option<Seq<String>> vectorTypes(StructType wanted, StructType partitions, SQLConf conf) {
        return deleted != null && WithoutNulls.isNeeded(wanted) ? Option.empty() : super.vectorTypes(wanted, partitions, conf);
    }

    /** On the driver. The reader is that of Spark's own class, with what has to be checked around it: tasks need nothing of this one. */
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
                        "the session has set " + name + " to other than " + needed + " since the frame was made: set it back, or make the frame again");
            }
        });
    }
}
