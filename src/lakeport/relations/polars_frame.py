"""Frames in Polars: a `LazyFrame` whose columns, predicate and number of rows are pushed down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from lakeport.kernel.schema import quoted
from lakeport.relations.polars_predicates import implied_filter

if TYPE_CHECKING:
    from lakeport.frame import Rows


def lazy_frame(rows: Rows[Any]) -> pl.LazyFrame:
    """The rows, read when the frame is collected."""
    schema = rows.schema

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Polars limits rows before it applies the predicate."""
        narrowed = rows if most is None else rows.limit(most)
        if predicate is not None and narrowed.row_limit is None:
            known = implied_filter(predicate, _filtered(rows))
            narrowed = narrowed if known is None else narrowed.where(known)
        if columns is not None and rows.narrows_by_name:
            needed = [] if predicate is None else predicate.meta.root_names()
            narrowed = narrowed.select(*map(quoted, dict.fromkeys([*columns, *needed])))
        for batch in narrowed.to_batches(batch_size):
            frame = pl.DataFrame(pa.Table.from_batches([batch]))
            found = frame if predicate is None else frame.filter(predicate)
            yield found if columns is None else found.select(columns)

    return register_io_source(read, schema=pl.DataFrame(pa.Table.from_batches([], schema)).schema)


def _filtered(rows: Rows[Any]) -> pa.Schema:
    """The columns that the frame can filter by."""
    return rows.schema if rows.narrows_by_name else pa.schema([])
