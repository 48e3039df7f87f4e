"""Shared by the commands that write: a progress bar, the result, and a report after an interrupt."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import typer

from lakeport.cli.display import print_json, print_text, printable
from lakeport.cli.options import parse_options
from lakeport.cli.progress import Bar, showing
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.kernel.engine import DataFileWriter, Engine, FileSplit, FileStatus, ParquetHandler
from lakeport.kernel.expressions import Expression
from lakeport.tables import Result

_INTERRUPTED = 130
_COMMIT = re.compile(r"/_delta_log/(\d{20})\.json$")


@dataclass(frozen=True)
class Work:
    """The engine, progress bar and options of an operation on a table."""

    engine: Engine
    bar: Bar
    options: Mapping[str, str]


@contextmanager
def working(verb: str, target: str, option: list[str] | None, unit: str = "rows") -> Iterator[Work]:
    """Yield an engine whose progress is shown on a terminal. On an interrupt, print whether the table may have changed
    and exit with 130."""
    options = parse_options(option or [])
    storage = _WatchedStorage(options)
    try:
        with showing(verb, unit) as bar:
            engine = engine_over(storage)
            yield Work(replace(engine, parquet=_WatchedParquet(engine.parquet, bar.count_file)), bar, options)
    except KeyboardInterrupt:
        print(f"lakeport: {_left_behind(target, storage.commit)}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None


def print_result(target: str, result: Result, sentence: str, json: bool, **more: Any) -> None:
    """Print one line for people, or one JSON object for machines."""
    if json:
        print_json({"table": target, "version": result.version, "metrics": result.metrics, **more})
    else:
        print_text(f"{sentence}; {printable(target)} is at version {result.version}")


def _left_behind(target: str, commit: int | None) -> str:
    if commit is None:
        return f"interrupted: {target} is unchanged"
    return f"interrupted while writing version {commit} of {target}: see lakeport history for whether it was committed"


class _WatchedStorage(Storage):
    """Remembers the last version it tried to write."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.commit: int | None = None

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        if match := _COMMIT.search(path):
            self.commit = int(match[1])
        super().write(path, data, overwrite=overwrite)


@dataclass(frozen=True)
class _WatchedParquet:
    """Reports the size of each file it writes."""

    parquet: ParquetHandler
    count: Callable[[int], None]

    def read_parquet_files(
        self,
        files: Iterable[FileSplit],
        schema: pa.Schema,
        predicate: Expression | None = None,
        batch_size: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        return self.parquet.read_parquet_files(files, schema, predicate, batch_size)

    def read_encoded(
        self, split: FileSplit, schema: pa.Schema, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self.parquet.read_encoded(split, schema, batch_size)

    def split(self, file: FileStatus, parts: int) -> list[FileSplit]:
        return self.parquet.split(file, parts)

    def open_writer(
        self, path: str, schema: pa.Schema, compression: str = "snappy", bounded: Collection[tuple[str, ...]] = ()
    ) -> DataFileWriter:
        return _WatchedWriter(self.parquet.open_writer(path, schema, compression, bounded), self.count)

    def encode_parquet(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
        return self.parquet.encode_parquet(batches, schema)


@dataclass(frozen=True)
class _WatchedWriter:
    writer: DataFileWriter
    count: Callable[[int], None]

    @property
    def size(self) -> int:
        return self.writer.size

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write(batch)

    def close(self) -> FileStatus:
        file = self.writer.close()
        self.count(file.size)
        return file

    def bounds(self, path: tuple[str, ...]) -> tuple[Any, Any] | None:
        return self.writer.bounds(path)

    def abort(self) -> None:
        self.writer.abort()
