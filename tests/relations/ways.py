"""The ways from a frame to rows, beside Arrow: each gives the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from lakeport.frame import Rows
from lakeport.relations.dataset import FrameDataset

ELSEWHERE = "America/New_York"
"""A time zone of sessions in which moments and local times differ."""


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{ELSEWHERE}'")
    return connection


def by_duckdb(rows: Rows[Any]) -> pa.Table:
    return rows.to_duckdb(connected()).to_arrow_table()


def by_batches(rows: Rows[Any]) -> pa.Table:
    """DuckDB over Arrow batches, also where it could read the files."""
    return connected().from_arrow(FrameDataset(rows)).to_arrow_table()


def by_polars(rows: Rows[Any]) -> pa.Table:
    return rows.to_polars(lazy=True).collect().to_arrow()


WAYS: dict[str, Callable[[Rows[Any]], pa.Table]] = {
    "duckdb": by_duckdb,
    "batches": by_batches,
    "polars": by_polars,
}


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
