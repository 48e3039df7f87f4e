package io.lakeport.spark.columns;

import io.lakeport.spark.rows.MarkedRows;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFooterReader;
import org.apache.spark.sql.execution.datasources.parquet.ParquetReadSupport;
import org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VariantType;

/**
 * Whether Spark's reader can convert a file's stored types to the table's. For other types it fails mid-query or
 * returns wrong values: it truncates integers to the last bits, and reads numbers as dates.
 */
public final class StoredTypes {
    private final StructType table;
    private final StructType stored;

    /** Some table columns and their stored counterparts. */
    public StoredTypes(StructType table, StructType stored) {
        this.table = table;
        this.stored = stored;
    }

    /** Describes a file's first column that Spark's reader cannot convert; null if there is none. */
    public String against(Path file, Configuration conf) throws IOException {
        HadoopInputFile input = HadoopInputFile.fromPath(file, conf);
        return against(ParquetFooterReader.readFooter(input, ParquetMetadataConverter.SKIP_ROW_GROUPS).getFileMetaData().getSchema());
    }

    private String against(MessageType file) {
        if (file.getFields().stream().anyMatch(field -> field.getName().equalsIgnoreCase(MarkedRows.POSITION.name()))) {
            return "a column '" + MarkedRows.POSITION.name() + "', a name that Spark reserves";
        }
        MessageType wanted = ParquetReadSupport.clipParquetSchema(file, stored, false, ParquetUtils.hasFieldIds(stored), true);
        for (int place = 0; place < stored.size(); place++) {
            DataType type = stored.fields()[place].dataType();
            DataType held = typeOf(wanted.getType(place));
            if (held == null || !isExact(held, type) || hasOddLeaf(wanted.getType(place), type.catalogString())) {
                String what = held == null ? wanted.getType(place).toString().replaceAll("\\s+", " ") : held.simpleString();
                return "the column '" + table.fields()[place].name() + "' as " + what + " instead of " + type.simpleString();
            }
        }
        return null;
    }

    /** The type that Spark infers; null if it infers none. */
    private static DataType typeOf(Type column) {
        try {
            return new ParquetToSparkSchemaConverter(new SQLConf()).convert(new MessageType("file", column)).fields()[0].dataType();
        } catch (Exception error) { // Scala does not declare exceptions
            return null;
        }
    }

    /** Spark infers decimals for unsigned numbers and text for fixed-length bytes; its reader converts neither. */
    private static boolean hasOddLeaf(Type column, String type) {
        for (ColumnDescriptor leaf : new MessageType("file", column).getColumns()) {
            LogicalTypeAnnotation kind = leaf.getPrimitiveType().getLogicalTypeAnnotation();
            boolean unsigned = kind instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation number && !number.isSigned();
            boolean fixed = kind == null && leaf.getPrimitiveType().getPrimitiveTypeName() == PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY;
            if (unsigned && type.contains("decimal(") || fixed && type.contains("string")) {
                return true;
            }
        }
        return false;
    }

    private static boolean isExact(DataType held, DataType wanted) {
        if (wanted instanceof VariantType || held instanceof VariantType) {
            return true;
        }
        if (wanted instanceof StructType outer) {
            return held instanceof StructType inner && isExact(inner, outer);
        }
        if (wanted instanceof ArrayType array) {
            return held instanceof ArrayType other && isExact(other.elementType(), array.elementType());
        }
        if (wanted instanceof MapType map) {
            return held instanceof MapType other && isExact(other.keyType(), map.keyType()) && isExact(other.valueType(), map.valueType());
        }
        return held.equals(wanted) || widens(held, wanted);
    }

    /** Spark asks for parts of a variant that differ from the stored ones. */
    private static boolean isExact(StructType held, StructType wanted) {
        for (int place = 0; held.size() == wanted.size() && place < wanted.size(); place++) {
            if (!isExact(held.fields()[place].dataType(), wanted.fields()[place].dataType())) {
                return false;
            }
        }
        return true;
    }

    private static boolean widens(DataType held, DataType wanted) {
        int digits = digits(held);
        if (wanted instanceof DecimalType decimal) {
            int before = decimal.precision() - decimal.scale();
            boolean fits = held instanceof DecimalType other && other.scale() <= decimal.scale() && other.precision() - other.scale() <= before;
            return fits || digits > 0 && digits <= before;
        }
        if (digits(wanted) > 0) {
            return digits > 0 && held.defaultSize() <= wanted.defaultSize();
        }
        if (wanted.equals(DataTypes.DoubleType)) {
            return held.equals(DataTypes.FloatType) || digits > 0 && held.defaultSize() <= Integer.BYTES;
        }
        if (wanted instanceof TimestampNTZType && held.equals(DataTypes.DateType)) {
            return true;
        }
        return isMoment(held) && isMoment(wanted) || isBytes(held) && isBytes(wanted);
    }

    /** The integer digits of the decimal that Spark makes of an integer; 0 for other types. */
    private static int digits(DataType type) {
        if (type.equals(DataTypes.LongType)) {
            return 20;
        }
        return type.equals(DataTypes.ByteType) || type.equals(DataTypes.ShortType) || type.equals(DataTypes.IntegerType) ? 10 : 0;
    }

    private static boolean isMoment(DataType type) {
        return type instanceof TimestampType || type instanceof TimestampNTZType;
    }

    private static boolean isBytes(DataType type) {
        return type instanceof StringType || type instanceof BinaryType;
    }
}
