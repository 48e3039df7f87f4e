"""Checks that Spark's own reader returns exactly the kernel's rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.schemas import to_spark_schema

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
_V1 = "spark.sql.sources.useV1SourceList"
_SETTINGS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
"""Session settings, and the values required for the same rows as the kernel's. They are the defaults."""
VOID, _BINARY = PrimitiveType("void"), PrimitiveType("binary")
_SPARKS_OWN = {"_metadata", "_tmp_metadata_row_index"}


def why_not_readable(snapshot: Snapshot, spark: SparkSession) -> str | None:
    """Why a table must be read in Python; None if Spark can read it."""
    return (
        _setting_against(spark)
        or _mapping_against(snapshot, spark)
        or next(filter(None, map(_column_against, snapshot.schema)), None)
        or next(
            (f"the partition column {f.name!r} is binary" for f in snapshot.partition_fields if f.type == _BINARY), None
        )
    )


def needed_settings(snapshot: Snapshot) -> dict[str, str]:
    """The settings that the session must still have when a query on the table runs."""
    return _SETTINGS | ({FIELD_IDS: "true"} if snapshot.mapping_mode == "id" else {})


def _setting_against(spark: SparkSession) -> str | None:
    for name, needed in _SETTINGS.items():
        if str(spark.conf.get(name, needed)).lower() != needed:
            return f"the session has {name} set to other than {needed}"
    if "parquet" not in str(spark.conf.get(_V1, "parquet")).lower().split(","):
        return f"the session has no parquet in {_V1}"
    return None


def _mapping_against(snapshot: Snapshot, spark: SparkSession) -> str | None:
    if snapshot.mapping_mode == "id" and spark.conf.get(FIELD_IDS, "false") != "true":
        return f"its columns are matched by ids: set {FIELD_IDS} to true"
    return None


def _column_against(field: StructField) -> str | None:
    if field.name.lower() in _SPARKS_OWN:
        return f"it has a column {field.name!r}, which means something else in Spark"
    if field.type != VOID and VOID in types_in(field.type):
        return f"a part of the column {field.name!r} is void"
    return None


def physical_schema(schema: StructType, mode: str) -> spark_types.StructType:
    """The columns with the names or ids they have in data files, without those that no file has."""
    stored = StructType(tuple(_physical(field, mode) for field in schema if field.type != VOID))
    plain = to_spark_schema(stored)
    return plain if mode != "id" else _with_ids(plain, stored)


def _physical(field: StructField, mode: str) -> StructField:
    return replace(field, name=field.physical_name(mode), type=_physical_type(field.type, mode))


def _physical_type(data_type: DataType, mode: str) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_physical(field, mode) for field in fields))
        case ArrayType(element, contains_null):
            return ArrayType(_physical_type(element, mode), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_physical_type(key, mode), _physical_type(value, mode), contains_null)
    return data_type


def _with_ids(plain: Any, stored: DataType) -> Any:
    """The same Spark type, with field ids where its reader expects them."""
    match stored:
        case StructType(fields):
            return spark_types.StructType([_field_with_id(p, f) for p, f in zip(plain, fields, strict=True)])
        case ArrayType(element):
            return spark_types.ArrayType(_with_ids(plain.elementType, element), plain.containsNull)
        case MapType(key, value):
            parts = _with_ids(plain.keyType, key), _with_ids(plain.valueType, value)
            return spark_types.MapType(*parts, plain.valueContainsNull)
    return plain


def _field_with_id(plain: spark_types.StructField, field: StructField) -> spark_types.StructField:
    metadata = {} if field.field_id is None else {"parquet.field.id": field.field_id}
    return spark_types.StructField(plain.name, _with_ids(plain.dataType, field.type), plain.nullable, metadata)
