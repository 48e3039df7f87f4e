"""Local files and objects in a store (S3, GCS, Azure, HTTP), behind the kernel's `StorageClient`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NoReturn

import pyarrow as pa

from lakeport.engine.storage.disk import LocalFiles
from lakeport.engine.storage.objects import ObjectFiles, open_object_files
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import StorageError, UnusableStorageError
from lakeport.kernel.engine import FileStatus, OutputFile
from lakeport.locations import file_path, is_url, store_root


class Storage:
    """Routes each path to the disk or to the object store of its scheme and authority.

    `options` configure the object stores under obstore's names (`aws_endpoint`, `access_key_id`, `timeout` …); the rest
    comes from the environment, as for the cloud's own tools.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        self._disk = LocalFiles()
        self._stores: dict[str, ObjectFiles] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Storage], tuple[dict[str, Any]]]:
        """Another process opens its own stores."""
        return Storage, (self._options,)

    def resolve(self, path: str) -> str:
        path = os.fspath(path)
        if (local := file_path(path)) is not None:
            return os.path.abspath(local)
        return path.rstrip("/") if is_url(path) else os.path.abspath(os.path.expanduser(path))

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return self._for(directory).list_from(directory, first_name)

    def scans_directories(self, directory: str) -> bool:
        return self._for(directory).scans_directories(directory)

    def status(self, path: str) -> FileStatus | None:
        return self._for(path).status(path)

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        return self._for(directory).list_all(directory)

    def list_directory(self, directory: str) -> tuple[list[FileStatus], list[str]]:
        """A directory's direct contents: files, and the subdirectories that `list_all` would descend into."""
        return self._for(directory).list_directory(directory)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._for(path).read(path, start, length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return self._for(files[0].path).read_many(files) if files else iter(())

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return self._for(file.path).open_input(file)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._for(path).write(path, data, overwrite=overwrite)

    def open_output(self, path: str) -> OutputFile:
        return self._for(path).open_output(path)

    def delete(self, paths: Sequence[str]) -> None:
        by_place: dict[LocalFiles | ObjectFiles, list[str]] = {}
        for path in paths:
            by_place.setdefault(self._for(path), []).append(path)
        failures = []
        for place, there in by_place.items():
            try:
                place.delete(there)
            except StorageError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def signed(self, path: str, refused: str | None = None) -> SignedUrl:
        place = self._for(path)
        if isinstance(place, LocalFiles):
            raise StorageError("local files have no signed URLs", path=path)
        return place.signed(path, refused)

    def _for(self, path: str) -> LocalFiles | ObjectFiles:
        if not is_url(path):
            return self._disk
        if not (root := store_root(path)):
            raise UnusableStorageError("a URL needs two slashes after its scheme, as in s3://bucket/table", path=path)
        with self._lock:
            if root not in self._stores:
                self._stores[root] = open_object_files(root, self._options)
            return self._stores[root]


class ReadOnlyStorage:
    """The methods of a `StorageClient` that write, for storages that refuse to."""

    refusal = "a shared table can only be read"

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._refuse(path)

    def open_output(self, path: str) -> OutputFile:
        self._refuse(path)

    def delete(self, paths: Sequence[str]) -> None:
        self._refuse(paths[0] if paths else "")

    def _refuse(self, path: str) -> NoReturn:
        raise StorageError(self.refusal, path=path)
