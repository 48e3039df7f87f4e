package io.lakeport.spark.rows;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Nulls where the schema forbids them: in columns, struct fields, array elements and map values. */
final class Nulls {
    private Nulls() {}

    /** Whether the schema forbids nulls anywhere in a column. */
    static boolean areForbidden(StructField field) {
        return !field.nullable() || areForbiddenIn(field.dataType());
    }

    private static boolean areForbiddenIn(DataType type) {
        if (type instanceof StructType struct) {
            return Arrays.stream(struct.fields()).anyMatch(Nulls::areForbidden);
        }
        if (type instanceof ArrayType array) {
            return !array.containsNull() || areForbiddenIn(array.elementType());
        }
        return type instanceof MapType map && (!map.valueContainsNull() || areForbiddenIn(map.keyType()) || areForbiddenIn(map.valueType()));
    }

    /** Whether a batch may have such nulls. Its null flags also cover fields of null structs. */
    static boolean mayBeForbidden(ColumnVector column, DataType type, boolean nullable) {
        if (!nullable && column.hasNull()) {
            return true;
        }
        if (!areForbiddenIn(type)) {
            return false;
        }
        if (type instanceof StructType struct) {
            for (int place = 0; place < struct.size(); place++) {
                StructField field = struct.fields()[place];
                if (mayBeForbidden(column.getChild(place), field.dataType(), field.nullable())) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType array) {
            return mayBeForbidden(column.getChild(0), array.elementType(), array.containsNull());
        }
        MapType map = (MapType) type;
        return mayBeForbidden(column.getChild(0), map.keyType(), true) || mayBeForbidden(column.getChild(1), map.valueType(), map.valueContainsNull());
    }

    /** Whether a value of a row, struct or array is or contains a forbidden null. */
    static boolean isForbidden(SpecializedGetters values, int place, DataType type, boolean nullable) {
        if (values.isNullAt(place)) {
            return !nullable;
        }
        if (!areForbiddenIn(type)) {
            return false;
        }
        if (type instanceof StructType struct) {
            InternalRow inner = values.getStruct(place, struct.size());
            for (int i = 0; i < struct.size(); i++) {
                if (isForbidden(inner, i, struct.fields()[i].dataType(), struct.fields()[i].nullable())) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType array) {
            return isForbiddenAmong(values.getArray(place), array.elementType(), array.containsNull());
        }
        MapType map = (MapType) type;
        return isForbiddenAmong(values.getMap(place).keyArray(), map.keyType(), true)
                || isForbiddenAmong(values.getMap(place).valueArray(), map.valueType(), map.valueContainsNull());
    }

    private static boolean isForbiddenAmong(ArrayData elements, DataType type, boolean nullable) {
        for (int i = 0; i < elements.numElements(); i++) {
            if (isForbidden(elements, i, type, nullable)) {
                return true;
            }
        }
        return false;
    }
}
