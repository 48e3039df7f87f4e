"""The files that each Spark task reads: small ones together, large ones in parts, like Spark's own scans.

A task is a value that is pickled; it can hold credentials, so its repr shows only the number of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.scan import ScanFile
from lakeport.locations import is_url
from lakeport.source import TableSource
from lakeport.workers.ordered import MOST_WAITED_FOR, in_order
from lakeport.workers.reading import RowReader

_BATCH_ROWS = 32 * 1024
_AHEAD = 2
"""The next file is read while Spark consumes the current one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or one of several parts split at row groups."""

    file: ScanFile | ChangeFile
    part: int = 0
    parts: int = 1

    def split(self, engine: Engine) -> FileSplit | None:
        """The part to read; None if the file has fewer parts. Reads the footer if needed."""
        if self.parts == 1:
            return FileSplit(self.file.status)
        splits = engine.parquet.split(self.file.status, self.parts)
        return splits[self.part] if self.part < len(splits) else None


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Files, and the engine to read them with."""

    engine: Engine = field(repr=False)
    pieces: tuple[Piece, ...] = field(repr=False)

    def read(self, reader: RowReader) -> Iterator[pa.RecordBatch]:
        def read_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
            split = piece.split(self.engine)
            if split is not None:
                yield from reader.read(self.engine, piece.file, split, _BATCH_ROWS)

        return in_order(self.pieces, read_piece, _AHEAD, _weight)


def _weight(piece: Piece) -> int:
    """See `lakeport.workers.reading`: many small files can be read at once over a network."""
    return piece.file.size if is_url(piece.file.path) else MOST_WAITED_FOR + 1


class TaskPartition(InputPartition):
    """A task for Spark's Python data sources."""

    def __init__(self, task: ReadTask) -> None:
        self.task = task

    def __repr__(self) -> str:
        return f"TaskPartition({len(self.task.pieces)} files)"


_MOST_PARTS = 10_000
"""Per file, whatever size the log claims: more than files have row groups, and no more than a driver can hold."""


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """How much a task reads, with Spark's defaults."""

    most_bytes: int = 128 << 20
    open_cost: int = 4 << 20
    """The cost of opening a file, in bytes that could be read in that time."""
    parallelism: int = os.cpu_count() or 1
    """The minimum number of tasks, if there is enough to read."""

    def target(self, total: int) -> int:
        return min(self.most_bytes, max(self.open_cost, total // self.parallelism))


def plan_tasks(
    source: TableSource,
    files: Iterable[ScanFile | ChangeFile],
    sizes: TaskSizes = TaskSizes(),  # noqa: B008  # frozen
) -> list[ReadTask]:
    """Tasks that together read the files. Opens none of them."""
    found = list(files)
    target = sizes.target(sum(file.size + sizes.open_cost for file in found))
    pieces = [piece for file in found for piece in _pieces(file, target)]
    return [_task(source, group) for group in _packed(pieces, target, sizes.open_cost)]


def _task(source: TableSource, pieces: list[Piece]) -> ReadTask:
    return ReadTask(source.engine_for([piece.file for piece in pieces]), tuple(pieces))


def _pieces(file: ScanFile | ChangeFile, target: int) -> Iterator[Piece]:
    parts = min(_MOST_PARTS, max(1, -(-file.size // target)))
    return (Piece(file, part, parts) for part in range(parts))


def _packed(pieces: list[Piece], target: int, open_cost: int) -> Iterator[list[Piece]]:
    """Largest first, so that the last task to start is short."""
    group: list[Piece] = []
    size = 0
    for piece in sorted(pieces, key=_size, reverse=True):
        if group and size + _size(piece) > target:
            yield group
            group, size = [], 0
        group.append(piece)
        size += _size(piece) + open_cost
    if group:
        yield group


def _size(piece: Piece) -> int:
    return piece.file.size // piece.parts
