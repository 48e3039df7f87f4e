package io.lakeport.spark.rows;

import java.io.Serializable;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * Reads files; fails on a null in a non-nullable place: Spark does not check for nulls there and would return wrong
 * values. Deleted rows may have such nulls; they are dropped.
 */
public final class WithoutNulls extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final StructType wanted;
    private final int[] strict;
    private final int position;

    /** The reader returns the columns of a schema, with nulls if present; deleted rows are marked. */
    public WithoutNulls(Function1<PartitionedFile, Iterator<InternalRow>> reader, StructType wanted) {
        this.reader = reader;
        this.wanted = wanted;
        this.strict = IntStream.range(0, wanted.size()).filter(place -> Nulls.areForbidden(wanted.fields()[place])).toArray();
        this.position = wanted.getFieldIndex(MarkedRows.POSITION.name()).map(place -> (int) place).getOrElse(() -> -1);
    }

    public static boolean isNeeded(StructType wanted) {
        return IntStream.range(0, wanted.size()).anyMatch(place -> Nulls.areForbidden(wanted.fields()[place]));
    }

    /** Spark's row iterators may contain batches. */
    @Override
    @SuppressWarnings("unchecked")
    public Iterator<InternalRow> apply(PartitionedFile file) {
        Iterator<Object> rows = (Iterator<Object>) (Iterator<?>) reader.apply(file);
        return (Iterator<InternalRow>) (Iterator<?>) new Checked(rows);
    }

    /** The column of a row with a forbidden null; null if there is none. */
    private String lacking(InternalRow row) {
        for (int place : strict) {
            StructField field = wanted.fields()[place];
            if (Nulls.isForbidden(row, place, field.dataType(), field.nullable())) {
                return field.name();
            }
        }
        return null;
    }

    private boolean mayLack(ColumnarBatch batch) {
        for (int place : strict) {
            StructField field = wanted.fields()[place];
            if (Nulls.mayBeForbidden(batch.column(place), field.dataType(), field.nullable())) {
                return true;
            }
        }
        return false;
    }

    private final class Checked extends ReadRows {
        Checked(Iterator<Object> rows) {
            super(rows);
        }

        @Override
        Object kept(Object next) {
            return next instanceof ColumnarBatch batch ? keptOf(batch) : isKept((InternalRow) next) ? next : null;
        }

        private ColumnarBatch keptOf(ColumnarBatch batch) {
            if (!mayLack(batch)) {
                return batch;
            }
            IntPredicate isKept = place -> isKept(batch.getRow(place));
            int[] places = IntStream.range(0, batch.numRows()).filter(isKept).toArray();
            return places.length == batch.numRows() ? batch : SomeRows.of(batch, places);
        }

        /** Whether a row has no forbidden nulls. Only deleted rows may have them. */
        private boolean isKept(InternalRow row) {
            String column = lacking(row);
            if (column == null) {
                return true;
            }
            if (position < 0 || !MarkedRows.isDeleted(row.getLong(position))) {
                throw new IllegalStateException(
                        "a file of the table has nulls in the column '" + column + "', which is not nullable in the schema; ask the table's provider");
            }
            return false;
        }
    }
}
