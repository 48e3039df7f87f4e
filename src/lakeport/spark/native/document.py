"""Whether Spark's own reader returns exactly the kernel's rows, and the document of a scan for it.

Files are in virtual directories named by partition values, from which Spark parses exactly these values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructType as SparkSchema

from lakeport.kernel.data_files import format_partition_value, parse_partition_value
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.schema import VOID, PrimitiveType, StructField, StructType, map_fields, types_in
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.driver import FileEntry, ScanDocument
from lakeport.spark.schemas import spark_struct, to_spark_schema

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


_NULL = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = re.compile(r"[^A-Za-z0-9 -]")


def describe_scan(plan: Scan, files: list[ScanFile], table: StructType, selected: StructType) -> ScanDocument:
    """The plan for the JVM, where `table` has the columns that it may need, and `selected` those to return."""
    snapshot = plan.snapshot
    partitions = snapshot.partition_columns
    checked = StructType(tuple(f for f in plan.schema if f.name not in partitions and f.type != VOID))
    return ScanDocument(
        files=[
            FileEntry(directory, file.size, file.deletion_vector is not None)
            for file, directory in zip(files, _directories(files, snapshot), strict=True)
        ],
        table=_json(to_spark_schema(table)),
        stored=_json(physical_schema(table, snapshot.mapping_mode)),
        selected=_json(to_spark_schema(selected)),
        checked=_json(to_spark_schema(checked)),
        settings=needed_settings(snapshot),
    )


def _json(schema: SparkSchema) -> msgspec.Raw:
    return msgspec.Raw(schema.json().encode())


def _directories(files: Iterable[ScanFile], snapshot: Snapshot) -> list[str]:
    """The directory of each file, `day=2026-01-31/country=NL`, with the table's column names."""
    stored, fields = snapshot.physical_partition_columns, snapshot.partition_fields
    known: dict[tuple[str | None, ...], str] = {}

    def directory(file: ScanFile) -> str:
        key = tuple(file.partition_values.get(name) for name in stored)
        if key not in known:
            values = [
                parse_partition_value(text, field, path=snapshot.root) for text, field in zip(key, fields, strict=True)
            ]
            known[key] = "/".join(
                f"{_escape(field.name)}={_text(value, field)}" for value, field in zip(values, fields, strict=True)
            )
        return known[key]

    return [directory(file) for file in files]


def _text(value: Any, field: StructField) -> str:
    """The text that Spark casts to the value in any time zone. It unescapes only strings and timestamps."""
    text = format_partition_value(value, field)
    if text is None:
        return _NULL
    assert isinstance(field.type, PrimitiveType)  # parsing rejected other types
    if (decimal := field.type.decimal) is not None:
        return format(value, f".{decimal[1]}f")  # Spark takes the digits as given, and the scale from the column
    return _escape(text) if field.type.name == "string" or field.type.name.startswith("timestamp") else text


def _escape(text: str) -> str:
    """Escape ASCII characters by code; a leading dot or underscore would hide a directory."""
    return _PLAIN.sub(lambda found: f"%{ord(found[0]):02X}" if ord(found[0]) < 128 else found[0], text)
