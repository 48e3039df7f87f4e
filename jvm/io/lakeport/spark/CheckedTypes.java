package io.lakeport.spark;

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

/** Reads files, and fails if one holds a column in a type that Spark's reader does not turn into that of the table. */
final class CheckedTypes extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final StructType table;
    private final StructType stored;
    private final Broadcast<SerializableConfiguration> conf;
    /** On the driver, where an RDD has this function and no plan. */
    @SuppressWarnings("unused")
    private final transient Object life;

    /** The reader gives some columns of the table, which are stored under other names. */
    CheckedTypes(
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
            throw new IllegalStateException("a file of the table holds " + odd
                    + ", which Spark's own reader does not convert; Python does: load the table, or make the frame, with reader='python'");
        }
        return reader.apply(file);
    }

    /** Spark expects this exception of a reader; Java does not of a function. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E as(Throwable error) throws E {
        throw (E) error;
    }
}
