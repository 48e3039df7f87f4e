"""The real tables as a conversion finds them: which become mirrors, which are refused and why, and which reader has a
fault of its own with which table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
from lakeport.testing.builder import read
from tests.acceptance.comparing import assert_same_rows, canonical, with_json_variants
from tests.acceptance.real_tables import BY_NAME, MANIFEST, NAMES, ODD_CHECKPOINT, has_variants, path_of, table_of


@dataclass(frozen=True)
class Refusal:
    error: type[LakeportError]
    text: str
    """Of the message."""
    reason: str | None = None
    """Of a `ConversionError`."""


NO_VARIANT = Refusal(ConversionError, "type variant, which Iceberg's format version 2 does not support", "type variant")
NO_VOID = Refusal(ConversionError, "type void, which Iceberg", "type void")
NO_IDS = Refusal(ConversionError, "has no field id in a data file whose other columns have ids", "field ids in files")
NO_WIDENING = Refusal(ConversionError, "was widened from short to double", "widening short to double")
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
    "delta44--mapped-by-id": NO_IDS,
    "delta44--void": NO_VOID,
    "delta44--widened": NO_WIDENING,
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
WITH_VARIANTS = {entry["name"] for entry in MANIFEST if has_variants(entry)}
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
    sometimes: bool = False
    """Whether it depends on what the process has read before."""


NO_VARIANTS = Fault("it has no variants", error="Unsupported field type: 'variant'")
NANOSECONDS = Fault(
    "it takes INT96 for nanoseconds, which version 3 has a type for", error="Unsupported schema projection"
)
OLD_LISTS = Fault("it does not know lists of two levels", error="Vector::Reference used on vector")
UNNAMED_VARIANTS = Fault("it knows variants only by Parquet's name for them", error="type conversion not allowed")
SHREDDED_VARIANTS = Fault("it does not know all shredded variants", error="shredded typed_value primitive")
WITH_UNNAMED_VARIANTS = {"golden--spark-variant-checkpoint", "krs--unshredded-variant"}
WITH_INT96 = {
    "delta33--times",
    "delta33--types",
    "delta44--defaults",
    "delta44--dv-in-checkpoint",
    "delta44--generated",
    "delta44--partition-times",
    "delta44--partition-values",
    "delta44--times",
    "delta44--types",
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


def null_lists(*columns: str) -> Fault:
    return Fault("null lists and maps of structs are empty", columns=columns)


def from_files(*columns: str) -> Fault:
    """Iceberg lets readers take a partition column from files; in Delta only the log has it, and empty text is null."""
    return Fault("it takes partition values from files", columns=columns)


def shifted(*columns: str) -> Fault:
    return Fault("after columns without ids it reads partition columns as null", columns=columns)


IN_THE_FILES = {
    "delta44--partition-types": from_files("text"),
    "delta44--partition-values": from_files("city"),
    "odd--partition-column-in-files": from_files("city"),
}
WITH_STRING_VIEWS = {
    "deltalake--checkpoint-classic",
    "deltalake--checkpoint-v2",
    "deltalake--log-compacted",
    "deltalake--upgraded",
    "deltalake--vacuumed",
}
WITH_UNKNOWN_COLUMNS = {
    "delta44--cdf-by-vectors",
    "delta44--cdf-later",
    "delta44--cdf-mapped",
    "delta44--cdf-partitioned",
    "delta44--generated",
    "delta44--upgraded",
    "odd--unknown-column-in-files",
}
_BOTH_VERSIONS = {
    "delta33--partition-values": Fault("it reads a double from a partition as a float", columns=("f",), sometimes=True),
    "delta44--iceberg-compatible": null_lists("items"),
    "delta44--legacy-lists": null_lists("structs"),
    "delta44--nested": null_lists("a"),
    "deltalake--nested": null_lists("pairs"),
    "golden--parquet-all-types": null_lists("array_of_structs", "map_of_rows"),
    "golden--parquet-all-types-legacy-format": null_lists("array_of_structs", "map_of_rows"),
    "golden--table-with-icebegCompatV2Enabled": null_lists("array_of_structs", "map_of_rows"),
    **IN_THE_FILES,
    **dict.fromkeys(WITH_UNKNOWN_COLUMNS, Fault("it knows all columns", error="Could not find field with name")),
    **dict.fromkeys(WITH_STRING_VIEWS, Fault("it mixes two types of text", error="Unable to merge: Field name")),
}
_EARLY_TIMES = Fault("INT96 has earlier times than its nanoseconds", columns=("at",))
PYICEBERG_FAULTS = {
    2: _BOTH_VERSIONS | dict.fromkeys(["delta33--types", "delta44--types"], _EARLY_TIMES),
    3: _BOTH_VERSIONS | dict.fromkeys(WITH_INT96, NANOSECONDS) | dict.fromkeys(WITH_VARIANTS, NO_VARIANTS),
}
_OF_DUCKDB = {
    "delta44--cdf-mapped": shifted("name"),
    "delta44--cdf-partitioned": shifted("day", "kind"),
    "delta44--generated": shifted("day"),
    "delta44--legacy-lists": OLD_LISTS,
    "deltalake--nested": Fault("it does not take a null map in a null struct", error="did not map to a value"),
    "golden--parquet-all-types-legacy-format": OLD_LISTS,
    **IN_THE_FILES,
}
DUCKDB_FAULTS = {2: _OF_DUCKDB, 3: _OF_DUCKDB | dict.fromkeys(WITH_UNNAMED_VARIANTS, UNNAMED_VARIANTS)}
WITH_SHREDDED_VARIANTS = {"delta44--variants-shredded", "spark--variant-stats-state-reconstruction"}
SPARK_FAULTS: dict[int, dict[str, Fault]] = {2: {}, 3: dict.fromkeys(WITH_SHREDDED_VARIANTS, SHREDDED_VARIANTS)}


def convertible(format_version: int) -> list[str]:
    """The tables that have a mirror whose rows can be compared."""
    return [name for name in NAMES if name not in REFUSED[format_version] and name not in NOT_COMPARED]


def convert(name: str, format_version: int, folder: Path) -> Conversion:
    """A mirror of the table, with all versions that still have their files."""
    path = path_of(name)
    since = FIRST_VERSIONS.get(name, _earliest(name))
    return iceberg.convert(
        path, out=str(folder / f"{name}-v{format_version}"), format_version=format_version, since=since
    )


@cache
def rows_of(name: str, version: int) -> pa.Table:
    """What the Delta table has at the version."""
    return read(table_of(name).snapshot_at_version(version))


def assert_rows(found: pa.Table, name: str, version: int, wrong: Sequence[str] = ()) -> bool:
    """What a reader of the mirror found, with variants as JSON, is what the Delta table has, but for columns that it
    reads wrongly in some versions. Returns whether these are wrong here."""
    expected = rows_of(name, version)
    assert found.column_names == expected.column_names, f"{name} {version}"
    is_wrong = canonical(found.select(wrong)) != canonical(expected.select(wrong))
    found, expected = found.drop_columns(list(wrong)), expected.drop_columns(list(wrong))
    if name in WITH_VARIANTS:
        found, expected = with_json_variants(found, expected.schema), with_json_variants(expected)
    assert_same_rows(found, expected, f"{name} {version}")
    return is_wrong


@contextmanager
def failing(fault: Fault | None) -> Iterator[tuple[str, ...]]:
    """The columns that a reader reads wrongly in the block; if it fails, it does so by this fault."""
    if fault is None or fault.error is None:
        yield () if fault is None else fault.columns
        return
    with pytest.raises(Exception, match=fault.error):
        yield ()


def _earliest(name: str) -> int:
    """The first version that its writer could read, or else the first of its history."""
    if "writer" in BY_NAME[name]:
        return min(map(int, BY_NAME[name]["expected_versions"]))
    return min(commit.version for commit in lakeport.scan(path_of(name)).history())
