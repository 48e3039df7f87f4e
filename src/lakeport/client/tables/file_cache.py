"""A cache of data file contents in a directory.

A shared file never changes under its id, so entries stay valid. Each range read is one entry: a file named after the
path and range, starting with its length and checksum. Entries appear atomically; damaged ones are removed and fetched
again. Several processes can share the directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple

_HEAD = struct.Struct("<4sQ32s")
_MARK = b"LKP1"
_SUFFIX = ".range"
_UNFINISHED = ".new"
_ABANDONED_SECONDS = 3600.0
"""An unfinished entry this old is abandoned."""
_LOOK_AGAIN = 16
"""The directory is measured after every `limit / _LOOK_AGAIN` bytes written."""
DEFAULT_LIMIT = 10 << 30


class FileCache:
    """File contents by path. Best effort: an unreadable or unwritable directory behaves like an empty one. Thread-safe.

    Beyond `limit` bytes, the least recently used entries are evicted."""

    def __init__(self, directory: str | os.PathLike[str], limit: int = DEFAULT_LIMIT) -> None:
        if limit <= 0:
            raise ValueError(f"the cache must have room for 1 byte or more, not {limit}")
        self._directory, self._limit = Path(directory), limit
        self._lock = Lock()
        self._unmeasured = limit

    def __reduce__(self) -> tuple[type[FileCache], tuple[Path, int]]:
        """Processes share a directory."""
        return FileCache, (self._directory, self._limit)

    def get(self, path: str, start: int, length: int) -> bytes | None:
        """Exactly these bytes of the file, if cached."""
        entry = self._entry(path, start, length)
        try:
            content = entry.read_bytes()
        except OSError:
            return None
        data = _decode(content, length)
        with contextlib.suppress(OSError):
            if data is None:
                entry.unlink()
            else:
                os.utime(entry)
        return data

    def put(self, path: str, start: int, data: bytes) -> None:
        if len(data) + _HEAD.size > self._limit:
            return
        entry = self._entry(path, start, len(data))
        with contextlib.suppress(OSError):
            _write(entry, data)
            self._written(len(data) + _HEAD.size)

    def _entry(self, path: str, start: int, length: int) -> Path:
        name = hashlib.sha256(f"{path}\n{start}\n{length}".encode()).hexdigest()
        return self._directory / name[:2] / f"{name[2:]}{_SUFFIX}"

    def _written(self, size: int) -> None:
        with self._lock:
            self._unmeasured += size
            if self._unmeasured < self._limit / _LOOK_AGAIN:
                return
            self._unmeasured = 0
            self._make_room()

    def _make_room(self) -> None:
        """Evict enough for the writes until the next check."""
        entries = sorted(_entries(self._directory), key=lambda entry: entry.used)
        excess = sum(entry.size for entry in entries) - (self._limit - self._limit // _LOOK_AGAIN)
        for entry in entries:
            if excess <= 0:
                return
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            excess -= entry.size


class _Entry(NamedTuple):
    path: str
    size: int
    used: float


def _entries(directory: Path) -> Iterator[_Entry]:
    for part in _scanned(directory):
        for found in _scanned(part.path):
            with contextlib.suppress(OSError):
                status = found.stat(follow_symlinks=False)
                if found.name.endswith(_SUFFIX):
                    yield _Entry(found.path, status.st_size, status.st_mtime)
                elif found.name.endswith(_UNFINISHED) and status.st_mtime < time.time() - _ABANDONED_SECONDS:
                    os.unlink(found.path)


def _scanned(directory: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _write(entry: Path, data: bytes) -> None:
    """Write the entry atomically, through a temporary name."""
    entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, unfinished = tempfile.mkstemp(_UNFINISHED, dir=entry.parent)
    try:
        with open(handle, "wb") as file:
            file.write(_HEAD.pack(_MARK, len(data), hashlib.sha256(data).digest()))
            file.write(data)
        os.replace(unfinished, entry)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _decode(content: bytes, length: int) -> bytes | None:
    """The content of an entry; None if damaged."""
    if len(content) != _HEAD.size + length:
        return None
    mark, said, digest = _HEAD.unpack_from(content)
    data = content[_HEAD.size :]
    return data if mark == _MARK and said == length and hashlib.sha256(data).digest() == digest else None
