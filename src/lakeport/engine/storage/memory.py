"""Files in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

import pyarrow as pa

from lakeport.engine.clock import system_clock
from lakeport.errors import MissingFileError
from lakeport.kernel.engine import FileStatus


class MemoryStorage:
    """A `StorageClient` over a dictionary. Paths are taken as they are: use a scheme of your own."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = Lock()

    def resolve(self, path: str) -> str:
        return path.rstrip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        start = len(directory) + 1
        for file in sorted(self.list_all(directory), key=lambda file: file.path):
            if "/" not in file.path[start:] and file.path[start:] >= first_name:
                yield file

    def scans_directories(self, directory: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        found = self._files.get(path)
        return None if found is None else FileStatus(path, len(found[0]), found[1])

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        prefix = f"{directory}/"
        with self._lock:
            found = [(path, file) for path, file in self._files.items() if path.startswith(prefix)]
        return (FileStatus(path, len(data), modified) for path, (data, modified) in found)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        file = self._files.get(path)
        if file is None:
            raise MissingFileError("the file does not exist", path=path)
        data = file[0]
        return data[start:] if length is None else data[start : start + length]

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return (self.read(file.path) for file in files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return pa.BufferReader(self.read(file.path))

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        with self._lock:
            if path in self._files and not overwrite:
                raise FileExistsError(path)
            self._files[path] = (bytes(data), system_clock())

    def open_output(self, path: str) -> _MemoryOutput:
        return _MemoryOutput(self, path)

    def delete(self, paths: Sequence[str]) -> None:
        with self._lock:
            for path in paths:
                self._files.pop(path, None)


class _MemoryOutput:
    """An `OutputFile` that is stored on close."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage, self._path, self._buffer = storage, path, bytearray()

    def write(self, data: bytes | memoryview) -> int:
        self._buffer += data
        return len(data)

    def close(self) -> None:
        self._storage.write(self._path, bytes(self._buffer), overwrite=True)

    def abort(self) -> None:
        self._buffer = bytearray()
