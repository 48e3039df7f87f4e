"""Storage confined to one table's directories, whatever the table's log or links say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from stat import S_ISREG
from typing import BinaryIO

import pyarrow as pa

from lakeport.engine.storage.disk import os_errors
from lakeport.engine.storage.storage import ReadOnlyStorage, Storage
from lakeport.errors import AccessDeniedError, StorageError
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.paths import is_within
from lakeport.locations import is_url


class ConfinedStorage(ReadOnlyStorage):
    """A read-only `StorageClient` for some directories, links resolved. Raises `AccessDeniedError` for all other paths:
    a server must not read files that only a table's log, or a link in it, points to."""

    refusal = "a server never writes to the tables that it shares"

    def __init__(self, storage: Storage, directories: Sequence[str]) -> None:
        self._storage, self._directories = storage, tuple(directories)
        self._on_disk = [directory for directory in directories if not is_url(directory)]

    def resolve(self, path: str) -> str:
        return self._storage.resolve(path)

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return self._storage.list_from(self._checked(directory), first_name)

    def scans_directories(self, directory: str) -> bool:
        return self._storage.scans_directories(directory)

    def status(self, path: str) -> FileStatus | None:
        return self._storage.status(self._checked(path))

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        return self._storage.list_all(self._checked(directory))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self._check_name(path)
        if is_url(path):
            return self._storage.read(path, start, length)
        with self._opened(path) as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        if files and not is_url(files[0].path):
            return (self.read(file.path) for file in files)
        for file in files:
            self._check_name(file.path)
        return self._storage.read_many(files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        self._check_name(file.path)
        if is_url(file.path):
            return self._storage.open_input(file)
        with self._opened(file.path) as opened:
            return pa.OSFile(f"/dev/fd/{opened.fileno()}", "rb")

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO]:
        with os_errors(path):
            descriptor, _ = open_within(self._on_disk, path)
            try:
                if not S_ISREG(os.fstat(descriptor).st_mode):
                    raise StorageError("not a regular file", path=path)
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    yield file
            finally:
                os.close(descriptor)

    def _checked(self, path: str) -> str:
        self._check_name(path)
        if not is_url(path):
            real_place(self._on_disk, path)
        return path

    def _check_name(self, path: str) -> None:
        if not any(is_within(path, directory) for directory in self._directories):
            raise AccessDeniedError(
                "the table's log names a file outside its location: to share such files, add their directory to the "
                "table's auxiliaryLocations",
                path=path,
            )


_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Without O_PATH (macOS), directories must be readable to be traversed."""
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO would wait for a writer


def open_within(directories: Sequence[str], path: str) -> tuple[int, str]:
    """A descriptor for reading `path`, and its real path. Raises `OSError`, and the errors of `real_place`. Links may
    change between check and use: once resolved, no more are followed."""
    place, below = real_place(directories, path)
    descriptor = os.open(place, _DIRECTORY)
    *parents, name = below.split("/")
    for parent in parents:
        descriptor = _enter(descriptor, parent, _DIRECTORY)
    return _enter(descriptor, name, _FILE), f"{place.rstrip('/')}/{below}"


def real_place(directories: Sequence[str], path: str) -> tuple[str, str]:
    """The real path of the directory that contains `path`, and the path below it (`.`: the directory itself). Raises
    `AccessDeniedError` if none of the directories contains it."""
    real = os.path.realpath(path)
    for place in map(os.path.realpath, directories):
        if is_within(real, place):
            return place, real[len(place) :].lstrip("/") or "."
    raise AccessDeniedError(
        "a link leads outside the table's location: to share its target, add the target's directory to the table's "
        "auxiliaryLocations",
        path=path,
    )


def _enter(directory: int, name: str, flags: int) -> int:
    """Open an entry of a directory, and close the directory."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    finally:
        os.close(directory)
