"""What a Spark task reads, as a value that travels to it; it can hold credentials, so nothing of it is ever shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.scan import ScanFile
from lakeport.workers.reading import MOST_WAITED_FOR, RowReader, in_order

_BATCH_ROWS = 32 * 1024
_AHEAD = 2
"""While Spark takes the rows of a file, the next one is read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or one of several parts of it that are cut at row groups."""

    file: ScanFile | ChangeFile
    part: int = 0
    parts: int = 1

    def split(self, engine: Engine) -> FileSplit | None:
        """What to read; None if the file has fewer parts than that. Reads the end of the file, where that is needed."""
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
    """See `lakeport.workers.reading`: many small files can be under way at once if they come over a network."""
    return piece.file.size if "://" in piece.file.path else MOST_WAITED_FOR + 1


class TaskPartition(InputPartition):
    """A task as Spark's Python data sources have it."""

    def __init__(self, task: ReadTask) -> None:
        self.task = task

    def __repr__(self) -> str:
        return f"TaskPartition({len(self.task.pieces)} files)"
