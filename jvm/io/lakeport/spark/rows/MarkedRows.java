package io.lakeport.spark.rows;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * Reads files with deleted rows, and drops these rows; in batches it marks them in the position column. Spark's own
 * metadata column would build a struct with position and file for each row.
 */
public final class MarkedRows extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1;
    /** Row positions in their file: Spark's reader recognizes this column by its name. */
    public static final StructField POSITION =
            new StructField(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME(), DataTypes.LongType, true, Metadata.empty());
    private static final long DELETED = -1;

    private final Function1<PartitionedFile, Iterator<InternalRow>> reader;
    private final DeletedRows deleted;
    private final int place;

    /** The reader returns the columns of a schema that includes `POSITION`. */
    public MarkedRows(Function1<PartitionedFile, Iterator<InternalRow>> reader, StructType wanted, DeletedRows deleted) {
        this.reader = reader;
        this.deleted = deleted;
        this.place = wanted.fieldIndex(POSITION.name());
    }

    static boolean isDeleted(long position) {
        return position == DELETED;
    }

    /** Spark's row iterators may contain batches. */
    @Override
    @SuppressWarnings("unchecked")
    public Iterator<InternalRow> apply(PartitionedFile file) {
        Iterator<Object> rows = (Iterator<Object>) (Iterator<?>) reader.apply(file);
        return (Iterator<InternalRow>) (Iterator<?>) new Marked(rows, file.modificationTime());
    }

    private DeletedRows.Positions deletedOf(long file) {
        try {
            return deleted.of(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private final class Marked extends ReadRows {
        private final long file;
        /** Set with the first rows: a file may have no matching rows. */
        private DeletedRows.Positions positions;

        Marked(Iterator<Object> rows, long file) {
            super(rows);
            this.file = file;
        }

        /** Rows may be read-only. */
        @Override
        Object kept(Object next) {
            positions = positions == null ? deletedOf(file) : positions;
            if (next instanceof ColumnarBatch batch) {
                mark((WritableColumnVector) batch.column(place), batch.numRows());
                return batch;
            }
            return positions.contains(((InternalRow) next).getLong(place)) ? null : next;
        }

        private void mark(WritableColumnVector column, int rows) {
            long start = rows == 0 ? 0 : column.getLong(0);
            if (rows == 0 || column.getLong(rows - 1) - start == rows - 1) { // the common case: no page was skipped
                positions.forEachAmong(start, rows, row -> column.putLong(row, DELETED));
                return;
            }
            for (int row = 0; row < rows; row++) {
                if (positions.contains(column.getLong(row))) {
                    column.putLong(row, DELETED);
                }
            }
        }
    }
}
