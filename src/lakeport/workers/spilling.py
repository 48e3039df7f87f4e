"""Spill rows that do not fit in memory to a temporary file.

The file is unnamed if the system allows it, so that even a killed process leaves nothing behind.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import OutOfSpaceError, StorageError
from lakeport.kernel.values import from_numpy

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

PartNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The place of neighbouring rows of a part in the file."""

    part: int
    start: int
    length: int


class SpilledRows:
    """Accepts any number of rows, and returns them part by part or in the order in which they were added.

    Memory is bounded: about three times `held` bytes. Raises `OutOfSpaceError` and `StorageError`, which name the
    directory. Several threads may read once everything is written."""

    def __init__(self, schema: pa.Schema, part_of: Callable[[pa.RecordBatch], PartNumbers], held: int) -> None:
        self.schema = schema
        self.rows = 0
        self.size = 0
        """The approximate size of all rows in memory, in bytes."""
        self._part_of, self._held = part_of, max(1, held)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_size = 0
        self._chunks: list[list[_Piece]] = []
        self._parts: dict[int, list[_Piece]] = {}
        with _errors():
            self._file = tempfile.TemporaryFile(prefix="lakeport-", buffering=0)  # noqa: SIM115  # closed by __exit__
        self._end = 0

    def __enter__(self) -> SpilledRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add any number of rows."""
        most = max(1, self._held * rows.num_rows // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, most):
            piece = rows.slice(start, most)
            self._waiting.append(piece)
            self._waiting_size += piece.nbytes
            if self._waiting_size >= self._held:
                self.finish()

    def finish(self) -> None:
        """Write the remaining rows. Call this before reading."""
        if self._waiting:
            rows = _joined(self._waiting)
            self.rows, self.size = self.rows + rows.num_rows, self.size + self._waiting_size
            self._waiting, self._waiting_size = [], 0
            self._write(rows)

    def parts(self) -> list[int]:
        """The numbers of the parts that have rows."""
        return sorted(self._parts)

    def has(self, part: int) -> bool:
        return part in self._parts

    def blocks(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part in the order of arrival, in batches of about `held` bytes."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for piece in self._parts.get(part, ()):
            waiting.append(self._read(piece))
            size += waiting[-1].nbytes
            if size >= self._held:
                yield _joined(waiting)
                waiting, size = [], 0
        if waiting:
            yield _joined(waiting)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """All rows: each batch has neighbouring ones, grouped by part."""
        for pieces in self._chunks:
            yield _joined([self._read(piece) for piece in pieces])

    def _write(self, rows: pa.RecordBatch) -> None:
        parts = self._part_of(rows)
        order = np.argsort(parts, kind="stable")
        grouped, parts = rows.take(from_numpy(order)), parts[order]
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        chunk = []
        for start, end in pairwise(cuts):
            chunk.append(self._written(int(parts[start]), grouped.slice(start, end - start)))
            self._parts.setdefault(chunk[-1].part, []).append(chunk[-1])
        self._chunks.append(chunk)

    def _written(self, part: int, rows: pa.RecordBatch) -> _Piece:
        data = memoryview(rows.serialize())
        piece = _Piece(part, self._end, len(data))
        with _errors():
            while data:
                written = os.pwrite(self._file.fileno(), data, self._end)
                self._end += written
                data = data[written:]
        return piece

    def _read(self, piece: _Piece) -> pa.RecordBatch:
        buffer = pa.allocate_buffer(piece.length)
        left = memoryview(buffer)
        with _errors():
            while left:
                read = os.preadv(self._file.fileno(), [left], piece.start + piece.length - len(left))
                if not read:
                    raise OSError(errno.EIO, "a temporary file was cut off")
                left = left[read:]
        return pa.ipc.read_record_batch(buffer, self.schema)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        directory = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
        if error.errno in _NO_SPACE:
            raise OutOfSpaceError(
                "no space left for temporary files: free some, point TMPDIR to a directory with more, or allow more "
                "memory",
                path=directory,
            ) from error
        raise StorageError(
            f"temporary files failed: {error.strerror or error}; point TMPDIR to another directory", path=directory
        ) from error
