"""Row groups of an open file: decoded with pyarrow into the columns of a schema, or skipped by their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from lakeport.engine.parquet.batch_size import BatchSize
from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.kernel.data_files import Bounds, FieldIndex, columns_to_read, conform, may_match
from lakeport.kernel.expressions import Column, Expression
from lakeport.kernel.values import array_of, child_arrays

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SMALL = 1 << 20
"""Up to this size, decoding takes less time than setting up other threads or memory."""
_FEW_ROWS = 4096


class _Decoding:
    """How many threads decode whole row groups at this moment."""

    def __init__(self) -> None:
        self._lock, self._threads = Lock(), 0

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Count this thread. Whether it is the only one, so that inner threads find idle cores."""
        with self._lock:
            self._threads += 1
            alone = self._threads == 1
        try:
            yield alone
        finally:
            with self._lock:
                self._threads -= 1


_DECODING = _Decoding()


@dataclass(frozen=True)
class RowGroups:
    """Consecutive row groups of a file."""

    file: OpenFile
    path: str
    is_local: bool
    """Whether `path` is one that other libraries can open."""
    calendar: LegacyCalendar | None
    numbers: list[int]
    start: int
    """The position of the first row in the file."""
    rows: int

    @property
    def size(self) -> int:
        """Bytes, uncompressed but encoded."""
        return sum(self.file.metadata.row_group(number).total_byte_size for number in self.numbers)

    def about_bytes(self, schema: pa.Schema) -> int:
        """About how much memory these columns take when decoded."""
        return self.file.sizes(self.numbers, self._columns(schema)).likely

    def batches(self, schema: pa.Schema, size: BatchSize) -> Iterator[pa.RecordBatch]:
        """The rows in order."""
        columns = self._columns(schema)
        if not columns:
            decoded = _empty_batches(self.rows, size.rows)
        elif self._fits(size):
            decoded = iter(self._whole(columns).to_batches())
        else:
            decoded = self.file.batches(size, self.numbers, columns, use_threads=self.size > SMALL)
        return (self._conformed(batch, schema) for batch in decoded)

    def _fits(self, size: BatchSize) -> bool:
        """Whether one batch has room for all rows."""
        is_small = size.bytes is None or (self.rows <= _FEW_ROWS and self.size <= size.bytes)
        return self.rows <= size.rows and is_small

    def _columns(self, schema: pa.Schema) -> list[str]:
        return columns_to_read(list(self.file.schema_arrow), schema)

    def _whole(self, columns: list[str]) -> pa.Table:
        with _DECODING.one() as alone:
            return self.file.read(self.numbers, columns, use_threads=alone and self.size > SMALL)

    def _conformed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        converted = batch if self.calendar is None else self.calendar.convert(batch)
        return conform(converted, schema, path=self.path)


def check_text(batch: pa.RecordBatch) -> None:
    """Raises `ArrowInvalid` for text that is not UTF-8: neither Arrow nor consumers of the rows check it."""
    for column in batch.columns:
        _check_text(column)


def _check_text(array: pa.Array) -> None:
    """Most text is ASCII, which the greatest byte alone shows."""
    if pa.types.is_string(array.type):
        text = array.buffers()[2]
        if text is not None and np.frombuffer(text, np.uint8).max(initial=0) >= 0x80:
            array.validate(full=True)
    elif pa.types.is_dictionary(array.type):
        _check_text(array.dictionary)
    elif pa.types.is_nested(array.type):
        for child in child_arrays(array):
            _check_text(child)


def _empty_batches(rows: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Batches with rows but no columns, for files that need no column."""
    return (_empty_batch(min(batch_size, rows - start)) for start in range(0, rows, batch_size))


def _empty_batch(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))


def row_groups_that_may_match(
    file: OpenFile, groups: list[int], schema: pa.Schema, predicate: Expression, *, by_time: bool = True
) -> list[int]:
    """The `groups` in which a row can satisfy the predicate, which is in terms of `schema`. Without `by_time`, ignores
    bounds of dates and timestamps."""
    leaves = [file.schema.column(i).path for i in range(len(file.schema))]

    def bounds_of(column: Column) -> Bounds | None:
        found = _find_leaf(file.schema_arrow, schema, column.path)
        if found is None or leaves.count(found[0]) != 1:  # column `a.b` and field b of a have the same path
            return None
        path, target = found
        if pa.types.is_temporal(target) and not by_time:
            return None
        return _bounds(file.metadata, groups, leaves.index(path), target)

    mask = may_match(predicate, bounds_of, len(groups))
    return [group for group, keep in zip(groups, mask, strict=True) if keep]


def _find_leaf(source: pa.Schema, schema: pa.Schema, path: tuple[str, ...]) -> tuple[str, pa.DataType] | None:
    """The Parquet path of a (nested) column of `schema`, and its type there."""
    fields, targets = list(source), list(schema)
    names: list[str] = []
    data_type: pa.DataType | None = None
    for name in path:
        target = next((f for f in targets if f.name == name), None)
        index = None if target is None else FieldIndex(fields).find(target)
        if target is None or index is None:
            return None
        names.append(fields[index].name)
        data_type = target.type
        fields = list(fields[index].type) if pa.types.is_struct(fields[index].type) else []
        targets = list(data_type) if pa.types.is_struct(data_type) else []
    return (".".join(names), data_type) if data_type is not None and not fields else None


def _bounds(metadata: pq.FileMetaData, groups: list[int], leaf: int, target: pa.DataType) -> Bounds | None:
    chunks = [metadata.row_group(group).column(leaf) for group in groups]
    statistics = [chunk.statistics if chunk.is_stats_set else None for chunk in chunks]
    rows = [metadata.row_group(group).num_rows for group in groups]
    nulls = [s.null_count if s is not None and s.has_null_count else None for s in statistics]
    bounded = [s if s is not None and s.has_min_max else None for s in statistics]
    return Bounds(
        lower=_values([_bound(s, "min") for s in bounded], target),
        upper=_values([_bound(s, "max") for s in bounded], target),
        nulls=array_of(nulls, pa.int64()),
        rows=array_of(rows, pa.int64()),
    )


def _bound(statistics: pq.Statistics | None, name: Literal["min", "max"]) -> Any:
    """None if unknown, or not representable in Python: a date or timestamp outside the years 1 to 9999."""
    try:
        return getattr(statistics, name, None)
    except (OverflowError, ValueError):
        return None


def _values(values: list[Any], target: pa.DataType) -> pa.Array | None:
    """Statistics as a column of the type, or None if they are of another kind."""
    try:
        if pa.types.is_timestamp(target):
            return array_of([_moment(value, zoned=target.tz is not None) for value in values], target)
        if pa.types.is_string(target):
            return array_of([value.decode() if isinstance(value, bytes) else value for value in values], target)
        return array_of(values, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        return None


def _moment(value: Any, zoned: bool) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    utc = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return utc if zoned else utc.replace(tzinfo=None)
