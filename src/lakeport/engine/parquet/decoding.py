"""Decode row groups of an open file with pyarrow, into the columns of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa

from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.kernel.data_files import columns_to_read, conform
from lakeport.kernel.values import child_arrays

SMALL = 1 << 20
"""Up to this size, decoding takes less time than setting up other threads or memory."""


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

    def batches(self, schema: pa.Schema, batch_size: int) -> Iterator[pa.RecordBatch]:
        """The rows in order."""
        columns = self._columns(schema)
        if not columns:
            decoded = _empty_batches(self.rows, batch_size)
        elif self.rows <= batch_size:
            decoded = iter(self._whole(columns).to_batches())
        else:
            decoded = self.file.batches(batch_size, self.numbers, columns, use_threads=self.size > SMALL)
        return (self._conformed(batch, schema) for batch in decoded)

    def columns(self, fields: Sequence[pa.Field]) -> pa.RecordBatch | None:
        """All rows of some columns; None if they are too large for one batch."""
        schema = pa.schema(fields)
        names = self._columns(schema)
        batches = self._whole(names).combine_chunks().to_batches() if names else [_empty_batch(self.rows)]
        return self._conformed(batches[0], schema) if len(batches) == 1 else None

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
