"""Delete rows of files row group by row group, a few columns at a time; row groups that lose no row are copied byte for
byte.

Only for files that keep most of their rows, so that none becomes small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.engine import FileEditor
from lakeport.kernel.values import from_numpy
from lakeport.kernel.write import StatsCollector, WriteContext, replace_stats
from lakeport.tables.rows.changes import FileChange
from lakeport.tables.rows.column_editing import edit, is_large
from lakeport.tables.rows.edited_file import CannotEditError, EditedColumn
from lakeport.tables.rows.output import Edited, RowOutput
from lakeport.workers import Workplace
from lakeport.workers.reading import is_remote

_READ_BYTES = 1 << 20
"""About so much of a row group is read at a time: each time takes a millisecond."""

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Shrinking:
    """Writes files anew without some of their rows. Picklable."""

    context: WriteContext

    def is_candidate(self, change: FileChange) -> bool:
        """Whether this is likely to be possible and worthwhile, for a file of which other rows are only copied. Columns
        of remote files would be fetched one by one."""
        keeps_most = 2 * len(change.gone) <= (change.file.num_records or 0)
        return keeps_most and is_large(change.file, self.context) and not is_remote(change.file)

    def run(self, place: Workplace, change: FileChange, output: RowOutput) -> Iterator[Edited]:
        """Write the file anew, with a result after each row group. Raises `CannotEditError`."""
        begin = partial(_ShrunkFile, self.context, self._columns, change)
        return edit(place, self.context, self._columns, change.file, output, begin, self.context.bounded_columns)

    @cached_property
    def _columns(self) -> tuple[EditedColumn, ...]:
        return tuple(EditedColumn.of(field, self.context) for field in self.context.stored_fields)


@dataclass(frozen=True)
class _Together:
    """Columns that are read and written together: a few large ones, or many small ones."""

    found: pa.Schema
    written: pa.Schema
    collector: StatsCollector
    bounded: tuple[tuple[str, ...], ...]
    """Those whose bounds the editor finds."""

    @classmethod
    def of(cls, columns: Sequence[EditedColumn], context: WriteContext) -> _Together:
        stats = [path for column in columns for path in column.stats]
        bounded = tuple(path for path in stats if path in context.bounded_columns)
        found, written = pa.schema([c.found for c in columns]), pa.schema([c.written for c in columns])
        return cls(found, written, StatsCollector(stats, bounded), bounded)


class _ShrunkFile:
    """Hands the remaining rows of one file to its editor."""

    updated_rows = 0

    def __init__(
        self, context: WriteContext, columns: Sequence[EditedColumn], change: FileChange, editor: FileEditor
    ) -> None:
        """Raises `CannotEditError`."""
        if not editor.replaces_all:
            raise CannotEditError
        self._context, self._gone, self._editor = context, change.gone, editor
        self._starts = [0, *accumulate(editor.row_groups)]
        chunk = change.file.size // (len(columns) * len(editor.row_groups) or 1)
        step = max(1, _READ_BYTES // max(chunk, 1))
        self._parts = [_Together.of(columns[n : n + step], context) for n in range(0, len(columns), step)]

    @property
    def copied_rows(self) -> int:
        return self._starts[-1] - len(self._gone)

    def write(self, group: int) -> None:
        self._editor.replace(group, self._replaced(group, self._kept(group)))

    def statistics(self) -> str:
        for part in self._parts:
            for path in part.bounded:
                part.collector.add_bounds(path, self._editor.bounds(path))
        tight = '{"tightBounds":true}' if self._context.tight_bounds else None
        return replace_stats(tight, self.copied_rows, {part.found.names[0]: part.collector for part in self._parts})

    def _kept(self, group: int) -> _Mask:
        """The rows of a row group that stay."""
        start, end = self._starts[group : group + 2]
        first, last = np.searchsorted(self._gone, np.array([start, end], np.uint64))
        kept = np.ones(end - start, np.bool_)
        kept[self._gone[first:last].astype(np.int64) - start] = False
        return kept

    def _replaced(self, group: int, kept: _Mask) -> Iterator[pa.Table]:
        """The columns that cannot keep their bytes."""
        for part in self._parts:
            if not kept.all() or not self._editor.renewed.isdisjoint(part.found.names):
                yield self._shrunk(group, part, kept)
            else:
                self._collect(group, part)

    def _shrunk(self, group: int, part: _Together, kept: _Mask) -> pa.Table:
        """The columns in the rows that stay."""
        batches, start = [], 0
        for batch in self._editor.read_encoded(group, part.found) if kept.any() else ():
            rows = batch.filter(from_numpy(kept[start : (start := start + batch.num_rows)]))
            fields = zip(part.written, rows.schema.types, strict=True)
            schema = pa.schema([field.with_type(data_type) for field, data_type in fields])
            batches.append(pa.RecordBatch.from_arrays(rows.columns, schema=schema))
            part.collector.add(batches[-1])
        return pa.Table.from_batches(batches, batches[0].schema if batches else part.written)

    def _collect(self, group: int, part: _Together) -> None:
        """Statistics of columns that keep their bytes."""
        for batch in self._editor.read(group, part.found):
            part.collector.add(batch, look_at_all=True)
