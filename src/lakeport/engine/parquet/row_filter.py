"""Find the rows that a filter leaves before most columns are decoded.

The kernel applies the filter again, so a reader may always return more rows, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine.expressions import ArrowExpressions
from lakeport.engine.parquet.batch_size import BatchSize, joined
from lakeport.engine.parquet.row_groups import RowGroups
from lakeport.errors import LakeportError
from lakeport.kernel.expressions import Expression, columns_in
from lakeport.kernel.values import from_numpy, to_mask

FoundRows = tuple[Iterator[pa.RecordBatch], npt.NDArray[np.int64]]
"""Rows, and their positions in the file."""

_SELECTIVE = 8
"""Row groups larger than a batch are worth a pass of their own if the filter leaves less than one row of so many."""
_STREAM = BatchSize.of(None)


class RowFilter(Protocol):
    """One way to find them, for one filter and one schema."""

    def rows(self, groups: RowGroups, schema: pa.Schema, size: BatchSize) -> FoundRows | None:
        """The rows that may match, without metadata columns; None if the row groups must be read as a whole."""


class ColumnsFirst:
    """Decodes the columns of the filter first, and then the others, of which it keeps the rows left."""

    def __init__(
        self, keys: list[pa.Field], select: Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]
    ) -> None:
        self._keys, self._select = keys, select

    @classmethod
    def of(cls, predicate: Expression, schema: pa.Schema) -> ColumnsFirst | None:
        """None for filters on nested columns, and those that cannot be evaluated."""
        names = {column.path[0] for column in columns_in(predicate)}
        keys = [field for field in schema if field.name in names]
        if not keys or any(pa.types.is_nested(field.type) for field in keys):
            return None
        try:
            return cls(keys, ArrowExpressions().predicate_evaluator(pa.schema(keys), predicate))
        except LakeportError:
            return None

    def rows(self, groups: RowGroups, schema: pa.Schema, size: BatchSize) -> FoundRows | None:
        try:
            searched = [self._searched(batch) for batch in groups.batches(pa.schema(self._keys), _STREAM)]
        except LakeportError:  # of a row that the kernel may not select
            return None
        if not searched:
            return None
        keys, mask = pa.Table.from_batches([kept for kept, _ in searched]), np.concatenate([m for _, m in searched])
        is_large = groups.rows > size.rows or keys.nbytes > size.most_bytes
        if is_large and len(keys) * _SELECTIVE > groups.rows:
            return None
        return _completed(groups, schema, keys, mask, size), groups.start + np.flatnonzero(mask)

    def _searched(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
        mask = to_mask(self._select(batch, None))
        return _kept(batch, mask), mask


def _completed(
    groups: RowGroups, schema: pa.Schema, keys: pa.Table, mask: npt.NDArray[np.bool_], size: BatchSize
) -> Iterator[pa.RecordBatch]:
    others = pa.schema([field for field in schema if field.name not in keys.schema.names])
    if not len(keys):
        return
    if len(others):
        found = _beside(keys, _found(groups.batches(others, _STREAM), mask), schema)
    else:
        found = iter(keys.select(schema.names).to_batches())
    for rows in joined(found, size):
        yield from rows.combine_chunks().to_batches()


def _beside(keys: pa.Table, found: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The other columns of the rows found, in batches, beside those of the filter."""
    start = 0
    for batch in found:
        [beside] = keys.slice(start, batch.num_rows).combine_chunks().to_batches()
        columns = _columns_of(beside) | _columns_of(batch)
        arrays, fields = zip(*(columns[name] for name in schema.names), strict=True)
        yield pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(fields))
        start += batch.num_rows


def _found(batches: Iterator[pa.RecordBatch], mask: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        found = _kept(batch, mask[start : (start := start + batch.num_rows)])
        if found.num_rows:
            yield found


def _kept(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if mask.all() else batch.filter(from_numpy(mask))


def _columns_of(batch: pa.RecordBatch) -> dict[str, tuple[pa.Array, pa.Field]]:
    return {field.name: (array, field) for array, field in zip(batch.columns, batch.schema, strict=True)}
