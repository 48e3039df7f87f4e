package io.lakeport.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * Reads files, and fails if one has nulls in a column that has none by the table's word: Spark does not look for them there, and would
 * give other values. A batch of rows knows whether it has nulls.
 */
final class WithoutNulls extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final int[] places;
    private final String[] names;

    /** The reader gives the columns of a schema, with nulls where there are some. */
    WithoutNulls(Function1<PartitionedFile, Iterator<InternalRow>> reader, StructType wanted) {
        this.reader = reader;
        this.names = wanted.fieldNames();
        this.places = IntStream.range(0, names.length).filter(place -> !wanted.fields()[place].nullable()).toArray();
    }

    static boolean isNeeded(StructType wanted) {
        return IntStream.range(0, wanted.size()).anyMatch(place -> !wanted.fields()[place].nullable());
    }

    /** The same columns, any of which may be null. */
    static StructType nullable(StructType schema) {
        StructField[] fields = schema.fields().clone();
        for (int i = 0; i < fields.length; i++) {
            fields[i] = new StructField(fields[i].name(), fields[i].dataType(), true, fields[i].metadata());
        }
        return new StructType(fields);
    }

    /** Spark's iterators of rows may be ones of batches. */
    @Override
    @SuppressWarnings("unchecked")
    public Iterator<InternalRow> apply(PartitionedFile file) {
        return (Iterator<InternalRow>) (Iterator<?>) new Checked((Iterator<Object>) (Iterator<?>) reader.apply(file));
    }

    private void check(Object rows) {
        for (int place : places) {
            if (rows instanceof ColumnarBatch batch ? batch.column(place).hasNull() : ((InternalRow) rows).isNullAt(place)) {
                throw new IllegalStateException(
                        "a file of the table has nulls in the column '" + names[place] + "', which has none by the schema; ask who writes it");
            }
        }
    }

    private final class Checked extends AbstractIterator<Object> implements Closeable {
        private final Iterator<Object> rows;

        Checked(Iterator<Object> rows) {
            this.rows = rows;
        }

        @Override
        public boolean hasNext() {
            return rows.hasNext();
        }

        @Override
        public Object next() {
            Object next = rows.next();
            check(next);
            return next;
        }

        @Override
        public void close() throws IOException {
            if (rows instanceof Closeable open) {
                open.close();
            }
        }
    }
}
