"""The columns of a Spark frame as table columns."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import types as spark

from lakeport.errors import CorruptTableError, InvalidDataError, UnsupportedFeatureError
from lakeport.kernel.schema import ArrayType, DataType, MapType, StructField, StructType, parse_schema

_KEPT = ("comment", "__CHAR_VARCHAR_TYPE_STRING")
"""Column metadata to keep: comments, and the lengths of `char` and `varchar`."""


def to_table_schema(schema: spark.StructType) -> StructType:
    """The table columns for a frame's rows. All are nullable, as in every table that Spark creates from a frame: later
    frames may have nulls even if this one has none.

    Raises `InvalidDataError` for a type that Delta lacks."""
    return StructType(tuple(_any_nullable(_parse(field)) for field in schema.fields))


def _parse(field: spark.StructField) -> StructField:
    try:
        return parse_schema(spark.StructType([field]).json()).fields[0]
    except (UnsupportedFeatureError, CorruptTableError) as error:
        raise InvalidDataError(
            f"the column {field.name!r} has the type {field.dataType.simpleString()}, which Delta does not have: cast "
            "it to another one first",
            column=field.name,
        ) from error


def _any_nullable(field: StructField) -> StructField:
    kept = {name: value for name, value in field.metadata.items() if name in _KEPT}
    return replace(field, type=_nullable_type(field.type), nullable=True, metadata=kept)


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(map(_any_nullable, fields)))
        case ArrayType(element):
            return ArrayType(_nullable_type(element))
        case MapType(key, value):
            return MapType(_nullable_type(key), _nullable_type(value))
    return data_type
