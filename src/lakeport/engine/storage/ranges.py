"""Random access to a remote file by range requests. Ranges that will be needed are fetched ahead, in parallel."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Protocol

import pyarrow as pa

from lakeport.engine.storage.pools import pool
from lakeport.kernel.engine import FileStatus

_WHOLE_FILE = 2 << 20
"""Files up to this size are fetched in one request, larger ones by ranges."""
_PIECE = 4 << 20
"""The largest range to fetch ahead in one request: connections are slow, so several fetch a file that is alone."""
_GAP = 1 << 19
"""Ranges this close to each other are fetched together: a request takes as long as so many bytes."""
_AHEAD = 32 << 20
"""Bytes of a file that are fetched, or being fetched, ahead of its reader."""
_PARALLEL = 16

Range = tuple[int, int]
"""The first byte, and the one after the last."""


class ReadsRanges(Protocol):
    """The method of a `StorageClient` that reads. Thread-safe."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes: ...


def open_ranges(storage: ReadsRanges, file: FileStatus, lately: Opened | None = None) -> pa.NativeFile:
    """Random access to a file: whole if small, otherwise a `RangeInput`. `lately` has files to open again."""
    lately = Opened() if lately is None else lately
    if file.size > _WHOLE_FILE:
        return RangeInput(_Ranges(storage, file, lately.tails), "r")
    known = lately.small_files.get(file)
    if known is None:
        known = Tail(storage, 0, storage.read(file.path))
        if len(known) == file.size:  # if its size is unknown, it would not be found again either
            lately.small_files.put(file, known)
    return pa.BufferReader(known.data)


@dataclass(frozen=True)
class Tail:
    """The end of a file, where Parquet has its footer; of small files, all of it."""

    storage: ReadsRanges
    """It was read from here, and so must the rest: it may check that all of it is of one version."""
    start: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data)


class Opened:
    """What was read of the files that were opened last: a checkpoint is read for its protocol first, and then for its
    files; many queries read the same table. Small files do not displace the others."""

    def __init__(self) -> None:
        self.small_files, self.tails = Tails(), Tails()


class Tails:
    """Ends of files, by file, size and version, those that were used last. Thread-safe."""

    def __init__(self, most: int = 8 << 20) -> None:
        self._most, self._size = most, 0
        self._tails: OrderedDict[FileStatus, Tail] = OrderedDict()
        self._lock = Lock()

    def get(self, file: FileStatus) -> Tail | None:
        with self._lock:
            if file in self._tails:
                self._tails.move_to_end(file)
            return self._tails.get(file)

    def put(self, file: FileStatus, tail: Tail) -> None:
        with self._lock:
            self._drop(file)
            self._tails[file] = tail
            self._size += len(tail)
            while self._size > self._most:
                self._drop(next(iter(self._tails)))

    def drop(self, file: FileStatus) -> None:
        with self._lock:
            self._drop(file)

    def _drop(self, file: FileStatus) -> None:
        if (tail := self._tails.pop(file, None)) is not None:
            self._size -= len(tail)


