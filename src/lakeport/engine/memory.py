"""Files in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from threading import Lock

import pyarrow as pa

from lakeport.errors import MissingFileError
from lakeport.kernel.engine import FileStatus


class MemoryStorage:
    """A `StorageClient` over a dictionary. Every path is taken as it is: give them a scheme of your own."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = Lock()

    def resolve(self, path: str) -> str:
        return path.rstrip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        prefix = f"{directory}/"
        with self._lock:
            names = sorted(path.removeprefix(prefix) for path in self._files if path.startswith(prefix))
        for name in names:
            if "/" not in name and name >= first_name:
                data, modified = self._files[prefix + name]
                yield FileStatus(prefix + name, len(data), modified)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if path not in self._files:
            raise MissingFileError("the file does not exist", path=path)
        data = self._files[path][0]
        return data[start:] if length is None else data[start : start + length]

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return (self.read(file.path) for file in files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return pa.BufferReader(self.read(file.path))

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        with self._lock:
            if path in self._files and not overwrite:
                raise FileExistsError(path)
            self._files[path] = (bytes(data), time.time_ns() // 1_000_000)
