"""Read Parquet with pyarrow: column pruning, row-group skipping, row positions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakeport.engine.clock import system_clock
from lakeport.engine.parquet.encoded import texts_to_keep_encoded
from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.row_groups import row_groups_that_may_match
from lakeport.engine.parquet.writing import ParquetFileWriter, encode_parquet
from lakeport.errors import CorruptTableError, LakeportError
from lakeport.kernel.data_files import columns_to_read, conform
from lakeport.kernel.engine import METADATA_COLUMN, FileSplit, FileStatus, StorageClient
from lakeport.kernel.expressions import Expression
from lakeport.kernel.values import child_arrays, from_numpy

if TYPE_CHECKING:
    import pyarrow.parquet as pq

DEFAULT_BATCH_SIZE = 256 * 1024
_SMALL = 1 << 20
"""Up to this size, decoding takes less time than setting up other threads or memory."""


class ParquetFiles:
    """The `ParquetHandler` of the default engine."""

    def __init__(self, storage: StorageClient, clock: Callable[[], int] = system_clock) -> None:
        self._storage, self._clock = storage, clock

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        for split in files:
            with self._open(split.file) as file:
                yield from _read_split(file, split, schema, predicate, batch_size or DEFAULT_BATCH_SIZE)

    def read_encoded(
        self, split: FileSplit, schema: pa.Schema, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        size = batch_size or DEFAULT_BATCH_SIZE
        with self._open(split.file, partial(texts_to_keep_encoded, schema=schema)) as file:
            if not any(map(pa.types.is_dictionary, file.schema_arrow.types)):
                yield from _read_split(file, split, schema, None, size)
                return
            end = file.metadata.num_row_groups if split.end_row_group is None else split.end_row_group
            groups = list(range(split.first_row_group, end))
            for batch in file.iter_batches(size, groups, use_threads=False):
                yield _checked(batch, schema)

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        with self._open(file) as opened:
            groups = opened.metadata.num_row_groups
        cuts = sorted({groups * part // parts for part in range(parts + 1)}) if groups else [0]
        pieces = [FileSplit(file, first, end) for first, end in pairwise(cuts)]
        return pieces or [FileSplit(file)]

    def open_writer(
        self, path: str, schema: pa.Schema, compression: str = "snappy", bounded: Collection[tuple[str, ...]] = ()
    ) -> ParquetFileWriter:
        return ParquetFileWriter(self._storage.open_output(path), path, schema, self._clock, compression, bounded)

    def encode_parquet(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
        return encode_parquet(batches, schema)

    @contextmanager
    def _open(
        self, file: FileStatus, choose_encoded: Callable[[pq.ParquetFile], list[str]] | None = None
    ) -> Iterator[pq.ParquetFile]:
        """Open a file. Reads the columns chosen by `choose_encoded` as dictionaries."""
        from pyarrow.parquet import ParquetFile  # lazy: it loads storage clients, 8 MB that reading a log does not need

        with _parquet_errors(file.path), self._storage.open_input(file) as source:
            options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
            options["pre_buffer"] = isinstance(source, pa.PythonFile)
            opened = ParquetFile(source, **options)
            if choose_encoded is not None and (encoded := choose_encoded(opened)):
                options["read_dictionary"] = encoded
                opened = ParquetFile(source, metadata=opened.metadata, **options)
            is_remote = not isinstance(source, pa.OSFile)
            if is_remote and file.size > _SMALL and (pool := reading_pool()) is not None:
                reader = type(opened.reader)(memory_pool=pool)
                reader.open(source, metadata=opened.metadata, **options)
                opened.reader = reader
            yield opened


@cache
def reading_pool() -> pa.MemoryPool | None:
    """The allocator for files read over a network; None for Arrow's default. That is mostly mimalloc, which requests
    huge pages: remote files then take a third more memory, and longer, than with jemalloc; local files do not. An
    explicit ARROW_DEFAULT_MEMORY_POOL wins."""
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        return None
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:
        return None


def _read_split(
    file: pq.ParquetFile, split: FileSplit, schema: pa.Schema, predicate: Expression | None, batch_size: int
) -> Iterator[pa.RecordBatch]:
    metadata = file.metadata
    starts = np.cumsum([0] + [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])
    end = metadata.num_row_groups if split.end_row_group is None else split.end_row_group
    groups = list(range(split.first_row_group, end))
    calendar = LegacyCalendar.of_file(file, split.file.path)
    if predicate is not None and groups:
        groups = row_groups_that_may_match(file, groups, schema, predicate, by_time=calendar is None)
    stored = pa.schema([f for f in schema if METADATA_COLUMN not in (f.metadata or {})])
    columns = columns_to_read(list(file.schema_arrow), stored)
    for first, last in _runs(groups):
        position = int(starts[first])
        batches = (
            file.iter_batches(batch_size, list(range(first, last + 1)), columns, use_threads=split.file.size > _SMALL)
            if columns
            else _empty_batches(int(starts[last + 1]) - position, batch_size)
        )
        for batch in batches:
            converted = batch if calendar is None else calendar.convert(batch)
            conformed = conform(converted, stored, path=split.file.path)
            for column in conformed.columns:
                _check_text(column)
            yield _complete(conformed, schema, position)
            position += batch.num_rows


def _checked(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with encoded columns, as fields of `schema`. Raises `ArrowInvalid` for text that is not UTF-8."""
    for column in batch.columns:
        _check_text(column.dictionary if isinstance(column, pa.DictionaryArray) else column)
    fields = [field.with_type(column.type) for field, column in zip(schema, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _check_text(array: pa.Array) -> None:
    """Raises `ArrowInvalid` for text that is not UTF-8: neither Arrow nor consumers of the rows check it. Most text is
    ASCII, which the greatest byte alone shows."""
    if pa.types.is_string(array.type):
        text = array.buffers()[2]
        if text is not None and np.frombuffer(text, np.uint8).max(initial=0) >= 0x80:
            array.validate(full=True)
    for child in child_arrays(array):
        _check_text(child)


def _complete(batch: pa.RecordBatch, schema: pa.Schema, position: int) -> pa.RecordBatch:
    """The batch with the row index at its place in the schema."""
    if len(schema) == batch.num_columns:
        return batch
    arrays, fields = batch.columns, list(batch.schema)
    for index, field in enumerate(schema):
        if METADATA_COLUMN in (field.metadata or {}):
            arrays.insert(index, from_numpy(np.arange(position, position + batch.num_rows, dtype=np.int64)))
            fields.insert(index, field)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _empty_batches(rows: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Batches with rows but no columns, for files that need no column."""
    for start in range(0, rows, batch_size):
        length = min(batch_size, rows - start)
        yield pa.RecordBatch.from_struct_array(pa.nulls(length, pa.struct([])))


def _runs(groups: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of consecutive numbers, as (first, last)."""
    start = 0
    for i in range(1, len(groups) + 1):
        if i == len(groups) or groups[i] != groups[i - 1] + 1:
            yield groups[start], groups[i - 1]
            start = i


@contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    try:
        yield
    except LakeportError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise CorruptTableError(
            f"the Parquet file cannot be read: {str(error).splitlines()[0] if str(error) else error!r}", path=path
        ) from error
