"""The ways from a table to rows: each gives the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

import lakeport
from lakeport.frame import Frame, Rows
from lakeport.kernel.engine import Engine
from lakeport.relations.arrow_dataset import FrameDataset
from tests.engine.filtering_engines import FILTERING
from tests.relations.conditions import Condition, for_duckdb, for_frames, for_polars

ELSEWHERE = "America/New_York"
"""A time zone of sessions in which moments and local times differ."""


class Place(NamedTuple):
    """A version of a table; the latest one by default."""

    path: str
    version: int | None = None

    def frame(self, engine: Engine | None = None) -> Frame:
        latest = lakeport.scan(self.path, engine=engine)
        return latest if self.version is None else latest.at(version=self.version)


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{ELSEWHERE}'")
    return connection


def in_duckdb(rows: Rows[Any]) -> duckdb.DuckDBPyRelation:
    return rows.to_duckdb(connected())


def as_batches(rows: Rows[Any]) -> duckdb.DuckDBPyRelation:
    """DuckDB over Arrow batches, also where it could read the files."""
    return connected().from_arrow(FrameDataset(rows))


WAYS: dict[str, Callable[[Rows[Any]], pa.Table]] = {
    "arrow": lambda rows: rows.to_arrow(),
    "stream": lambda rows: pa.Table.from_batches(rows.to_batches(), rows.schema),
    "short batches": lambda rows: pa.Table.from_batches(rows.to_batches(100), rows.schema),
    "duckdb": lambda rows: in_duckdb(rows).to_arrow_table(),
    "batches": lambda rows: as_batches(rows).to_arrow_table(),
    "polars": lambda rows: rows.to_polars(lazy=True).collect().to_arrow(),
    "sql": lambda rows: lakeport.sql("FROM given", given=rows).to_arrow_table(),
}
"""From a frame."""

Filtered = Callable[[Place, Condition], pa.Table]


def filtered_by(way: Callable[[Rows[Any]], pa.Table], engine: Engine | None = None) -> Filtered:
    return lambda place, condition: way(place.frame(engine).where(for_frames(condition)))


FRAMES: dict[str, Filtered] = {name: filtered_by(way) for name, way in WAYS.items()} | {
    f"{name} by {reader}": filtered_by(WAYS[name], engine)
    for reader, engine in FILTERING.items()
    for name in ("arrow", "stream")
}
"""The frame has the filter."""

QUERIES: dict[str, Filtered] = {
    "duckdb query": lambda place, condition: in_duckdb(place.frame()).filter(for_duckdb(condition)).to_arrow_table(),
    "query of batches": lambda place, condition: (
        as_batches(place.frame()).filter(for_duckdb(condition)).to_arrow_table()
    ),
    "sql query": lambda place, condition: lakeport.sql(
        f"FROM given WHERE {for_duckdb(condition)}", given=place.frame()
    ).to_arrow_table(),
    "lazy query": lambda place, condition: (
        place.frame().to_polars(lazy=True).filter(for_polars(condition)).collect().to_arrow()
    ),
}
"""DuckDB or Polars has the filter."""

FILTERS = FRAMES | QUERIES

_LIKE_OTHERS = {
    "stream": "arrow",
    "short batches": "arrow",
    "sql": "duckdb",
    "stream by ColumnsFirst": "arrow by ColumnsFirst",
    "stream by PolarsRows": "arrow by PolarsRows",
    "query of batches": "duckdb query",
    "sql query": "duckdb query",
}
"""Ways that share most of their code with another one, which a quick run has instead."""


def each(ways: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrises a test with the ways."""
    return pytest.mark.parametrize("way", [_param(way) for way in ways])


def _param(way: str) -> Any:
    like = _LIKE_OTHERS.get(way)
    return pytest.param(way, marks=[pytest.mark.exhaustive(instead=like)] if like else [])


def in_numbers(table: pa.Table) -> pa.Table:
    """The table with dates and timestamps as numbers: Python does not represent all of them."""
    columns = [_in_numbers(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _in_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column
