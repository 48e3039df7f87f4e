"""Partition values: strings of the log as typed columns."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError
from lakeport.kernel.data_files import format_partition_value, parse_partition_value
from lakeport.kernel.expressions import Expression, col, lit, parse_filter
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.kernel.values import days_of, microseconds_of
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, rows, struct

VALUES = [
    ("string", "a b/ü%41", "a b/ü%41"),
    ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    ("string", "null", "null"),
    ("long", "-9223372036854775808", -(2**63)),
    ("integer", "7", 7),
    ("short", "-3", -3),
    ("byte", "127", 127),
    ("float", "1.5", 1.5),
    ("double", "-Infinity", float("-inf")),
    ("double", "1.0E10", 1e10),
    ("boolean", "true", True),
    ("boolean", "False", False),
    ("binary", "\u0001ab", b"\x01ab"),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("decimal(10,2)", "12.30", Decimal("12.30")),
    ("decimal(10,2)", "-5", Decimal("-5.00")),
    ("decimal(3,2)", "1E-2", Decimal("0.01")),
    ("decimal(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("timestamp", "2026-01-31 12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ("timestamp", "2026-01-31 12:00:00.123456", datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
    ("timestamp", "2026-01-31T12:00:00.123456Z", datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
    ("timestamp", "2026-01-31T12:00:00.123456789Z", datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
    ("timestamp", "2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
    ("timestamp", "1969-12-31 23:59:59.9", datetime(1969, 12, 31, 23, 59, 59, 900000, UTC)),
    ("timestamp_ntz", "2026-01-31 12:00:00.5", datetime(2026, 1, 31, 12, 0, 0, 500000)),
]


def field(kind: str) -> StructField:
    return StructField("p", PrimitiveType(kind))


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_text_becomes_a_value_of_the_type(kind: str, text: str, value: Any) -> None:
    assert parse_partition_value(text, field(kind), path="") == value


DAY = 86_400_000_000
FAR = [
    ("date", "-0001-01-01", -719893),
    ("date", "0000-02-29", -719469),
    ("date", "+10000-01-01", 2932897),
    ("date", "+5881580-07-11", 2**31 - 1),
    ("timestamp", "-0001-01-01 00:00:00", -719893 * DAY),
    ("timestamp", "-0001-12-31T23:30:00.000001-01:00", -719528 * DAY + 1_800_000_001),
    ("timestamp", "0001-01-01T00:30:00+01:00", -719162 * DAY - 1_800_000_000),
    ("timestamp", "+10000-01-01T01:00:00.123456Z", 2932897 * DAY + 3_600_123_456),
    ("timestamp_ntz", "-0044-03-15 12:00:00.5", -735525 * DAY + 43_200_500_000),
    ("timestamp_ntz", "+10000-01-01 00:00:00", 2932897 * DAY),
]
"""Beyond the years 1 to 9999, which Python's dates can have: what Arrow stores."""


@pytest.mark.parametrize(("kind", "text", "stored"), FAR)
@pytest.mark.parametrize("form", [None, "v2-json"])
def test_years_before_1_and_after_9999_are_read(kind: str, text: str, stored: int, form: str | None) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(id="long", p=kind), ["p"])
    table.create(*(table.add({"id": [i]}, {"p": t}) for i, t in enumerate([text, "2026-01-31", None])))
    if form:
        table.checkpoint(form=form)

    def found(predicate: Expression | None = None) -> list[tuple[int, int | None]]:
        rows = read(table.snapshot(), predicate)
        numbers = rows["p"].cast(pa.int32() if kind == "date" else pa.int64())
        return list(zip(rows["id"].to_pylist(), numbers.to_pylist(), strict=True))

    assert found()[0] == (0, stored)
    before = stored < 0
    assert [row[0] for row in found(col("p") < lit(date(1000, 1, 1)))] == ([0] if before else [])
    assert [row[0] for row in found(col("p") > lit(date(9000, 1, 1)))] == ([] if before else [0])
    exact = lit(parse_partition_value(text, field(kind), path=""))
    assert found(col("p") == exact) == [(0, stored)]
    assert [row[0] for row in found(col("p") < exact)] == ([] if before else [1])
    assert found(parse_filter(f"p IN ('{exact.value}')")) == [(0, stored)]


@pytest.mark.parametrize(("kind", "text", "stored"), FAR)
def test_years_before_1_and_after_9999_are_written(kind: str, text: str, stored: int) -> None:
    written = format_partition_value(parse_partition_value(text, field(kind), path=""), field(kind))
    value = parse_partition_value(written, field(kind), path="")
    assert (days_of(value) if kind == "date" else microseconds_of(value)) == stored
    if kind != "timestamp":  # whose texts are in several zones
        assert (written or "").removesuffix("00000") == text


