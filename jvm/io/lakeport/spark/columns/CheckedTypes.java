package io.lakeport.spark.columns;

import java.io.IOException;
import java.io.Serializable;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/** Reads files; fails if a column's stored type is one that Spark's reader cannot convert to the table's. */
public final class CheckedTypes extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final StructType table;
    private final StructType stored;
    private final Broadcast<SerializableConfiguration> conf;
    /** Keeps the scan alive on the driver, where an RDD holds this function but no plan. */
    @SuppressWarnings("unused")
    private final transient Object life;

    /** The reader returns some of the table's columns, which are stored under other names. */
    public CheckedTypes(
            Function1<PartitionedFile, Iterator<InternalRow>> reader, StructType table, StructType stored, SparkContext context, Configuration conf,
            Object life) {
        this.reader = reader;
        this.table = table;
        this.stored = stored;
        this.conf = SerializableConfiguration.broadcast(context, conf);
        this.life = life;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile file) {
        String odd;
        try {
            odd = new StoredTypes(table, stored).against(file.toPath(), conf.value().value());
        } catch (IOException error) {
            throw CheckedTypes.<RuntimeException>as(error);
        }
        if (odd != null) {
            throw new IllegalStateException("a file of the table has " + odd
                    + ", which Spark's own reader cannot convert, but Python can: load the table, or make the frame, with reader='python'");
        }
        return reader.apply(file);
    }

    /** Spark expects this checked exception from a reader; Java does not allow it in a function. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E as(Throwable error) throws E {
        throw (E) error;
    }
}
