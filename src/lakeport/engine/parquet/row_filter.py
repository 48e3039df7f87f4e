"""Find the rows that a filter leaves before most columns are decoded.

The kernel applies the filter again, so a reader may always return more rows, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine.expressions import ArrowExpressions
from lakeport.engine.parquet.row_groups import RowGroups
from lakeport.errors import LakeportError
from lakeport.kernel.expressions import Expression, columns_in
from lakeport.kernel.values import to_mask

FoundRows = tuple[pa.RecordBatch, npt.NDArray[np.int64]]
"""Rows, and their positions in the file."""

_SELECTIVE = 8
"""Row groups larger than a batch are worth a pass of their own if the filter leaves less than one row of so many."""


class RowFilter(Protocol):
    """One way to find them, for one filter and one schema."""

    def rows(self, groups: RowGroups, schema: pa.Schema, batch_size: int) -> FoundRows | None:
        """The rows that may match, without metadata columns; None if the row groups must be read as a whole."""


class ColumnsFirst:
    """Decodes the columns of the filter first, and a few of the others at a time, of which it keeps the rows left."""

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

    def rows(self, groups: RowGroups, schema: pa.Schema, batch_size: int) -> FoundRows | None:
        decoded = groups.columns(self._keys)
        try:
            selection = None if decoded is None else self._select(decoded, None)
        except LakeportError:  # of a row that the kernel may not select
            return None
        if decoded is None or selection is None:
            return None
        if groups.rows > batch_size and selection.true_count * _SELECTIVE > groups.rows:
            return None
        return self._completed(groups, schema, decoded, selection)

    def _completed(
        self, groups: RowGroups, schema: pa.Schema, keys: pa.RecordBatch, selection: pa.BooleanArray
    ) -> FoundRows | None:
        found = _columns_of(_kept(keys, selection))
        others = [field for field in schema if field.name not in found] if selection.true_count else []
        at_once = 2 * pa.cpu_count()
        for first in range(0, len(others), at_once):
            part = groups.columns(others[first : first + at_once])
            if part is None:
                return None
            found |= _columns_of(_kept(part, selection))
        columns = [found[name] for name in schema.names if name in found]
        rows = pa.RecordBatch.from_arrays([array for array, _ in columns], schema=pa.schema([f for _, f in columns]))
        return rows, groups.start + np.flatnonzero(to_mask(selection))


def _kept(batch: pa.RecordBatch, selection: pa.BooleanArray) -> pa.RecordBatch:
    return batch if selection.true_count == len(selection) else batch.filter(selection)


def _columns_of(batch: pa.RecordBatch) -> dict[str, tuple[pa.Array, pa.Field]]:
    return {field.name: (array, field) for array, field in zip(batch.columns, batch.schema, strict=True)}
