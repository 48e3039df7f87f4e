"""The document of a scan. Files are in virtual directories named by partition values, from which Spark parses exactly
these values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from pyspark.sql.types import StructType as SparkSchema

from lakeport.kernel.data_files import format_partition_value, parse_partition_value
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.schema import VOID, PrimitiveType, StructField, StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.driver import FileEntry, ScanDocument
from lakeport.spark.native.readable import needed_settings, physical_schema
from lakeport.spark.schemas import to_spark_schema

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