def test_rows_of_such_years_can_be_changed(tmp_path: Path) -> None:
    days = pa.array([-719893, 2932897, 0], pa.int32()).cast(pa.date32())
    tables.create(str(tmp_path), pa.table({"id": [1, 2, 3], "p": days}), partition_by=["p"])
    tables.update(str(tmp_path), {"id": "id + 10"}, "id < 3")
    found = lakeport.scan(str(tmp_path)).to_arrow().sort_by("id")
    assert found["p"].cast(pa.int32()).to_pylist() == [0, -719893, 2932897]
    assert {path.name for path in tmp_path.glob("p=*")} == {"p=-0001-01-01", "p=+10000-01-01", "p=1970-01-01"}


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in VALUES}))
def test_empty_text_is_null_for_every_type(kind: str) -> None:
    assert parse_partition_value("", field(kind), path="") is None
    assert parse_partition_value(None, field(kind), path="") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("byte", "128"),
        ("integer", "1.5"),
        ("integer", "one"),
        ("long", "9223372036854775808"),
        ("boolean", "yes please"),
        ("date", "2026-02-30"),
        ("date", "-0001-02-29"),
        ("date", "+5881580-07-12"),
        ("date", "+10000-1-1"),
        ("timestamp", "+10000-01-01 25:00:00"),
        ("timestamp", "+300000-01-01 00:00:00"),
        ("timestamp", "yesterday"),
        ("decimal(3,2)", "12.345"),
        ("decimal(3,2)", "100"),
        ("decimal(3,2)", "NaN"),
        ("double", "much"),
        ("float", "1e300"),
        ("variant", "1"),
    ],
)
def test_text_that_is_no_value_of_the_type_is_an_error(kind: str, text: str) -> None:
    with pytest.raises(CorruptTableError, match="'p'") as caught:
        parse_partition_value(text, field(kind), path="/t/file")
    assert caught.value.path == "/t/file"


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
@pytest.mark.parametrize("form", [None, "classic", "v2-json"])
def test_a_partition_column_is_read_and_pruned(kind: str, text: str, value: Any, form: str | None) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(id="long", p=kind), ["p"])
    table.create(*(table.add({"id": [i]}, {"p": t}) for i, t in enumerate([text, "", None])))
    table.commit(table.add({"id": [3]}))  # the log may leave a null out
    if form:
        table.checkpoint(form=form)
    snapshot = table.snapshot()
    assert rows(snapshot) == sorted([(0, value), (1, None), (2, None), (3, None)], key=repr)
    for predicate, ids in ((col("p") == value, [0]), (col("p").is_null(), [1, 2, 3]), (col("p").is_not_null(), [0])):
        scan = snapshot.scan_builder().with_filter(predicate).build()
        assert len(list(scan.files())) == len(ids)
        assert scan.remaining_filter is None
        assert [row[0] for row in rows(snapshot, predicate)] == ids


def test_directories_are_never_parsed() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(id="long", p="integer"), ["p"])
    table.create(table.add({"id": [1]}, {"p": "7"}, name="p=8/x.parquet"))
    table.commit(table.add({"id": [2]}, {"p": None}, name="p=__HIVE_DEFAULT_PARTITION__/x.parquet"))
    assert rows(table.snapshot()) == [(1, 7), (2, None)]


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_values_are_keyed_by_physical_names(mode: str, checkpoint: bool) -> None:
    schema = mapped(struct(id="long", p="integer"))
    properties = {"delta.columnMapping.mode": mode}
    table = TableBuilder(memory_engine(), "memory:///t", schema, ["p"], properties, protocol(2, 5))
    table.create(table.add({"col-1": [1]}, {"col-2": "7", "p": "8"}), table.add({"col-1": [2]}, {"p": "8"}))
    if checkpoint:
        table.checkpoint()
    assert rows(table.snapshot()) == [(1, 7), (2, None)]
    assert rows(table.snapshot(), col("p") == 7) == [(1, 7)]


def test_a_partition_column_that_a_data_file_holds_too_is_taken_from_the_log() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(id="long", p="integer"), ["p"])
    table.create(table.add(pa.table({"id": [1], "p": pa.array([99], pa.int32())}), {"p": "7"}))
    assert rows(table.snapshot()) == [(1, 7)]


def test_a_bad_partition_value_is_an_error_when_it_is_needed() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(id="long", p="integer"), ["p"])
    table.create(table.add({"id": [1]}, {"p": "seven"}))
    with pytest.raises(CorruptTableError, match="seven"):
        rows(table.snapshot())
    with pytest.raises(CorruptTableError, match="seven"):
        rows(table.snapshot(), col("p") == 7)
