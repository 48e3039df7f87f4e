package io.lakeport.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/** Spark's Parquet for files that have other names for the columns than the table. So Spark prunes and pushes as for any table. */
final class ScanFormat extends ParquetFileFormat {
    private static final long serialVersionUID = 1;

    private final transient StoredNames names;
    private final boolean whole;

    /** Of files that are whole, or of ones with deleted rows: those may have had nulls where the table has none. */
    ScanFormat(StoredNames names, boolean whole) {
        this.names = names;
        this.whole = whole;
    }

    /** On the driver. The reader is that of Spark's own class: tasks need nothing of this one. */
    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession spark,
            StructType data,
            StructType partitions,
            StructType wanted,
            Seq<Filter> filters,
            Map<String, String> options,
            Configuration conf) {
        boolean checked = whole && WithoutNulls.isNeeded(wanted);
        StructType stored = checked ? WithoutNulls.nullable(names.of(wanted)) : names.of(wanted);
        Seq<Filter> storedFilters = new StoredFilters(names).of(filters);
        Function1<PartitionedFile, Iterator<InternalRow>> reader = new ParquetFileFormat()
                .buildReaderWithPartitionValues(spark, names.of(data), partitions, stored, storedFilters, options, conf);
        return checked ? new WithoutNulls(reader, wanted) : reader;
    }
}
