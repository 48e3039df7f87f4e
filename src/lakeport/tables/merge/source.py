"""The source of a merge: its rows in Delta's types, and how tasks get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.schema import arrow_schema, nullable, schema_from_arrow
from lakeport.kernel.write import RowName, fit_column
from lakeport.tables.merge.clauses import BoundMerge, MergeDefinition
from lakeport.tables.merge.sides import name_source_row
from lakeport.tables.operation import discard
from lakeport.workers import Workers

_PIECE = 8 << 20


def source_schema(given: pa.Schema) -> pa.Schema:
    """The source's columns, in Delta's types. Raises `InvalidDataError`."""
    try:
        schema = arrow_schema(schema_from_arrow(given))
    except ValueError as error:
        raise InvalidDataError(f"the source cannot be merged: {error}") from error
    names = [name.lower() for name in schema.names]
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InvalidDataError(f"the source has two columns with the name {twice!r}", column=twice)
    return nullable(schema)


def fit_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the source, in Delta's types. Raises `InvalidDataError`."""
    first = 0
    for batch in batches:
        name_row = partial(_name_row, first)
        fitted = [fit_column(column, field, name_row) for column, field in zip(batch.columns, schema, strict=True)]
        yield make_batch(fitted, schema, batch.num_rows)
        first += batch.num_rows


def _name_row(first: int, row: int) -> RowName:
    return name_source_row(first + row)


def take_until(batches: Iterator[pa.RecordBatch], most: int | None) -> tuple[list[pa.RecordBatch], bool]:
    """Batches up to a size (None: all of them), and whether these are all."""
    taken, size = [], 0
    for batch in batches:
        taken.append(batch)
        size += batch.nbytes
        if most is not None and size > most:
            return taken, False
    return taken, True


def drained(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; the list does not keep them."""
    batches.reverse()
    while batches:
        yield batches.pop()


def join_source(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The source as one batch. Raises `InvalidDataError`."""
    table = pa.Table.from_batches(batches, schema)
    columns = [_in_one(table.column(index), field.name) for index, field in enumerate(schema)]
    return make_batch(columns, schema, table.num_rows)


def _in_one(column: pa.ChunkedArray, name: str) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        raise InvalidDataError(
            f"the column {name!r} of the source holds more than 2 GiB: merge it in several parts, or without spark=",
            column=name,
        )
    return combined


class SharedMerge(Protocol):
    """A merge that tasks open where they run."""

    def open(self, engine: Engine) -> BoundMerge: ...


@contextmanager
def shared_merge(merge: BoundMerge, workers: Workers, root: str) -> Iterator[SharedMerge]:
    """Share a merge with tasks. For other processes, the source is stored in a file below `root` while they run; vacuum
    deletes it as unreferenced data if it is left behind."""
    if workers.here is not None:
        yield _HeldMerge(merge)
        return
    engine, path = merge.sides.engine, f"{root}/merge-source-{uuid4()}.arrow"
    try:
        yield _StoredMerge(merge.definition, _store(engine, path, merge.source))
    finally:
        discard(engine, [path])


@dataclass(frozen=True)
class _HeldMerge:
    merge: BoundMerge

    def open(self, engine: Engine) -> BoundMerge:
        return self.merge


@dataclass(frozen=True)
class _StoredMerge:
    """Equal if the source file is the same, so a process opens it once for all its tasks."""

    definition: MergeDefinition = field(compare=False)
    file: FileStatus

    def open(self, engine: Engine) -> BoundMerge:
        return _opened(_Opening(self, engine))


@dataclass(frozen=True)
class _Opening:
    stored: _StoredMerge
    engine: Engine = field(compare=False)


@lru_cache(maxsize=1)
def _opened(opening: _Opening) -> BoundMerge:
    stored, engine = opening.stored, opening.engine
    with engine.storage.open_input(stored.file) as file, pa.ipc.open_file(file) as reader:
        (source,) = [reader.get_batch(index) for index in range(reader.num_record_batches)]
    return stored.definition.bind(engine, source)


def _store(engine: Engine, path: str, source: pa.RecordBatch) -> FileStatus:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, source.schema) as writer:
        writer.write_batch(source)
    data = memoryview(buffer.getvalue())
    output = engine.storage.open_output(path)
    try:
        for start in range(0, len(data), _PIECE):
            output.write(data[start : start + _PIECE])
        output.close()
    except BaseException:
        output.abort()
        raise
    return FileStatus(path, len(data), engine.now())
