"""Frames in Polars: what is pushed down, and that rows are the same where it is not."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import MissingFileError
from lakeport.kernel.expressions import format_expression
from lakeport.relations.polars_predicates import implied_filter
from tests.properties import TRACKING

SCHEMA = pa.schema(
    {
        **{"i": pa.int64(), "b": pa.int8(), "x": pa.float64(), "s": pa.string(), "d": pa.date32(), "f": pa.bool_()},
        **{"t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"), "p": pa.decimal128(10, 2)},
    }
)
i, s = pl.col("i"), pl.col("s")
NOON = datetime(2026, 1, 1, 12)
TRANSLATED: list[tuple[pl.Expr, str | None]] = [
    (i > 1, "i > 1"),
    (i < 1, "i < 1"),
    ((i >= 1) & (s == "it's") | s.is_null(), "(i >= 1 AND s = 'it''s' OR s IS NULL)"),
    (~(i == 1) & s.is_not_null(), "NOT (i = 1) AND s IS NOT NULL"),
    (i.is_in([1, 2]), "i IN (1, 2)"),
    (pl.col("d") != date(2026, 1, 31), "d <> '2026-01-31'"),
    (pl.col("t") < NOON.replace(tzinfo=UTC), "t < '2026-01-01 12:00:00+00:00'"),
    (pl.col("n") <= NOON, "n <= '2026-01-01 12:00:00'"),
    (pl.col("p") > Decimal("1.50"), "p > '1.50'"),
    ((i > 1) & (pl.col("x") > 1), "i > 1"),
    ((i > 1) | (pl.col("x") > 1), None),
    (pl.col("x") > 1, None),
    (pl.col("b") > 1000, None),
    (i > 1.5, None),
    (i + 1 == 2, None),
    (s.str.starts_with("a"), None),
    (pl.col("f"), None),
    (pl.col("gone") == 1, None),
    (i.is_in([1, None]), None),
]


@pytest.mark.parametrize(("predicate", "expected"), TRANSLATED, ids=[str(e) for e, _ in TRANSLATED])
def test_what_is_understood_of_a_predicate_is_pushed_down(predicate: pl.Expr, expected: str | None) -> None:
    found = implied_filter(predicate, SCHEMA)
    assert (None if found is None else format_expression(found)) == expected


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = str(tmp_path / "table")
    rows = {"id": list(range(100)), "day": [str(number // 50) for number in range(100)], "x": [0.5] * 100}
    tables.create(root, rows, partition_by=["day"], properties=TRACKING)
    return root


def test_a_lazy_frame_reads_only_what_it_needs(root: str) -> None:
    (gone,) = Path(root).glob("day=1/*.parquet")
    gone.unlink()
    frame = lakeport.scan(root).to_polars(lazy=True)
    assert frame.filter(pl.col("day") == "0", pl.col("x") < 1).select(pl.col("id").sum()).collect().item() == 1225
    assert frame.head(10).collect().height == 10
    with pytest.raises(MissingFileError, match="it may have been vacuumed"):
        frame.collect()


def test_a_lazy_frame_stays_at_its_version(root: str) -> None:
    frame = lakeport.scan(root).to_polars(lazy=True)
    tables.append(root, {"id": [100], "day": ["1"], "x": [1.0]})
    assert frame.select(pl.len()).collect().item() == 100


def test_rows_are_limited_before_a_predicate_that_follows(root: str) -> None:
    whole = lakeport.scan(root).select("id")
    for engine in ("in-memory", "streaming"):
        by_polars = whole.to_polars(lazy=True).head(60).filter(pl.col("id") > 50)
        assert by_polars.collect(engine=engine)["id"].to_list() == list(range(51, 60))
        by_frame = whole.limit(60).to_polars(lazy=True).filter(pl.col("id") > 50)
        assert by_frame.collect(engine=engine)["id"].to_list() == list(range(51, 60))
        first = whole.to_polars(lazy=True).filter(pl.col("id") > 50).head(3)
        assert first.collect(engine=engine)["id"].to_list() == [51, 52, 53]


def test_ids_of_rows_and_parts_of_structs_are_filtered_by_polars(root: str, tmp_path: Path) -> None:
    tracked = lakeport.scan(root).with_row_tracking().to_polars(lazy=True)
    assert tracked.filter(pl.col("_row_id") < 2).select("id").collect().height == 2
    nested = str(tmp_path / "nested")
    tables.create(nested, {"s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
    part = lakeport.scan(nested).select("s.b").to_polars(lazy=True)
    assert part.filter(pl.col("s").struct.field("b") > 2).collect().to_dicts() == [{"s": {"b": 4}}]


def test_a_table_without_rows_has_its_columns(root: str) -> None:
    frame = lakeport.scan(root).where("id < 0")
    found = frame.to_polars(lazy=True).collect()
    assert found.schema == frame.to_polars().schema
    assert found.height == 0
