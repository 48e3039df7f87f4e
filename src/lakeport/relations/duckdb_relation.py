"""Frames in DuckDB: over its own Parquet scan if that is exact, otherwise as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from lakeport.relations.duckdb_compatibility import DuckDBMismatchError
from lakeport.relations.duckdb_sql import name_of, shielded
from lakeport.relations.duckdb_view import view_text

if TYPE_CHECKING:
    from lakeport.frame import Rows
    from lakeport.relations.arrow_dataset import FrameDataset

_FIRST_VERSION = (1, 3)
"""DuckDB's first version whose Parquet scan takes a schema by names and numbers files and rows, and the
first with TRY."""


def make_relation(rows: Rows[Any], connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """A lazy relation over the rows."""
    try:
        return connection.sql(_text(rows))
    except (DuckDBMismatchError, duckdb.Error):
        return connection.from_arrow(_dataset(rows)).project(_columns(rows))


def make_view(rows: Rows[Any], connection: duckdb.DuckDBPyConnection, *place: str) -> FrameDataset | None:
    """Create or replace a view of the rows: a temporary one, or one in a database and a schema. Returns the dataset
    that it reads, which keeps the errors of its scans; None if DuckDB reads the files."""
    view = f"{'' if len(place) > 1 else 'TEMP '}VIEW {'.'.join(map(name_of, place))}"
    try:
        connection.execute(f"CREATE OR REPLACE {view} AS {_text(rows)}")
    except (DuckDBMismatchError, duckdb.Error):
        dataset = _dataset(rows)
        batches = f"batches of {'.'.join(place)}"
        connection.register(batches, dataset)
        connection.execute(f"CREATE OR REPLACE {view} AS SELECT {_columns(rows)} FROM {name_of(batches)}")
        return dataset
    return None


def _columns(rows: Rows[Any]) -> str:
    if _is_old():
        return "*"
    return ", ".join(f"{shielded(name_of(f.name), f.type)} AS {name_of(f.name)}" for f in rows.schema)


def _is_old() -> bool:
    return tuple(int(part) for part in duckdb.__version__.split(".")[:2]) < _FIRST_VERSION


def _text(rows: Rows[Any]) -> str:
    """Raises `DuckDBMismatchError`."""
    if _is_old():
        raise DuckDBMismatchError("this version of DuckDB cannot number rows")
    return view_text(rows)


def _dataset(rows: Rows[Any]) -> FrameDataset:
    from lakeport.relations.arrow_dataset import FrameDataset  # imports pyarrow.dataset, and that imports pandas

    dataset = FrameDataset(rows)
    _ = dataset.schema  # raises errors of the table here: DuckDB would wrap them
    return dataset
