"""A storage that records which files are opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakeport.engine import ComposedEngine, engine_over
from lakeport.engine.storage.memory import MemoryStorage
from lakeport.kernel.engine import FileStatus, OutputFile, StorageClient


class CountingStorage:
    """Passes everything on; `opened` has the names of the files that were read, with repetitions."""

    def __init__(self, storage: StorageClient | None = None) -> None:
        self._storage = storage or MemoryStorage()
        self.opened: list[str] = []

    def _open(self, path: str) -> str:
        self.opened.append(path.rpartition("/")[2])
        return path

    def resolve(self, path: str) -> str:
        return self._storage.resolve(path)

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return self._storage.list_from(directory, first_name)

    def scans_directories(self, directory: str) -> bool:
        return self._storage.scans_directories(directory)

    def status(self, path: str) -> FileStatus | None:
        return self._storage.status(path)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._storage.read(self._open(path), start, length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        for file in files:
            self._open(file.path)
        return self._storage.read_many(files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        self._open(file.path)
        return self._storage.open_input(file)

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        return self._storage.list_all(directory)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._storage.write(path, data, overwrite=overwrite)

    def open_output(self, path: str) -> OutputFile:
        return self._storage.open_output(path)

    def delete(self, paths: Sequence[str]) -> None:
        self._storage.delete(paths)


def counting_engine() -> tuple[ComposedEngine, CountingStorage]:
    """An engine in memory, and its storage, which counts."""
    storage = CountingStorage()
    return engine_over(storage), storage
