"""The storage of shared tables: logs in memory, files behind signed URLs that expire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from lakeport.client.http.pool import DataUrlRefused, HttpPool
from lakeport.client.tables.file_cache import FileCache
from lakeport.client.tables.local_log import DATA
from lakeport.client.tables.urls import FreshUrls
from lakeport.engine.storage.ranges import open_ranges
from lakeport.engine.storage.signing import SignedUrl
from lakeport.engine.storage.storage import ReadOnlyStorage
from lakeport.errors import AccessDeniedError, LakeportError, MissingFileError
from lakeport.kernel.engine import FileStatus

_NEW_URLS = 2
"""How many new URLs to request for one range of a file."""


class _Shared(NamedTuple):
    """How to read a file, and its table."""

    urls: FreshUrls
    table: str
    root: str


class SharedStorage(ReadOnlyStorage):
    """A read-only `StorageClient`: logs by name, data files by URL."""

    def __init__(self, http: HttpPool, cache: FileCache | None = None) -> None:
        self._http, self._cache = http, cache
        self.keeps_files = cache is not None
        self._logs: dict[str, dict[str, tuple[bytes, int]]] = {}
        self._files: dict[str, _Shared] = {}
        self._lock = Lock()

    def add_log(self, root: str, files: dict[str, tuple[bytes, int]]) -> None:
        """Add a log at `root`."""
        with self._lock:
            self._logs[f"{root}/_delta_log"] = files

    def add_files(self, paths: Iterable[str], urls: FreshUrls, table: str, root: str = "") -> None:
        """Add data files with their newest URLs. `table` identifies the table uniquely, forever; `root` is that of the
        log that names the files."""
        with self._lock:
            self._files.update(dict.fromkeys(paths, _Shared(urls, table, root)))

    def forget(self, root: str) -> None:
        """Drop the log at `root`, and the files that no later log names."""
        with self._lock:
            self._logs.pop(f"{root}/_delta_log", None)
            self._files = {path: shared for path, shared in self._files.items() if shared.root != root}

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        """The URL of a file, other than `refused`. Raises `MissingFileError` and `SharingError`."""
        return self._shared(path).urls.signed(path, refused)

    def part(self, paths: Iterable[str]) -> SharedStorage:
        """A picklable storage of only these files."""
        part = SharedStorage(self._http, self._cache)
        by_answer: dict[_Shared, list[str]] = {}
        for path in paths:
            if (shared := self._files.get(path)) is not None:
                by_answer.setdefault(shared, []).append(path)
        for shared, found in by_answer.items():
            part.add_files(found, shared.urls.part(found), shared.table)
        return part

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

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

    def _fetch(self, path: str, start: int, length: int) -> bytes:
        shared = self._shared(path)
        if length <= 0:
            return b""
        if self._cache is None:
            return self._download(path, shared.urls, start, length)
        key = f"{shared.table}\n{path}"
        data = self._cache.get(key, start, length)
        if data is None:
            data = self._download(path, shared.urls, start, length)
            self._cache.put(key, start, data)
        return data

    def _shared(self, path: str) -> _Shared:
        shared = self._files.get(path)
        if shared is None:
            raise MissingFileError("the server did not share this file", path=path)
        return shared

    def _download(self, path: str, urls: FreshUrls, start: int, length: int) -> bytes:
        """Download by the known URL; if storage rejects it, by new ones."""
        url = urls.signed(path).url
        for _ in range(_NEW_URLS):
            try:
                return self._http.get_range(url, start, length)
            except DataUrlRefused:
                url = urls.signed(path, url).url
        try:
            return self._http.get_range(url, start, length)
        except DataUrlRefused as error:
            raise _refusal(path, error.status) from error


def _refusal(path: str, status: int) -> LakeportError:
    if status in (404, 410):
        return MissingFileError(f"the file is missing from storage (status {status})", path=path)
    return AccessDeniedError(
        f"storage denied access to the file, even by a new URL (status {status}); ask the provider", path=path
    )
