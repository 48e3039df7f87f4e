"""The digest of rows: it depends on the rows and on nothing else."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.client.sync.digest import RowDigest

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("small", pa.int8()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("flag", pa.bool_()),
        ("price", pa.decimal128(38, 9)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.list_(pa.string()))),
        ("point", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])),
        ("map", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
        ("nothing", pa.null()),
    ]
)
ROW: dict[str, Any] = {
    "number": 1,
    "small": -1,
    "text": "é",
    "bytes": b"\0",
    "flag": True,
    "price": Decimal("1.5"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "list": [["a", None], [], None],
    "point": {"x": 0.5, "names": ["p"]},
    "map": [("k", {"n": 1}), ("l", None)],
    "nothing": None,
}
OTHER: dict[str, Any] = {
    "number": 2,
    "small": 1,
    "text": "e",
    "bytes": b"",
    "flag": False,
    "price": Decimal("1.500000001"),
    "day": date(2026, 2, 1),
    "at": datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
    "list": [["a"], [None], None],
    "point": {"x": 0.5, "names": ["p", None]},
    "map": [("l", None), ("k", {"n": 1})],
}


def digest(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, batch_size: int = 1000) -> RowDigest:
    found = RowDigest()
    for batch in pa.Table.from_pylist(rows, schema).to_batches(batch_size):
        found = found.with_batch(batch)
    return found


@pytest.mark.parametrize("column", OTHER)
@pytest.mark.parametrize("is_null", [False, True])
def test_another_value_or_none_gives_another_digest(column: str, is_null: bool) -> None:
    other = ROW | {column: None if is_null else OTHER[column]}
    assert digest([ROW, ROW]) != digest([ROW, other])


@given(st.lists(st.sampled_from(sorted(OTHER)), max_size=30), st.integers(1, 7), st.randoms(use_true_random=False))
def test_neither_the_order_nor_the_batches_matter(columns: list[str], size: int, order: random.Random) -> None:
    rows = [ROW | {column: OTHER[column]} for column in columns] + [dict.fromkeys(ROW)]
    shuffled = order.sample(rows, len(rows))
    assert digest(rows) == digest(shuffled, batch_size=size)
    table = pa.Table.from_pylist([ROW, *rows], SCHEMA).slice(1)
    assert RowDigest().with_batch(table.to_batches()[0]) == digest(rows)


def test_rows_that_are_there_twice_count_twice() -> None:
    assert digest([ROW]) != digest([ROW, ROW])
    assert digest([ROW, ROW, dict(ROW, number=2)]) != digest([ROW, dict(ROW, number=2), dict(ROW, number=2)])


def test_values_do_not_change_places() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    assert digest([{"a": 1, "b": 2}], schema) != digest([{"a": 2, "b": 1}], schema)
    crossed = [{"a": 1, "b": 2}, {"a": 2, "b": 1}]
    assert digest(crossed, schema) != digest([{"a": 1, "b": 1}, {"a": 2, "b": 2}], schema)


def test_rows_without_columns_are_counted() -> None:
    empty = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert RowDigest().with_batch(empty).rows == 2
