"""Sources of the rows that commands write: files, stdin and Delta tables, as one stream of batches."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from io import BufferedReader
from typing import Protocol

import pyarrow as pa

from lakeport.cli.files.formats import Format, format_of, is_file_name
from lakeport.cli.files.readers import Reader, open_reader
from lakeport.cli.progress import Expected, expected_rows
from lakeport.errors import InvalidDataError
from lakeport.frame import Frame, scan
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import StructType
from lakeport.locations import is_url

STDIN = "-"


class Source(Protocol):
    """A source of rows. It can be opened more than once, unless it is stdin."""

    @property
    def name(self) -> str: ...
    def open(self) -> AbstractContextManager[Reader]: ...


@dataclass
class Rows:
    """The rows of all sources, one source after the other."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    expected_rows: Expected
    _names: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)

    def each(self, taken: Callable[[int], None]) -> Rows:
        """The same rows; `taken` is called with the number of rows of each batch consumed."""

        def telling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                taken(batch.num_rows)

        return replace(self, batches=telling(self.batches))

    def begin(self, name: str, row: int) -> None:
        """Record where a source begins."""
        self._names.append(name)
        self._starts.append(row)

    def place_of(self, row: int) -> str:
        """The source of a row, and its position there, counted from 1."""
        index = bisect_right(self._starts, row) - 1
        return f"row {row - self._starts[index] + 1} of {self._names[index]}"


@contextmanager
def open_sources(
    texts: list[str], kind: Format | None, types: StructType | None, engine: Engine, options: Mapping[str, str]
) -> Iterator[Rows]:
    """Yield the rows of the named sources. Text files are parsed as `types`.

    Raises `ValueError` and `OSError` for sources that cannot be opened, and `InvalidDataError`."""
    sources = [source for text in texts for source in find_sources(text, kind, types, engine, options)]
    if len(sources) == 1:
        with sources[0].open() as reader:
            rows = Rows(reader.schema, reader.batches, reader.expected_rows)
            rows.begin(sources[0].name, 0)
            yield rows
        return
    if any(isinstance(source, _Stdin) for source in sources):
        raise ValueError("- (stdin) cannot be combined with other sources: use it alone")
    rows = Rows(_unified([_schema_of(source) for source in sources]), iter(()), lambda: _expected_of(sources))
    rows.batches = _one_by_one(sources, rows)
    yield rows


def find_sources(
    text: str, kind: Format | None, types: StructType | None, engine: Engine, options: Mapping[str, str]
) -> list[Source]:
    """A file, stdin, a Delta table, or the files that a pattern matches."""
    if text == STDIN:
        if kind is None:
            raise ValueError("rows from stdin need --format")
        return [_Stdin(kind, types)]
    if is_url(text) and not is_file_name(text) and kind is None:
        return [_DeltaTable(scan(text, storage_options=dict(options)))]
    if has_magic(text) and not os.path.lexists(text):
        found = sorted(glob(text, recursive=True))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no file matches", text)
        return [source for path in found for source in find_sources(path, kind, types, engine, options)]
    if os.path.isdir(text):
        if not os.path.isdir(os.path.join(text, "_delta_log")):
            raise ValueError(
                f"{text!r} is a directory, but not a Delta table: name its files, such as '{text}/*.parquet'"
            )
        return [_DeltaTable(scan(text, storage_options=dict(options)))]
    return [_File(text, kind or format_of(text), types, engine)]


@dataclass(frozen=True)
class _File:
    name: str
    kind: Format
    types: StructType | None
    engine: Engine

    @contextmanager
    def open(self) -> Iterator[Reader]:
        storage = self.engine.storage
        status = storage.status(storage.resolve(self.name))
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", self.name)
        with storage.open_input(status) as opened, BufferedReader(opened, 1 << 20) as file:
            yield open_reader(self.kind, file, self.name, self.types)


@dataclass(frozen=True)
class _Stdin:
    kind: Format
    types: StructType | None
    name: str = "stdin"

    @contextmanager
    def open(self) -> Iterator[Reader]:
        given = sys.stdin.buffer
        if self.kind is not Format.parquet:
            assert isinstance(given, BufferedReader)
            yield open_reader(self.kind, given, self.name, self.types)
            return
        with tempfile.TemporaryFile(buffering=0) as copy:  # Parquet readers need to seek
            shutil.copyfileobj(given, copy)
            copy.seek(0)
            with BufferedReader(copy) as file:
                yield open_reader(self.kind, file, self.name, self.types)


@dataclass(frozen=True)
class _DeltaTable:
    frame: Frame

    @property
    def name(self) -> str:
        return self.frame.target

    @contextmanager
    def open(self) -> Iterator[Reader]:
        yield Reader(self.frame.schema, self.frame.to_batches(), lambda: expected_rows(self.frame))


def _schema_of(source: Source) -> pa.Schema:
    with source.open() as reader:
        return reader.schema


def _expected_of(sources: list[Source]) -> int | None:
    total = 0
    for source in sources:
        with source.open() as reader:
            if (expected := reader.expected_rows()) is None:
                return None
            total += expected
    return total


def _unified(schemas: list[pa.Schema]) -> pa.Schema:
    """The columns of all sources, with types that hold all their values."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidDataError(
            f"the sources do not agree on their columns: {str(error).splitlines()[0]}; write them in separate commands"
        ) from error


def _one_by_one(sources: list[Source], rows: Rows) -> Iterator[pa.RecordBatch]:
    count = 0
    for source in sources:
        rows.begin(source.name, count)
        with source.open() as reader:
            for batch in reader.batches:
                yield _under(batch, rows.schema)
                count += batch.num_rows


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of all sources; missing ones are null."""
    if batch.schema.equals(schema):
        return batch
    places = [batch.schema.get_field_index(field.name) for field in schema]
    columns = [
        pa.nulls(batch.num_rows, field.type) if place < 0 else batch.column(place).cast(field.type)
        for place, field in zip(places, schema, strict=True)
    ]
    return make_batch(columns, schema, batch.num_rows)
