package io.lakeport.spark.rows;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A subset of a column's rows. The column belongs to its reader. */
final class SomeRows extends ColumnVector {
    private final ColumnVector column;
    private final int[] places;

    private SomeRows(ColumnVector column, int[] places) {
        super(column.dataType());
        this.column = column;
        this.places = places;
    }

    static ColumnarBatch of(ColumnarBatch batch, int[] places) {
        ColumnVector[] columns = new ColumnVector[batch.numCols()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = new SomeRows(batch.column(i), places);
        }
        return new ColumnarBatch(columns, places.length);
    }

    @Override
    public void close() {}

    @Override
    public boolean hasNull() {
        return column.hasNull();
    }

    @Override
    public int numNulls() {
        int nulls = 0;
        for (int place : places) {
            nulls += column.isNullAt(place) ? 1 : 0;
        }
        return nulls;
    }

    @Override
    public boolean isNullAt(int row) {
        return column.isNullAt(places[row]);
    }

    @Override
    public boolean getBoolean(int row) {
        return column.getBoolean(places[row]);
    }

    @Override
    public byte getByte(int row) {
        return column.getByte(places[row]);
    }

    @Override
    public short getShort(int row) {
        return column.getShort(places[row]);
    }

    @Override
    public int getInt(int row) {
        return column.getInt(places[row]);
    }

    @Override
    public long getLong(int row) {
        return column.getLong(places[row]);
    }

    @Override
    public float getFloat(int row) {
        return column.getFloat(places[row]);
    }

    @Override
    public double getDouble(int row) {
        return column.getDouble(places[row]);
    }

    @Override
    public ColumnarArray getArray(int row) {
        return column.getArray(places[row]);
    }

    @Override
    public ColumnarMap getMap(int row) {
        return column.getMap(places[row]);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        return column.getDecimal(places[row], precision, scale);
    }

    @Override
    public UTF8String getUTF8String(int row) {
        return column.getUTF8String(places[row]);
    }

    @Override
    public byte[] getBinary(int row) {
        return column.getBinary(places[row]);
    }

    /** A struct field or part of a variant: it has one value per row. */
    @Override
    public ColumnVector getChild(int ordinal) {
        return new SomeRows(column.getChild(ordinal), places);
    }
}
