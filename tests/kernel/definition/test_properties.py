"""Table properties: their values, their defaults, and what may be set."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

import lakeport
from lakeport import tables
from lakeport.errors import CorruptTableError
from lakeport.kernel.definition import constraints_in, parse_interval, parse_size
from lakeport.kernel.definition import properties as properties
from lakeport.kernel.definition.properties import Property, check_properties, features_in, without_protocol_properties
from lakeport.kernel.schema import parse_column_list

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * DAY),
        ("30 days", 30 * DAY),
        ("interval 1 week 2 hours", 7 * DAY + 2 * 3_600_000),
        ("  INTERVAL  1 WEEKS ", 7 * DAY),
        ("1 minute 1.5 seconds 3 milliseconds 999 microseconds", 61_503),
        ("1 day -24 hours", 0),
        ("interval 0 hours", 0),
    ],
)
def test_intervals_are_read_as_spark_reads_them(text: str, milliseconds: int) -> None:
    assert parse_interval(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "interval", "interval ", "7", "days", "1 month", "1 year 2 days", "-1 days", "1 day x", "7d"]
)
def test_what_is_no_interval_of_fixed_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an interval"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1048576", 1 << 20), ("128mb", 128 << 20), ("1 GB", 1 << 30), ("5k", 5 << 10), ("9b", 9)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "mb", "-1", "1.5g", "1 parsec"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_a_list_of_columns_has_commas_dots_and_backticks() -> None:
    assert parse_column_list("a, b.c,`d,e`.`f.g`") == (("a",), ("b", "c"), ("d,e", "f.g"))
    assert parse_column_list("") == ()


@pytest.mark.parametrize("text", ["a,", ",", "a..b", "`a", "a,,b"])
def test_what_is_no_list_of_columns_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of columns"):
        parse_column_list(text)


@pytest.mark.parametrize(
    ("known", "default", "text", "value"),
    [
        (properties.CHECKPOINT_INTERVAL, 10, "100", 100),
        (properties.ENABLE_EXPIRED_LOG_CLEANUP, True, "False", False),
        (properties.LOG_RETENTION, 30 * DAY, "interval 1 day", DAY),
        (properties.DELETED_FILE_RETENTION, 7 * DAY, "2 weeks", 14 * DAY),
        (properties.TRANSACTION_RETENTION, None, "1 day", DAY),
        (properties.CHECKPOINT_STATS_AS_JSON, True, "false", False),
        (properties.CHECKPOINT_STATS_AS_STRUCT, False, "true", True),
        (properties.CHECKPOINT_POLICY, "classic", "v2", "v2"),
        (properties.ISOLATION_LEVEL, "WriteSerializable", "serializable", "Serializable"),
        (properties.TARGET_FILE_SIZE, 128 << 20, "1g", 1 << 30),
        (properties.COLUMN_MAPPING_MODE, "none", "id", "id"),
        (properties.COLUMN_MAPPING_MAX_ID, 0, "7", 7),
        (properties.INDEXED_COLUMNS, 32, "-1", -1),
        (properties.STATS_COLUMNS, None, "a,b", (("a",), ("b",))),
    ],
)
def test_a_property_has_its_value_or_its_default(known: Property[Any], default: Any, text: str, value: Any) -> None:
    assert known.of({}) == known.of({known.name: None}) == default
    assert known.of({known.name: text}) == value


def test_a_value_that_a_table_has_and_that_is_not_valid_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"delta.checkpointInterval is '0': it must be a number of commits, at least 1"
    ):
        properties.CHECKPOINT_INTERVAL.of({"delta.checkpointInterval": "0"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("delta.appendOnly", "yes", "delta.appendOnly is 'yes': it must be true or false"),
        ("delta.columnMapping.mode", "Name", "none, name or id"),
        ("delta.logRetentionDuration", "1 month", "months and years"),
        ("delta.isolationLevel", "SnapshotIsolation", "WriteSerializable or Serializable"),
        ("delta.minWriterVersion", "8", "from 1 to 7"),
        ("delta.dataSkippingNumIndexedCols", "-2", "-1 for all"),
        ("delta.feature.deletionVectors", "true", "'supported'"),
        ("delta.columnMapping.maxColumnId", "9", "cannot be set"),
        ("delta.enableFlyingCars", "true", "unknown table property delta.enableFlyingCars"),
        ("delta.appendonly", "true", "it is spelled delta.appendOnly"),
        ("Delta.appendOnly", "true", "it is spelled delta.appendOnly"),
        ("delta.appendOnly", True, "must be text, such as 'True'"),
        ("owner", 5, "must be text"),
        ("delta.universalFormat.enabledFormats", "iceberg", "does not write other formats"),
    ],
)
def test_what_must_not_be_set_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_properties({"owner": "me", name: value})


def test_what_may_be_set_passes() -> None:
    check_properties(
        {
            "owner": "me",
            "deltaforce": "x",
            "delta.appendOnly": "TRUE",
            "delta.constraints.positive": "a > 0",
            "delta.feature.deletionVectors": "supported",
            "delta.parquet.compression.codec": "zstd",
            "delta.autoOptimize.optimizeWrite": "true",
            "delta.targetFileSize": "64mb",
        }
    )


def test_constraints_and_features_are_found_by_their_prefix() -> None:
    configuration = {
        "delta.constraints.positive": "a > 0",
        "delta.constraints.none": None,
        "delta.feature.deletionVectors": "supported",
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "owner": "me",
    }
    assert constraints_in(configuration) == {"positive": "a > 0"}
    assert features_in(configuration) == ("deletionVectors",)
    kept = {"delta.constraints.positive": "a > 0", "delta.constraints.none": None, "owner": "me"}
    assert without_protocol_properties(configuration) == kept


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_flags_are_read_in_any_case(tmp_path: Path, text: str) -> None:
    path, flags = str(tmp_path), {"delta.enableInCommitTimestamps": text, "delta.enableRowTracking": text}
    tables.create(path, {"id": [1]}, properties=flags)
    os.utime(tmp_path / "_delta_log" / f"{0:020d}.json", (0, 0))
    frame = lakeport.scan(path)
    assert frame.snapshot.tracks_rows
    assert frame.with_row_tracking().to_arrow()["_row_id"].to_pylist() == [0]
    assert frame.snapshot.timestamp == frame.history()[0].timestamp > 0


def test_a_reader_names_the_table_of_a_property_that_is_not_valid() -> None:
    with pytest.raises(CorruptTableError, match="'yes': it must be true or false") as caught:
        properties.ENABLE_ROW_TRACKING.of({"delta.enableRowTracking": "yes"}, path="/t")
    assert caught.value.path == "/t"


def test_flags_are_asked_for_in_one_way() -> None:
    sources = Path(lakeport.__file__).parent.rglob("*.py")
    assert [str(path) for path in sources if re.search(r'(get\(|\[)f?"delta\.enable', path.read_text())] == []
