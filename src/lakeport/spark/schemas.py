"""Table schemas in Spark, and frames' schemas in tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lakeport.errors import CorruptTableError, InvalidDataError, UnsupportedFeatureError
from lakeport.kernel.schema import (
    COMMENT,
    DataType,
    StructField,
    StructType,
    all_nullable,
    format_schema,
    map_fields,
    parse_schema,
    parts_of,
    quoted,
    same_shape,
)

_KEPT = (COMMENT, "__CHAR_VARCHAR_TYPE_STRING")
"""Column metadata that tables keep: comments, and the lengths of `char` and `varchar`."""

FIRST_CERTAIN_YEAR = 1901
"""Spark passes dates and times through Java's old calendar, in which early ones differ or are missing."""


def to_spark_schema(schema: StructType) -> spark.StructType:
    """The same columns and nullability; of their metadata, Spark gets only comments."""

    def plain(field: StructField) -> StructField:
        return replace(field, metadata={key: field.metadata[key] for key in (COMMENT,) if key in field.metadata})

    return spark_struct(map_fields(schema, plain))


def spark_struct(schema: StructType) -> spark.StructType:
    """The same columns, with all of their metadata."""
    return spark.StructType.fromJson(json.loads(format_schema(schema)))


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
        raise ValueError(f"the column {'.'.join(path)!r} is nullable in the table, but not in the given schema")
    if isinstance(found.type, StructType) and isinstance(wanted.type, StructType):
        return [column for field in wanted.type for column in _columns(table, field, path)]
    if not same_shape(found.type, wanted.type):
        known, given = (to_spark_schema(StructType((f,)))[0].dataType.simpleString() for f in (found, wanted))
        raise ValueError(
            f"the column {'.'.join(path)!r} is {known} in the table, but {given} in the given schema; cast it after "
            "reading"
        )
    return [quoted(*path)]


def _nullable_parts(nullable: bool, data_type: DataType) -> Iterator[bool]:
    """The nullability of a column and of its array elements and map values; struct fields have their own."""
    yield nullable
    for part in () if isinstance(data_type, StructType) else parts_of(data_type):
        yield from _nullable_parts(part.nullable, part.type)


def to_table_schema(schema: spark.StructType) -> StructType:
    """The table columns for a frame's rows. All are nullable, as in every table that Spark creates from a frame: later
    frames may have nulls even if this one has none.

    Raises `InvalidDataError` for a type that Delta lacks."""
    return all_nullable(StructType(tuple(map(_parse, schema.fields))), keep=_KEPT)


def _parse(field: spark.StructField) -> StructField:
    try:
        return parse_schema(spark.StructType([field]).json()).fields[0]
    except (UnsupportedFeatureError, CorruptTableError) as error:
        raise InvalidDataError(
            f"the column {field.name!r} has the type {field.dataType.simpleString()}, which Delta does not support: "
            "cast it to another type first",
            column=field.name,
        ) from error
