"""Read Parquet with pyarrow: column pruning, row-group skipping, row positions."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine.clock import system_clock
from lakeport.engine.parquet.batch_size import DEFAULT_ROWS, BatchSize
from lakeport.engine.parquet.encoded import texts_to_keep_encoded
from lakeport.engine.parquet.legacy_calendar import LegacyCalendar
from lakeport.engine.parquet.open_file import OpenFile
from lakeport.engine.parquet.polars_rows import PolarsRows, uses_polars
from lakeport.engine.parquet.row_filter import ColumnsFirst, FoundRows, RowFilter
from lakeport.engine.parquet.row_groups import SMALL, RowGroups, check_text, row_groups_that_may_match
from lakeport.engine.parquet.writing import ParquetFileWriter, encode_parquet
from lakeport.errors import CorruptTableError, LakeportError
from lakeport.kernel.data_files import columns_to_read
from lakeport.kernel.engine import METADATA_COLUMN, FileSplit, FileStatus, StorageClient
from lakeport.kernel.expressions import Expression
from lakeport.kernel.values import from_numpy
from lakeport.workers.memory import arrow_pool_for
from lakeport.workers.ordered import await_turn, in_order

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def suitable_filters(file: FileStatus, predicate: Expression, schema: pa.Schema) -> list[RowFilter]:
    """The ways to find matching rows that pay off in this file and process, the best one first."""
    by_polars = PolarsRows.of(predicate, schema) if uses_polars([file]) else None
    by_columns = ColumnsFirst.of(predicate, schema) if file.size > SMALL else None
    return [row_filter for row_filter in (by_polars, by_columns) if row_filter is not None]


class ParquetFiles:
    """The `ParquetHandler` of the default engine."""

    def __init__(
        self,
        storage: StorageClient,
        clock: Callable[[], int] = system_clock,
        row_filters: Callable[[FileStatus, Expression, pa.Schema], list[RowFilter]] = suitable_filters,
    ) -> None:
        """`row_filters` are the ways to find the rows of a file that match, the best one first."""
        self._storage, self._clock, self._row_filters = storage, clock, row_filters

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        def read(split: FileSplit) -> Iterator[pa.RecordBatch]:
            with self._open(split.file) as (file, source):
                yield from self._read_split(file, source, split, schema, predicate, BatchSize.of(batch_size))

        following = iter(files)
        first = list(islice(following, 2))
        if len(first) < 2:
            return (batch for split in first for batch in read(split))
        return in_order(chain(first, following), read, pa.cpu_count() + 1, lambda split: split.file.size)

    def _read_split(
        self,
        file: OpenFile,
        source: pa.NativeFile,
        split: FileSplit,
        schema: pa.Schema,
        predicate: Expression | None,
        size: BatchSize,
    ) -> Iterator[pa.RecordBatch]:
        stored = pa.schema([f for f in schema if METADATA_COLUMN not in (f.metadata or {})])
        if any(pa.types.is_nested(field.type) for field in stored):  # pyarrow decodes less of them than 2 GB at once
            size = BatchSize.of(min(size.rows, DEFAULT_ROWS))
        filters = [] if predicate is None else self._row_filters(split.file, predicate, stored)
        is_local = isinstance(source, pa.OSFile) and os.path.isabs(split.file.path)
        runs = list(_row_groups(file, is_local, split, schema, predicate, size))
        columns = columns_to_read(list(file.schema_arrow), stored)
        file.fetch([number for groups in runs for number in groups.numbers], columns)
        await_turn()
        for groups in runs:
            attempts = (row_filter.rows(groups, stored, size) for row_filter in filters)
            found = next((rows for rows in attempts if rows is not None), None)
            if found is None:
                yield from _all_rows(groups, schema, stored, size)
            else:
                yield from _found_rows(found, schema, size.rows)

    def read_encoded(
        self, split: FileSplit, schema: pa.Schema, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        with self._open(split.file) as (file, source):
            yield from self._read_encoded(file, source, split, schema, batch_size)

    def _read_encoded(
        self,
        file: OpenFile,
        source: pa.NativeFile,
        split: FileSplit,
        schema: pa.Schema,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        size, texts = BatchSize.of(batch_size), texts_to_keep_encoded(file, schema)
        if not texts:
            yield from self._read_split(file, source, split, schema, None, size)
            return
        end = file.metadata.num_row_groups if split.end_row_group is None else split.end_row_group
        groups = list(range(split.first_row_group, end))
        columns = columns_to_read(list(file.schema_arrow), schema)
        file.fetch(groups, columns)
        await_turn()
        for batch in file.encoded_batches(size.rows, groups, columns, texts):
            yield _checked(batch, schema)

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        with self._open(file) as (opened, _):
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
    def _open(self, file: FileStatus) -> Iterator[tuple[OpenFile, pa.NativeFile]]:
        with parquet_errors(file.path), self._storage.open_input(file) as source:
            yield OpenFile(source, arrow_pool_for(file.size)), source


def _all_rows(groups: RowGroups, schema: pa.Schema, stored: pa.Schema, size: BatchSize) -> Iterator[pa.RecordBatch]:
    position = groups.start
    for batch in groups.batches(stored, size):
        check_text(batch)
        end = position + batch.num_rows
        yield _complete(batch, schema, range(position, end))
        position = end


def _found_rows(found: FoundRows, schema: pa.Schema, most_rows: int) -> Iterator[pa.RecordBatch]:
    batches, positions = found
    first = 0
    for rows in batches:
        check_text(rows)
        for start in range(0, rows.num_rows, most_rows):
            part = rows.slice(start, most_rows)
            yield _complete(part, schema, positions[first : (first := first + part.num_rows)])


def _row_groups(
    file: OpenFile,
    is_local: bool,
    split: FileSplit,
    schema: pa.Schema,
    predicate: Expression | None,
    size: BatchSize,
) -> Iterator[RowGroups]:
    """The row groups of the split that may match, those that are small together."""
    metadata, path = file.metadata, split.file.path
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    starts = [0, *accumulate(rows)]
    numbers = list(range(split.first_row_group, len(rows) if split.end_row_group is None else split.end_row_group))
    calendar = LegacyCalendar.of_file(file, split.file.path)
    if predicate is not None and numbers:
        numbers = row_groups_that_may_match(file, numbers, schema, predicate, by_time=calendar is None)
    for run in _runs(metadata, numbers, starts, size):
        start = starts[run[0]]
        yield RowGroups(file, path, is_local, calendar, run, start, starts[run[-1] + 1] - start)


def _checked(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with encoded columns, as fields of `schema`. Raises `ArrowInvalid` for text that is not UTF-8."""
    check_text(batch)
    fields = [field.with_type(column.type) for field, column in zip(schema, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _complete(batch: pa.RecordBatch, schema: pa.Schema, positions: range | npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The batch with the row index at its place in the schema."""
    if len(schema) == batch.num_columns:
        return batch
    arrays, fields = batch.columns, list(batch.schema)
    for index, field in enumerate(schema):
        if METADATA_COLUMN in (field.metadata or {}):
            arrays.insert(index, from_numpy(_as_array(positions)))
            fields.insert(index, field)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _as_array(positions: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.arange(positions.start, positions.stop) if isinstance(positions, range) else positions


def _runs(
    metadata: pq.FileMetaData, groups: Sequence[int], starts: Sequence[int], size: BatchSize
) -> Iterator[list[int]]:
    """Runs of consecutive row groups that a batch has room for, or single ones."""
    run: list[int] = []
    taken = 0
    for group in groups:
        encoded = metadata.row_group(group).total_byte_size
        too_long = run and starts[group + 1] - starts[run[0]] > size.rows
        too_large = size.bytes is not None and taken + encoded > size.bytes
        if run and (group != run[-1] + 1 or too_long or too_large):
            yield run
            run, taken = [], 0
        run.append(group)
        taken += encoded
    if run:
        yield run


@contextmanager
def parquet_errors(path: str) -> Iterator[None]:
    try:
        yield
    except LakeportError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise CorruptTableError(
            f"the Parquet file cannot be read: {str(error).splitlines()[0] if str(error) else error!r}", path=path
        ) from error
