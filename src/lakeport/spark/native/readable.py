"""Checks that Spark's own reader returns exactly the kernel's rows."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from lakeport.kernel.schema import VOID, PrimitiveType, StructField, StructType, map_fields, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.schemas import spark_struct

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
_V1 = "spark.sql.sources.useV1SourceList"
_SETTINGS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
}
"""Session settings, and the values required for the same rows as the kernel's. They are the defaults."""
_BINARY = PrimitiveType("binary")
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
            return f"the session setting {name} is not {needed}"
    if "parquet" not in str(spark.conf.get(_V1, "parquet")).lower().split(","):
        return f"the session setting {_V1} does not list parquet"
    return None


def _mapping_against(snapshot: Snapshot, spark: SparkSession) -> str | None:
    if snapshot.mapping_mode == "id" and spark.conf.get(FIELD_IDS, "false") != "true":
        return f"its columns are matched by ids: set {FIELD_IDS} to true"
    return None


def _column_against(field: StructField) -> str | None:
    if field.name.lower() in _SPARKS_OWN:
        return f"it has a column {field.name!r}, a name with another meaning in Spark"
    if field.type != VOID and VOID in types_in(field.type):
        return f"a part of the column {field.name!r} is void"
    return None


def physical_schema(schema: StructType, mode: str) -> spark_types.StructType:
    """The columns with the names or ids they have in data files, without those that no file has."""

    def stored(field: StructField) -> StructField:
        has_id = mode == "id" and field.field_id is not None
        metadata = {"parquet.field.id": field.field_id} if has_id else {}
        return replace(field, name=field.physical_name(mode), metadata=metadata)

    return spark_struct(map_fields(StructType(tuple(f for f in schema if f.type != VOID)), stored))
