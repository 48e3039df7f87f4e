"""Random tables: each way to read them returns the same rows, NaN, -0.0, time zones, decimals and nulls among them; and
a query over files returns what it returns over the same rows in memory."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeport import tables
from tests.relations.conditions import OPERATORS, Condition, for_duckdb, for_polars
from tests.relations.ways import FRAMES, QUERIES, WAYS, Place, connected, filtered_by, in_numbers

NAN = float("nan")
LONG = "long" * 20
"""Statistics have only the first 32 characters."""
FAR = 3 * 10**17
"""Microseconds to a year that Python does not have."""
POINT = pa.struct({"x": pa.float64(), "of": pa.struct({"s": pa.string()})})
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "b": (pa.int8(), [-128, 0, 127]),
    "x": (pa.float64(), [NAN, -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 1e300]),
    "y": (pa.float32(), [NAN, -0.0, 0.0, 1.5, -1.5, 0.10000000149011612]),
    "p": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")]),
    "q": (pa.decimal128(38, 10), [Decimal("0E-10"), Decimal("1.0000000001"), Decimal(10**27)]),
    "s": (pa.string(), ["", "a", "A", "é€", "it's", 'a"\\ %_', "\U0001f600", LONG, f"{LONG}b", "\uffff" * 40]),
    "d": (pa.date32(), [date(1, 1, 1), date(1582, 10, 10), date(2026, 3, 29), date(9999, 12, 31)]),
    "t": (pa.timestamp("us", "UTC"), [datetime(1900, 1, 1, 1, 1, 1, 1, UTC), datetime(2026, 3, 29, 2, 30, tzinfo=UTC)]),
    "n": (pa.timestamp("us"), [datetime(1900, 1, 1), datetime(2026, 3, 29, 2, 30), datetime(2026, 11, 1, 1, 30)]),
    "f": (pa.bool_(), [True, False]),
    "r": (pa.binary(), [b"", b"\x00\xff"]),
    "l": (pa.list_(pa.float64()), [[], [NAN, None, -0.0]]),
    "o": (POINT, [{"x": NAN, "of": {"s": "a"}}, {"x": -0.0, "of": None}, {"x": None, "of": {"s": None}}]),
    "far_d": (pa.date32(), [-3_000_000, 4_000_000]),
    "far_t": (pa.timestamp("us", "UTC"), [-FAR, FAR]),
    "k": (pa.string(), ["one", "", "x=1/2 %", "ü é+?#&", "__HIVE_DEFAULT_PARTITION__"]),
    "m": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 12, tzinfo=UTC)]),
    "w": (pa.float64(), [-0.0, 0.5]),
}
SCHEMA = pa.schema([(name, data_type) for name, (data_type, _) in VALUES.items()])
ONLY_NULL = ("r", "l", "o", "far_d", "far_t")
"""Columns that are only compared with null."""
PARTITIONS = ("k", "m", "w")

rows = st.lists(
    st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=12,
)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, str, Any]:
    name = draw(st.sampled_from(list(VALUES)))
    operators = ["null", "not null"] if name in ONLY_NULL else OPERATORS
    return name, draw(st.sampled_from(operators)), draw(st.sampled_from(VALUES[name][1]))


conditions = st.lists(st.lists(comparisons(), min_size=1, max_size=2), min_size=1, max_size=2)


@st.composite
def writes(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    return [draw(rows), draw(rows)]


mappings = st.sampled_from(["none", "name", "id"])
deletions = st.sampled_from([-128, 0, 127])


def texts(table: pa.Table) -> Counter[str]:
    """The rows as text, so that NaN equals NaN and -0.0 is not 0.0."""
    return Counter(map(repr, in_numbers(table.select(SCHEMA.names).cast(SCHEMA)).to_pylist()))


def written(folder: str, parts: list[list[dict[str, Any]]], deleted: int, mapping: str) -> Place:
    """A table of some appends, with some rows marked as deleted."""
    root = str(Path(folder) / "table")
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": mapping}
    tables.create(root, pa.Table.from_pylist(parts[0], SCHEMA), partition_by=PARTITIONS, properties=properties)
    for part in parts[1:]:
        tables.append(root, pa.Table.from_pylist(part, SCHEMA))
    tables.delete(root, f"b = {deleted}")
    return Place(root)


many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(writes(), deletions, mappings, conditions)
def test_a_filter_keeps_the_same_rows_in_each_way(
    parts: list[list[dict[str, Any]]], deleted: int, mapping: str, condition: Condition
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = written(folder, parts, deleted, mapping)
        everything, kept = texts(place.frame().to_arrow()), texts(filtered_by(WAYS["arrow"])(place, condition))
        for way, read in WAYS.items():
            assert texts(read(place.frame())) == everything, way
        for way, filtered in FRAMES.items():
            assert texts(filtered(place, condition)) == kept, way


@many
@given(writes(), deletions, mappings, conditions)
def test_a_query_returns_what_it_returns_over_rows_in_memory(
    parts: list[list[dict[str, Any]]], deleted: int, mapping: str, condition: Condition
) -> None:
    with tempfile.TemporaryDirectory() as folder, connected() as connection:
        place = written(folder, parts, deleted, mapping)
        connection.register("rows", place.frame().to_arrow())
        connection.execute("CREATE TABLE memory AS FROM rows")
        in_duckdb = texts(connection.sql(f"FROM memory WHERE {for_duckdb(condition)}").to_arrow_table())
        in_polars = texts(place.frame().to_polars().filter(for_polars(condition)).to_arrow())
        for way, filtered in QUERIES.items():
            assert texts(filtered(place, condition)) == (in_polars if way == "lazy query" else in_duckdb), way
