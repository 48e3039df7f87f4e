"""Random tables: DuckDB and Polars return the rows that Arrow does, NaN, -0.0, time zones, decimals and nulls among
them; and a query over DuckDB's own scan returns what it returns over the same rows in memory."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeport
from lakeport import tables
from lakeport.kernel.expressions import Expression, col
from lakeport.relations.dataset import FrameDataset
from tests.relations.ways import WAYS, connected

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "b": (pa.int8(), [-128, 0, 127]),
    "x": (pa.float64(), [NAN, -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 1e300]),
    "y": (pa.float32(), [NAN, -0.0, 0.0, 1.5, -1.5, 0.10000000149011612]),
    "p": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")]),
    "q": (pa.decimal128(38, 10), [Decimal("0E-10"), Decimal("1.0000000001"), Decimal(10**27)]),
    "s": (pa.string(), ["", "a", "A", "é€", "it's", 'a"\\ %_', "\U0001f600"]),
    "d": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2026, 3, 29), date(9999, 12, 31)]),
    "t": (pa.timestamp("us", "UTC"), [datetime(1900, 1, 1, 1, 1, 1, 1, UTC), datetime(2026, 3, 29, 2, 30, tzinfo=UTC)]),
    "n": (pa.timestamp("us"), [datetime(1900, 1, 1), datetime(2026, 3, 29, 2, 30), datetime(2026, 11, 1, 1, 30)]),
    "f": (pa.bool_(), [True, False]),
    "r": (pa.binary(), [b"", b"\x00\xff"]),
    "l": (pa.list_(pa.float64()), [[], [NAN, None, -0.0]]),
    "k": (pa.string(), ["one", "x=1/2 %"]),
    "m": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 12, tzinfo=UTC)]),
}
SCHEMA = pa.schema([(name, data_type) for name, (data_type, _) in VALUES.items()])
COMPARED = [name for name in VALUES if name not in ("r", "l")]
PARTITIONS = ("k", "m")

rows = st.lists(
    st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=12,
)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, str, Any]:
    name = draw(st.sampled_from(COMPARED))
    return (
        name,
        draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "null", "in"])),
        draw(st.sampled_from(VALUES[name][1])),
    )


conditions = st.lists(st.lists(comparisons(), min_size=1, max_size=2), min_size=1, max_size=2)
"""Conjunctions of disjunctions."""


def compared(column: Any, op: str, value: Any) -> Any:
    match op:
        case "null":
            return column.is_null()
        case "in":
            return column.isin([value]) if hasattr(column, "isin") else column.is_in([value])
    return {
        "=": lambda: column == value,
        "<>": lambda: column != value,
        "<": lambda: column < value,
        "<=": lambda: column <= value,
        ">": lambda: column > value,
        ">=": lambda: column >= value,
    }[op]()


def joined(condition: Sequence[Sequence[tuple[str, str, Any]]], column: Any) -> Any:
    whole = None
    for disjunction in condition:
        part = None
        for name, op, value in disjunction:
            one = compared(column(name), op, value)
            part = one if part is None else part | one
        whole = part if whole is None else whole & part
    return whole


def in_sql(condition: Sequence[Sequence[tuple[str, str, Any]]]) -> tuple[str, list[Any]]:
    """The condition in DuckDB's SQL, and its parameters."""
    values: list[Any] = []
    parts = []
    for disjunction in condition:
        tests = []
        for name, op, value in disjunction:
            if op == "null":
                tests.append(f"{name} IS NULL")
                continue
            values.append(value)
            tests.append(f"{name} IN (?)" if op == "in" else f"{name} {op} ?")
        parts.append(f"({' OR '.join(tests)})")
    return " AND ".join(parts), values


def texts(table: pa.Table) -> Counter[str]:
    """The rows as text, so that NaN equals NaN and -0.0 is not 0.0."""
    return Counter(map(repr, table.select(SCHEMA.names).cast(SCHEMA).to_pylist()))


def written(folder: str, first: list[dict[str, Any]], second: list[dict[str, Any]], deleted: int) -> lakeport.Frame:
    """A table of two appends, with some rows marked as deleted."""
    root = str(Path(folder) / "table")
    tables.create(
        root,
        pa.Table.from_pylist(first, SCHEMA),
        partition_by=PARTITIONS,
        properties={"delta.enableDeletionVectors": "true"},
    )
    tables.append(root, pa.Table.from_pylist(second, SCHEMA))
    tables.delete(root, f"b = {deleted}")
    return lakeport.scan(root)


many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(rows, rows, st.sampled_from([-128, 0, 127]), conditions)
def test_a_filter_keeps_the_same_rows_in_each_way(
    first: list[dict[str, Any]], second: list[dict[str, Any]], deleted: int, condition: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        frame = written(folder, first, second, deleted)
        kept: Expression = joined(condition, col)
        expected = texts(frame.where(kept).to_arrow())
        for way, read in WAYS.items():
            assert texts(read(frame.where(kept))) == expected, way


@many
@given(rows, rows, st.sampled_from([-128, 0, 127]), conditions)
def test_a_query_returns_what_it_returns_over_rows_in_memory(
    first: list[dict[str, Any]], second: list[dict[str, Any]], deleted: int, condition: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, connected() as connection:
        frame = written(folder, first, second, deleted)
        connection.register("rows", frame.to_arrow())
        connection.execute("CREATE TABLE memory AS FROM rows")
        frame.to_duckdb(connection).create_view("lazy")
        connection.register("batches", FrameDataset(frame))
        where, values = in_sql(condition)
        expected, *found = (
            texts(connection.sql(f"SELECT * FROM {name} WHERE {where}", params=values).to_arrow_table())
            for name in ("memory", "lazy", "batches")
        )
        assert found == [expected, expected]
        predicate = joined(condition, pl.col)
        in_polars = frame.to_polars(lazy=True).filter(predicate).collect()
        assert texts(in_polars.to_arrow()) == texts(frame.to_polars().filter(predicate).to_arrow())
