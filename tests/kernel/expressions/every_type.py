"""A schema with a column of every type."""

from __future__ import annotations

from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType

INT = PrimitiveType("integer")
TYPES = {
    "tiny": "byte",
    "small": "short",
    "n": "integer",
    "big": "long",
    "f": "float",
    "d": "double",
    "m": "decimal(5,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "flag": "boolean",
    "nothing": "void",
    "v": "variant",
}
POINT = StructType((StructField("X", INT),))
SCHEMA = StructType(
    (
        *(StructField(name, PrimitiveType(type_name)) for name, type_name in TYPES.items()),
        StructField("Point", POINT),
        StructField("list", ArrayType(INT)),
        StructField("map", MapType(INT, INT)),
    )
)
