"""Table schemas in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lakeport.kernel.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    format_schema,
    parse_schema,
)

_KEPT = ("comment",)
"""Column metadata to keep; the rest matters only to file readers."""

FIRST_CERTAIN_YEAR = 1901
"""Spark passes dates and times through Java's old calendar, in which early ones differ or are missing."""


def to_spark_schema(schema: StructType) -> spark.StructType:
    """The same columns and nullability; of their metadata, Spark gets only comments."""
    plain = StructType(tuple(map(_plain, schema)))
    return spark.StructType.fromJson(json.loads(format_schema(plain)))


def spark_arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for these columns."""
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)  # Spark 4.1 defaults to UTC


def selected_columns(table: StructType, wanted: spark.StructType) -> list[str]:
    """The table's columns that a schema selects, with structs reduced to its fields, for `Frame.select`. Raises
    `UnknownColumnError` for a column that the table lacks, and `ValueError` for one of another type, or non-nullable
    where the table allows nulls."""
    return [column for field in parse_schema(wanted.json()) for column in _columns(table, field, ())]


def _columns(table: StructType, wanted: StructField, parents: tuple[str, ...]) -> list[str]:
    path = (*parents, wanted.name)
    found = table.resolve(path)[-1]
    nullable = (_nullable_parts(field.nullable, field.type) for field in (found, wanted))
    if any(known and not given for known, given in zip(*nullable, strict=False)):
        raise ValueError(
            f"the column {'.'.join(path)!r} can have nulls in the table, and none in the schema that was given"
        )
    if isinstance(found.type, StructType) and isinstance(wanted.type, StructType):
        return [column for field in wanted.type for column in _columns(table, field, path)]
    if any_nullable(found.type) != any_nullable(wanted.type):
        known, given = (to_spark_schema(StructType((f,)))[0].dataType.simpleString() for f in (found, wanted))
        raise ValueError(
            f"the column {'.'.join(path)!r} is {known} in the table, and {given} in the schema that was given; cast it "
            "after reading"
        )
    return [".".join(f"`{name.replace('`', '``')}`" for name in path)]


def _nullable_parts(nullable: bool, data_type: DataType) -> Iterator[bool]:
    """The nullability of a column and of its array elements and map values; struct fields have their own."""
    yield nullable
    match data_type:
        case ArrayType(element, contains_null):
            yield from _nullable_parts(contains_null, element)
        case MapType(_, value, contains_null):
            yield from _nullable_parts(contains_null, value)


def _plain(field: StructField) -> StructField:
    kept = {name: value for name, value in field.metadata.items() if name in _KEPT}
    return replace(field, type=_plain_type(field.type), metadata=kept)


def _plain_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(map(_plain, fields)))
        case ArrayType(element, contains_null):
            return ArrayType(_plain_type(element), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_plain_type(key), _plain_type(value), contains_null)
    return data_type


def any_nullable(data_type: DataType) -> DataType:
    """The type with all parts nullable, and without their metadata."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(f.name, any_nullable(f.type)) for f in fields))
        case ArrayType(element):
            return ArrayType(any_nullable(element))
        case MapType(key, value):
            return MapType(any_nullable(key), any_nullable(value))
    return data_type
