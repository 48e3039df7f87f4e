"""The storage of shared tables: their logs are in memory, their files behind URLs that are signed and expire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NoReturn, Protocol

import pyarrow as pa

from lakeport.client.http import DataUrlRefused, HttpPool
from lakeport.client.local_log import DATA
from lakeport.engine.object_store import open_ranges
from lakeport.errors import MissingFileError, StorageError
from lakeport.kernel.engine import FileStatus, OutputFile


class Urls(Protocol):
    """The URLs of the files of one answer."""

    def current(self, path: str) -> str:
        """A URL that is good for a while. Raises `SharingError` if there is none any more."""

    def refused(self, path: str, url: str) -> str:
        """Another URL, in place of one that the storage refuses. Raises `SharingError`."""


class SharedStorage:
    """A `StorageClient` that reads logs by their names and data files by their URLs. Nothing can be written."""

    def __init__(self, http: HttpPool) -> None:
        self._http = http
        self._logs: dict[str, dict[str, tuple[bytes, int]]] = {}
        self._urls: dict[str, Urls] = {}
        self._lock = Lock()

    def add_log(self, root: str, files: dict[str, tuple[bytes, int]], urls: Urls, paths: Sequence[str]) -> None:
        """A log at `root`, and the data files that it names."""
        with self._lock:
            self._logs[f"{root}/_delta_log"] = files
            self._urls.update(dict.fromkeys(paths, urls))

    def resolve(self, path: str) -> str:
        return path.rstrip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        files = self._logs.get(directory, {})
        for name in sorted(name for name in files if name >= first_name):
            yield FileStatus(f"{directory}/{name}", len(files[name][0]), files[name][1])

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        return self.list_from(directory, "")

    def scans_directories(self, directory: str) -> bool:
        return False

    def status(self, path: str) -> FileStatus | None:
        directory, _, name = path.rpartition("/")
        found = self._logs.get(directory, {}).get(name)
        return None if found is None else FileStatus(path, len(found[0]), found[1])

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if path.startswith(f"{DATA}/"):
            size = int(path.rpartition("/")[2])
            return self._fetch(path, start, size - start if length is None else min(length, size - start))
        directory, _, name = path.rpartition("/")
        found = self._logs.get(directory, {}).get(name)
        if found is None:
            raise MissingFileError("the file does not exist", path=path)
        return found[0][start:] if length is None else found[0][start : start + length]

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return (self.read(file.path) for file in files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(self, file)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._refuse(path)

    def open_output(self, path: str) -> OutputFile:
        self._refuse(path)

    def delete(self, paths: Sequence[str]) -> None:
        self._refuse(paths[0] if paths else "")

    def _fetch(self, path: str, start: int, length: int) -> bytes:
        urls = self._urls.get(path)
        if urls is None:
            raise MissingFileError("the server has not shared this file", path=path)
        if length <= 0:
            return b""
        url = urls.current(path)
        try:
            return self._http.get_range(url, start, length)
        except DataUrlRefused:
            return self._fetch_again(path, urls.refused(path, url), start, length)

    def _fetch_again(self, path: str, url: str, start: int, length: int) -> bytes:
        try:
            return self._http.get_range(url, start, length)
        except DataUrlRefused as error:
            raise MissingFileError(
                f"the storage refuses the file, by a new URL too (status {error.status}); ask the provider", path=path
            ) from error

    def _refuse(self, path: str) -> NoReturn:
        raise StorageError("a shared table can only be read", path=path)
