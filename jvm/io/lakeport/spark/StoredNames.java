package io.lakeport.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Under which names, or with which ids, the files of a table hold its columns and the fields of their structs. */
final class StoredNames {
    private final StructType table;
    private final StructType stored;

    /** The columns of a table, and the same as its files have them, one beside the other. */
    StoredNames(StructType table, StructType stored) {
        this.table = table;
        this.stored = stored;
    }

    /** Some columns of the table, or some fields of them, as files have them. Others, which Spark adds, stay as they are. */
    StructType of(StructType wanted) {
        return fields(wanted, table, stored);
    }

    /** The path of a column, or of a field in it, in files; null where there is none. */
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
        if (wanted instanceof StructType && table instanceof StructType) { // of a variant, Spark asks for parts as for fields
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

    /** Names of a table do not differ by case only. */
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