class RangeInput(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """A file whose reads are range requests, except for ranges that are fetched ahead."""

    def __init__(self, ranges: _Ranges, mode: str) -> None:
        self._ranges = ranges

    def fetch_ahead(self, wanted: Iterable[Range]) -> None:
        """Fetch these ranges, each of which will be read once, about in this order."""
        self._ranges.fetch_ahead(wanted)


@dataclass(eq=False)
class _Piece:
    """A range to be fetched by one request."""

    start: int
    end: int
    unread: int
    """How many of its bytes will still be read; it is then dropped."""
    data: Future[bytes] | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


class _Ranges(io.RawIOBase):
    """A seekable file, read by one thread at a time."""

    def __init__(self, storage: ReadsRanges, file: FileStatus, tails: Tails) -> None:
        self._tails, self._tail = tails, tails.get(file)
        self._storage = storage if self._tail is None else self._tail.storage
        self._file, self._position = file, 0
        self._pieces: list[_Piece] = []
        self._starts: list[int] = []
        self._next = self._held = 0
        """The first piece that was not asked for, and the bytes of those that were and are not dropped."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._file.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes | memoryview:
        rest = max(0, self._file.size - self._position)
        length = rest if size < 0 else min(size, rest)
        if not length:
            return b""
        start, end = self._position, self._position + length
        data = self._ahead(start, end)
        if data is None:
            data = self._of_tail(start, end) or self._fetch_now(start, end)
        self._position += len(data)
        return data

    def _of_tail(self, start: int, end: int) -> memoryview | None:
        if self._tail is None or start < self._tail.start:
            return None
        return memoryview(self._tail.data)[start - self._tail.start : end - self._tail.start]

    def _fetch_now(self, start: int, end: int) -> bytes:
        data = self._request(start, end - start)
        if end == self._file.size and len(data) == end - start:
            self._tail = Tail(self._storage, start, data)
            self._tails.put(self._file, self._tail)
        return data

    def _request(self, start: int, length: int) -> bytes:
        """A file that cannot be read may have changed: what is known of it is dropped."""
        try:
            return self._storage.read(self._file.path, start, length)
        except Exception:
            self._tails.drop(self._file)
            raise

    def close(self) -> None:
        for piece in self._pieces:
            if piece.data is not None:
                piece.data.cancel()
        self._pieces, self._starts = [], []
        super().close()

    def fetch_ahead(self, wanted: Iterable[Range]) -> None:
        self._pieces = list(_pieces(sorted(self._within_the_file(wanted))))
        self._starts = [piece.start for piece in self._pieces]
        self._next = self._held = 0
        self._fetch_more()

    def _within_the_file(self, wanted: Iterable[Range]) -> Iterator[Range]:
        """The ranges, or the part of them that exists: a damaged footer may name any others."""
        for start, end in wanted:
            first, last = max(start, 0), min(end, self._file.size)
            if first < last:
                yield first, last

    def _fetch_more(self) -> None:
        while self._next < len(self._pieces) and self._held < _AHEAD:
            piece = self._pieces[self._next]
            if piece.data is None and piece.unread > 0:
                self._fetch(piece)
            self._next += 1

    def _fetch(self, piece: _Piece) -> None:
        self._held += piece.size
        piece.data = pool("ranges", _PARALLEL).submit(self._read, piece)

    def _read(self, piece: _Piece) -> bytes:
        return self._request(piece.start, piece.size)

    def _fetched(self, piece: _Piece) -> bytes:
        """Fetches the piece itself if no thread has begun: all of them may wait for another storage, which hangs."""
        assert piece.data is not None
        if piece.data.cancel():
            piece.data = Future()
            piece.data.set_result(self._read(piece))
        return piece.data.result()

    def _ahead(self, start: int, end: int) -> bytes | memoryview | None:
        """The bytes, if pieces cover them that were not dropped."""
        first = bisect_right(self._starts, start) - 1
        found: list[_Piece] = []
        for piece in self._pieces[max(first, 0) :]:
            if piece.start > (found[-1].end if found else start) or piece.unread <= 0:
                return None
            found.append(piece)
            if piece.end >= end:
                break
        if not found or found[-1].end < end:
            return None
        for piece in found:  # all of them at once, those that are far ahead too
            if piece.data is None:
                self._fetch(piece)
        parts = [self._take(piece, max(start, piece.start), min(end, piece.end)) for piece in found]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take(self, piece: _Piece, start: int, end: int) -> memoryview:
        taken = memoryview(self._fetched(piece))[start - piece.start : end - piece.start]
        piece.unread -= end - start
        if piece.unread <= 0:
            piece.data = None
            self._held -= piece.size
            self._fetch_more()
        return taken


def _pieces(wanted: Iterable[Range]) -> Iterator[_Piece]:
    """Long ranges are cut, and neighbouring short ones are joined."""
    last: _Piece | None = None
    for start, end in (part for each in wanted for part in _cut(*each)):
        if last is not None and start - last.end <= _GAP and end - last.start <= _PIECE:
            last.end, last.unread = max(last.end, end), last.unread + end - start
            continue
        if last is not None:
            yield last
        last = _Piece(start, end, end - start)
    if last is not None:
        yield last


def _cut(start: int, end: int) -> Iterator[Range]:
    parts = max(1, -(-(end - start) // _PIECE))
    return pairwise(start + (end - start) * part // parts for part in range(parts + 1))
