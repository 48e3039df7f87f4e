package io.lakeport.spark.columns;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The names or ids under which files store the table's columns and their struct fields. */
public final class StoredNames {
    private final StructType table;
    private final StructType stored;

    /** The table's columns and their stored counterparts, in the same order. */
    public StoredNames(StructType table, StructType stored) {
        this.table = table;
        this.stored = stored;
    }

    /** Some table columns or fields, as stored. Columns that Spark adds stay unchanged. */
    public StructType of(StructType wanted) {
        return fields(wanted, table, stored);
    }

    /** The stored path of a column or nested field; null if there is none. */
    String[] of(String[] path) {
        String[] names = new String[path.length];
        DataType type = table;
        DataType inFiles = stored;
        for (int i = 0; i < path.length; i++) {
            int place = type instanceof StructType ? place(path[i], (StructType) type) : -1;
            if (place < 0) {
                return null;
            }
            StructField field = ((StructType) inFiles).fields()[place];
            names[i] = field.name();
            type = ((StructType) type).fields()[place].dataType();
            inFiles = field.dataType();
        }
        return names;
    }

    private static StructType fields(StructType wanted, StructType table, StructType stored) {
        StructField[] fields = wanted.fields().clone();
        for (int i = 0; i < fields.length; i++) {
            int place = place(fields[i].name(), table);
            if (place >= 0) {
                StructField inFiles = stored.fields()[place];
                DataType type = type(fields[i].dataType(), table.fields()[place].dataType(), inFiles.dataType());
                Metadata both = new MetadataBuilder().withMetadata(fields[i].metadata()).withMetadata(inFiles.metadata()).build();
                fields[i] = new StructField(inFiles.name(), type, fields[i].nullable(), both);
            }
        }
        return new StructType(fields);
    }

    private static DataType type(DataType wanted, DataType table, DataType stored) {
        if (wanted instanceof StructType && table instanceof StructType) { // Spark selects variant parts like fields
            return fields((StructType) wanted, (StructType) table, (StructType) stored);
        }
        if (wanted instanceof ArrayType) {
            ArrayType array = (ArrayType) wanted;
            DataType element = type(array.elementType(), ((ArrayType) table).elementType(), ((ArrayType) stored).elementType());
            return new ArrayType(element, array.containsNull());
        }
        if (wanted instanceof MapType) {
            MapType map = (MapType) wanted;
            DataType key = type(map.keyType(), ((MapType) table).keyType(), ((MapType) stored).keyType());
            DataType value = type(map.valueType(), ((MapType) table).valueType(), ((MapType) stored).valueType());
            return new MapType(key, value, map.valueContainsNull());
        }
        return wanted;
    }

    /** Column names are unique ignoring case. */
    private static int place(String name, StructType table) {
        StructField[] fields = table.fields();
        for (int i = 0; i < fields.length; i++) {
            if (fields[i].name().equalsIgnoreCase(name)) {
                return i;
            }
        }
        return -1;
    }
}
