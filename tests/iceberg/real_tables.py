"""The real tables as a conversion finds them: which become mirrors, which are refused and why, and which reader has a
fault of its own with which table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import iceberg
from lakeport.errors import (
    ConversionError,
    CorruptTableError,
    LakeportError,
    MissingFileError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakeport.iceberg import Conversion
from tests.builder import read
from tests.test_acceptance import (
    MANIFEST,
    ODD_CHECKPOINT,
    assert_same_rows,
    canon,
    path_of,
    table_of,
    with_json_variants,
)


@dataclass(frozen=True)
class Refusal:
    error: type[LakeportError]
    text: str
    """Of the message."""
    reason: str | None = None
    """Of a `ConversionError`."""


NO_VARIANT = Refusal(ConversionError, "type variant, which Iceberg's format version 2 does not have", "type variant")
NO_VOID = Refusal(ConversionError, "type void, which Iceberg", "type void")
NO_IDS = Refusal(ConversionError, "has no field id in a data file whose other columns have ids", "field ids in files")
BROKEN_LOG = Refusal(CorruptTableError, "log")
FILES_GONE = Refusal(MissingFileError, "the file does not exist")
VECTORS_GONE = Refusal(MissingFileError, "deletion_vector_")
MANAGED = Refusal(UnsupportedFeatureError, "managed by a catalog")
UNKNOWN_FEATURE = Refusal(UnsupportedFeatureError, "geospatial")
NO_TABLE = Refusal(TableNotFoundError, "there is no Delta table")

REFUSED_ALWAYS = {
    "golden--canonicalized-paths-normal-a": BROKEN_LOG,
    "golden--canonicalized-paths-special-a": BROKEN_LOG,
    "golden--canonicalized-paths-special-b": BROKEN_LOG,
    "golden--checkpoint": FILES_GONE,
    "golden--corrupted-last-checkpoint": BROKEN_LOG,
    "golden--data-reader-absolute-paths-escaped-chars": BROKEN_LOG,
    "golden--deltalog-commit-info": BROKEN_LOG,
    "golden--deltalog-state-reconstruction-from-checkpoint-missing-metadata": BROKEN_LOG,
    "golden--deltalog-state-reconstruction-from-checkpoint-missing-protocol": BROKEN_LOG,
    "golden--deltalog-state-reconstruction-without-protocol": BROKEN_LOG,
    "golden--log-replay-special-characters-b": FILES_GONE,
    "golden--log-store-read": NO_TABLE,
    "golden--table-with-columnmapping-mode-id": NO_IDS,
    "golden--table-with-columnmapping-mode-name": NO_IDS,
    "golden--versions-not-contiguous": BROKEN_LOG,
    "kdef--catalog-owned-preview": MANAGED,
    "krs--crc-malformed": NO_TABLE,
    "krs--table-with-geo": UNKNOWN_FEATURE,
    "krs--void-column": NO_VOID,
    "krsgold--canonicalized-paths-normal-a": FILES_GONE,
    "krsgold--canonicalized-paths-special-a": FILES_GONE,
    "krsgold--canonicalized-paths-special-b": FILES_GONE,
    "spark--partitioned-table-with-dv-large": VECTORS_GONE,
    "spark--table-with-dv-large": VECTORS_GONE,
    "spark--table-with-dv-small": VECTORS_GONE,
    "spark--table-with-dv-special-char": VECTORS_GONE,
    "uc--catalog_managed_0": MANAGED,
}
WITH_VARIANTS = {
    "golden--spark-variant-checkpoint",
    "kdef--spark-variant-stable-feature-checkpoint",
    "krs--unshredded-variant",
    "spark--variant-stats-nested-no-checkpoint",
    "spark--variant-stats-state-reconstruction",
    "spark--variant-stats-with-struct-no-checkpoint",
}
REFUSED = {
    2: REFUSED_ALWAYS | dict.fromkeys(WITH_VARIANTS, NO_VARIANT),
    3: REFUSED_ALWAYS,
}
# Its data files were never there; the log has all that the conversion needs.
NOT_COMPARED = {"kdef--spark-variant-stable-feature-checkpoint"}
# The first version that can be read: earlier ones need data files that are gone, or have a schema that only the
# checkpoint of the latest knows.
FIRST_VERSIONS = {
    "golden--deltalog-getChanges": 1,
    "golden--log-replay-special-characters": 1,
    "golden--log-replay-special-characters-a": 1,
    "golden--snapshot-vacuumed": 5,
    "krs--table-with-cdf": 1,
    ODD_CHECKPOINT: 1,
}


@dataclass(frozen=True)
class Fault:
    """What a reader does wrong with a table that others read."""

    what: str
    error: str | None = None
    """Part of the message with which it fails."""
    columns: tuple[str, ...] = ()
    """Those that it reads wrongly, if it does not fail."""


NO_VARIANTS = Fault("it has no variants", error="Unsupported field type: 'variant'")
NANOSECONDS = Fault(
    "it takes INT96 for nanoseconds, which version 3 has a type for", error="Unsupported schema projection"
)
NULL_LISTS = Fault("null lists and maps of structs are empty", columns=("array_of_structs", "map_of_rows"))
OLD_LISTS = Fault("it does not know lists of two levels", error="Vector::Reference used on vector")
UNNAMED_VARIANTS = Fault("it knows variants only by Parquet's name for them", error="type conversion not allowed")
SHREDDED_VARIANTS = Fault("it does not know all shredded variants", error="shredded typed_value primitive")
WITH_UNNAMED_VARIANTS = {"golden--spark-variant-checkpoint", "krs--unshredded-variant"}
WITH_INT96 = {
    "golden--data-reader-date-types-America--Los_Angeles",
    "golden--data-reader-date-types-Etc--GMT+9",
    "golden--data-reader-date-types-PST",
    "golden--data-skipping-basic-stats-all-types",
    "golden--data-skipping-basic-stats-all-types-columnmapping-id",
    "golden--data-skipping-basic-stats-all-types-columnmapping-name",
    "golden--kernel-timestamp-INT96",
    "golden--parquet-all-types",
    "golden--parquet-all-types-legacy-format",
    "krs--parquet_row_group_skipping",
    "krs--timestamp-truncation-stats",
}
WITH_NULL_LISTS = {
    "golden--parquet-all-types",
    "golden--parquet-all-types-legacy-format",
    "golden--table-with-icebegCompatV2Enabled",
}
PYICEBERG_FAULTS = {
    2: dict.fromkeys(WITH_NULL_LISTS, NULL_LISTS),
    3: dict.fromkeys(WITH_NULL_LISTS, NULL_LISTS)
    | dict.fromkeys(WITH_INT96, NANOSECONDS)
    | dict.fromkeys(WITH_VARIANTS, NO_VARIANTS),
}
DUCKDB_FAULTS = {
    2: {"golden--parquet-all-types-legacy-format": OLD_LISTS},
    3: {"golden--parquet-all-types-legacy-format": OLD_LISTS} | dict.fromkeys(WITH_UNNAMED_VARIANTS, UNNAMED_VARIANTS),
}
SPARK_FAULTS: dict[int, dict[str, Fault]] = {2: {}, 3: {"spark--variant-stats-state-reconstruction": SHREDDED_VARIANTS}}

NAMES = [entry["name"] for entry in MANIFEST]


def convertible(format_version: int) -> list[str]:
    """The tables that have a mirror whose rows can be compared."""
    return [name for name in NAMES if name not in REFUSED[format_version] and name not in NOT_COMPARED]


def convert(name: str, format_version: int, folder: Path) -> Conversion:
    """A mirror of the table, with all versions that still have their files."""
    path = path_of(name)
    since = FIRST_VERSIONS.get(name, _earliest(path))
    return iceberg.convert(
        path, out=str(folder / f"{name}-v{format_version}"), format_version=format_version, since=since
    )


@cache
def rows_of(name: str, version: int) -> pa.Table:
    """What the Delta table has at the version."""
    return read(table_of(name).snapshot_at_version(version))


def assert_rows(found: pa.Table, name: str, version: int, wrong: tuple[str, ...] = ()) -> None:
    """What a reader of the mirror found, with variants as JSON, is what the Delta table has, but for
    columns that it reads wrongly."""
    expected = rows_of(name, version)
    if wrong:
        assert found.column_names == expected.column_names
        assert canon().rows(found.select(wrong)) != canon().rows(expected.select(wrong)), "it reads them rightly by now"
        found, expected = found.drop_columns(list(wrong)), expected.drop_columns(list(wrong))
    if name in WITH_VARIANTS:
        expected = with_json_variants(expected)
        found = pa.Table.from_pylist(_with_sorted_keys(found.to_pylist()), found.schema)
    assert_same_rows(found, expected)


@contextmanager
def failing(fault: Fault | None) -> Iterator[tuple[str, ...]]:
    """The columns that a reader reads wrongly in the block; if it fails, it does so by this fault."""
    if fault is None or fault.error is None:
        yield () if fault is None else fault.columns
        return
    with pytest.raises(Exception, match=fault.error):
        yield ()


def _with_sorted_keys(value: Any) -> Any:
    """Values with all text that is an object in JSON as Python writes it."""
    if isinstance(value, list | tuple):
        return type(value)(map(_with_sorted_keys, value))
    if isinstance(value, dict):
        return {key: _with_sorted_keys(item) for key, item in value.items()}
    return json.dumps(json.loads(value), sort_keys=True) if isinstance(value, str) and value[:1] == "{" else value


def _earliest(path: str) -> int:
    return min(commit.version for commit in lakeport.scan(path).history())
