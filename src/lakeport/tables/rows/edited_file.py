"""The new values of a file that is edited, row group by row group and column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.kernel.data_files import make_batch, physical_field
from lakeport.kernel.engine import Engine, FileEditor
from lakeport.kernel.schema import ROW_POSITION, StructField, arrow_field
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.kernel.write import RowTransformer, StatsCollector, WriteContext, replace_stats, to_stored
from lakeport.tables.rows.changes import FileChange
from lakeport.tables.rows.output import Updated, as_updated, by_values, split_rows
from lakeport.workers.memory import release_memory
from lakeport.workers.reading import RowReader

_BATCH_ROWS = 1 << 16

_Places = npt.NDArray[np.int64]
"""Ascending positions in a row group."""


class CannotEditError(Exception):
    """The file must be rewritten row by row, which also names the rows that the table rejects."""


@dataclass(frozen=True)
class EditedColumn:
    """A column that changes."""

    logical: pa.Field
    found: pa.Field
    """How it is found in files."""
    written: pa.Field
    """How it is written."""
    stats: tuple[tuple[str, ...], ...]
    """Its physical paths with statistics."""

    @classmethod
    def of(cls, field: StructField, context: WriteContext) -> EditedColumn:
        found = physical_field(field, context.mapping_mode)
        written = context.physical_schema.field(found.name)
        stats = tuple(path for path in context.stats_columns if path[0] == found.name)
        return cls(arrow_field(field), found, written, stats)

    @property
    def name(self) -> str:
        return str(self.found.name)


@dataclass(frozen=True)
class _NewValues:
    """Of updated rows."""

    places: _Places
    columns: dict[str, pa.ChunkedArray]
    """Those that are still needed."""

    @classmethod
    def of(cls, places: npt.NDArray[np.int64], rows: pa.Table) -> _NewValues:
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places, kind="stable")
            places, rows = places[order], rows.combine_chunks().take(from_numpy(order))
        return cls(places, dict(zip(rows.schema.names, rows.columns, strict=True)))

    def take(self, column: str) -> pa.Array:
        """The values of a column, which are then no longer held here."""
        return pa.concat_arrays(self.columns.pop(column).chunks)


class EditedFile:
    """Computes the new values of one file and hands them to its editor. Reads one column of a row group at a time,
    besides what the updated rows are computed from."""

    def __init__(
        self,
        engine: Engine,
        reader: RowReader,
        change: FileChange,
        columns: Sequence[EditedColumn],
        update: Callable[[pa.RecordBatch], Iterator[Updated]],
        transformer: RowTransformer,
        editor: FileEditor,
        most: int | None,
    ) -> None:
        """`most` is the most bytes of new values to hold at once, if they are limited."""
        self._engine, self._reader, self._change = engine, reader, change
        self._columns, self._update, self._transformer, self._editor = columns, update, transformer, editor
        self._most = most
        self._starts = [0, *accumulate(editor.row_groups)]
        self._collectors = {column: StatsCollector(column.stats) for column in columns}
        self._kept: dict[EditedColumn, list[int]] = {column: [] for column in columns}
        """The row groups in which columns keep their values."""
        self.updated_rows = 0

    @property
    def copied_rows(self) -> int:
        return self._starts[-1] - self.updated_rows

    def statistics(self) -> str:
        """What is known of the file. To be called once, in the end."""
        return replace_stats(self._change.file.stats, self._starts[-1], self._found())

    def _found(self) -> dict[str, StatsCollector]:
        """Statistics of the columns whose values have changed anywhere, in all rows; by name."""
        changed = [column for column in self._columns if len(self._kept[column]) < len(self._editor.row_groups)]
        for column in changed:
            for group in self._kept[column] if column.stats else ():
                self._collect(column, self._stored(group, column))
        return {column.name: self._collectors[column] for column in changed}

    def write(self, group: int) -> None:
        """Write a row group. Raises `InvalidDataError` and `CannotEditError`."""
        new = self._new_values(group) if self._has_updates(group) else None
        self.updated_rows += 0 if new is None else len(new.places)
        if self._most is not None:
            release_memory()
        self._editor.replace(group, self._replaced(group, new))

    def _has_updates(self, group: int) -> bool:
        if self._change.updated is None:
            return True
        first, last = np.searchsorted(self._change.updated, self._starts[group : group + 2])
        return bool(first < last)

    def _new_values(self, group: int) -> _NewValues:
        """Raises `InvalidDataError` and `CannotEditError`."""
        rows, positions, size = [], [], 0
        for found in (found for batch in self._rows_to_update(group) for found in self._update(batch)):
            rows.append(self._checked(found))
            positions.append(to_integers(found.before.column(ROW_POSITION.name)))
            size += rows[-1].nbytes
            if self._most is not None and size > self._most:
                raise CannotEditError
        return _NewValues.of(np.concatenate(positions) - self._starts[group], pa.Table.from_batches(rows))

    def _rows_to_update(self, group: int) -> Iterator[pa.RecordBatch]:
        read = partial(self._editor.read, group, batch_size=_BATCH_ROWS)
        for rows in self._reader.rows_of(self._engine, self._change.file, read):
            updated, _ = split_rows(rows, self._change.updated)
            if updated.num_rows:
                yield updated

    def _checked(self, found: Updated) -> pa.RecordBatch:
        rows = self._transformer.checked(as_updated(found.after), found.name_row or by_values(found.before))
        return rows.select([column.logical.name for column in self._columns])

    def _replaced(self, group: int, new: _NewValues | None) -> Iterator[pa.Table]:
        """All values of each column that changes."""
        for column in self._columns:
            values = self._changed(group, column, new)
            if values is None:
                self._kept[column].append(group)
            else:
                self._collect(column, values)
                yield pa.Table.from_arrays([values], schema=pa.schema([column.written]))

    def _changed(self, group: int, column: EditedColumn, new: _NewValues | None) -> pa.Array | None:
        """All values of a column; None if it keeps those that it has."""
        is_renewed = column.name in self._editor.renewed
        if new is None:
            return self._stored(group, column) if is_renewed else None
        values = self._values(column, new)
        if len(values) == self._editor.row_groups[group]:
            return values
        old = self._stored(group, column)
        if not is_renewed and _are_same(old.take(from_numpy(new.places)), values):
            return None
        return _replace(old, new.places, values)

    def _collect(self, column: EditedColumn, values: pa.Array) -> None:
        self._collectors[column].add(make_batch([values], pa.schema([column.written]), len(values)))

    def _values(self, column: EditedColumn, new: _NewValues) -> pa.Array:
        return to_stored(new.take(column.logical.name), column.logical, column.written)

    def _stored(self, group: int, column: EditedColumn) -> pa.Array:
        batches = [batch.column(0) for batch in self._editor.read(group, pa.schema([column.found]))]
        return pa.concat_arrays(batches) if batches else pa.nulls(0, column.found.type)


def _are_same(first: pa.Array, second: pa.Array) -> bool:
    """Whether values are the same, bit by bit: zeros have signs, and NaN is not equal to itself."""
    if types.is_floating(first.type):
        bits = pa.int64() if types.is_float64(first.type) else pa.int32()
        first, second = first.view(bits), second.view(bits)
    return not _has_floats(first.type) and bool(first.equals(second))


def _has_floats(data_type: pa.DataType) -> bool:
    children = (data_type.field(number).type for number in range(data_type.num_fields))
    return types.is_floating(data_type) or any(map(_has_floats, children))


def _replace(old: pa.Array, places: _Places, values: pa.Array) -> pa.Array:
    """The old values with others at some places."""
    if types.is_nested(old.type):
        order = np.arange(len(old), dtype=np.int64)
        order[places] = np.arange(len(old), len(old) + len(places))
        return pa.concat_arrays([old, values]).take(from_numpy(order))
    mask = np.zeros(len(old), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(old, from_numpy(mask), values)
