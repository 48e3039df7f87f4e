"""Frames in DuckDB: over its own Parquet scan where that is exact, else as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from lakeport.relations.duckdb_sql import name_of
from lakeport.relations.duckdb_view import view_text
from lakeport.relations.footers import InexactError

if TYPE_CHECKING:
    from lakeport.frame import Rows
    from lakeport.relations.dataset import FrameDataset

_FIRST_VERSION = (1, 3)
"""DuckDB's first version whose Parquet scan takes a schema by names and numbers files and rows."""


def make_relation(rows: Rows[Any], connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """A lazy relation over the rows."""
    try:
        return connection.sql(_text(rows))
    except (InexactError, duckdb.Error):
        return connection.from_arrow(_dataset(rows))


def make_view(rows: Rows[Any], connection: duckdb.DuckDBPyConnection, *place: str) -> FrameDataset | None:
    """Create a view of the rows, or replace it: a temporary one, or one in a database and a schema. Returns the dataset
    that it reads, which has the errors of its scans; None if DuckDB reads the files."""
    view = f"{'' if len(place) > 1 else 'TEMP '}VIEW {'.'.join(map(name_of, place))}"
    try:
        connection.execute(f"CREATE OR REPLACE {view} AS {_text(rows)}")
    except (InexactError, duckdb.Error):
        dataset = _dataset(rows)
        name = ".".join(place)
        connection.register(name, dataset)
        if len(place) > 1:
            connection.execute(f"CREATE OR REPLACE {view} AS SELECT * FROM {name_of(name)}")
        return dataset
    return None


def _text(rows: Rows[Any]) -> str:
    """Raises `InexactError`."""
    if tuple(int(part) for part in duckdb.__version__.split(".")[:2]) < _FIRST_VERSION:
        raise InexactError("this version of DuckDB cannot number rows")
    return view_text(rows)


def _dataset(rows: Rows[Any]) -> FrameDataset:
    from lakeport.relations.dataset import FrameDataset  # imports pyarrow.dataset, and that imports pandas

    dataset = FrameDataset(rows)
    _ = dataset.schema  # raises errors of the table here: DuckDB would wrap them
    return dataset
