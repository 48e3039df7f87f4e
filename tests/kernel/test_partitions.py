"""Partition values: strings of the log as typed columns."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError
from lakeport.kernel.expressions import col
from lakeport.kernel.partitions import parse_partition_value
from lakeport.kernel.schema import PrimitiveType, StructField
from tests.builder import TableBuilder, mapped, protocol, rows, struct

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
    ("timestamp", "1969-12-31 23:59:59.9", datetime(1969, 12, 31, 23, 59, 59, 900000, UTC)),
    ("timestamp_ntz", "2026-01-31 12:00:00.5", datetime(2026, 1, 31, 12, 0, 0, 500000)),
]


def field(kind: str) -> StructField:
    return StructField("p", PrimitiveType(kind))


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_text_becomes_a_value_of_the_type(kind: str, text: str, value: Any) -> None:
    assert parse_partition_value(text, field(kind), path="") == value


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
