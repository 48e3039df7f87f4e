"""Files on a disk and objects in a store (S3, GCS, Azure, HTTP), behind the one `StorageClient` of the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa

from lakeport.engine.object_store import ObjectFiles, open_store, store_root
from lakeport.errors import AccessDeniedError, MissingFileError, StorageError
from lakeport.kernel.engine import FileStatus

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")


class Storage:
    """Routes each path to the disk or to the object store of its scheme and authority.

    `options` configure the object stores by obstore's names (`aws_endpoint`, `access_key_id`, `timeout` …); what they
    leave out comes from the environment, as the cloud's own tools read it.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})
        self._disk = LocalFiles()
        self._stores: dict[str, ObjectFiles] = {}
        self._lock = Lock()

    def resolve(self, path: str) -> str:
        path = os.fspath(path)
        if not (match := _URL.match(path)) or len(match[1]) == 1:  # one letter: a drive, not a scheme
            return os.path.abspath(os.path.expanduser(path))
        if match[1].lower() == "file":
            return os.path.abspath(re.sub(r"^file:/*", "/", unquote(path), flags=re.IGNORECASE))
        return path.rstrip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        return self._for(directory).list_from(directory, first_name)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._for(path).read(path, start, length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return self._for(files[0].path).read_many(files) if files else iter(())

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return self._for(file.path).open_input(file)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._for(path).write(path, data, overwrite=overwrite)

    def _for(self, path: str) -> LocalFiles | ObjectFiles:
        match = _URL.match(path)
        if not match or len(match[1]) == 1:
            return self._disk
        root = store_root(path)
        with self._lock:
            if root not in self._stores:
                self._stores[root] = ObjectFiles(root, open_store(root, self._options))
            return self._stores[root]


class LocalFiles:
    """The file system."""

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        with _os_errors(directory):
            try:
                with os.scandir(directory) as entries:
                    found = sorted((entry.name, entry) for entry in entries if entry.name >= first_name)
            except (FileNotFoundError, NotADirectoryError, ValueError):
                return
            for name, entry in found:
                try:
                    if not entry.is_file():
                        continue
                    stat = entry.stat()
                except FileNotFoundError:  # removed meanwhile
                    continue
                yield FileStatus(os.path.join(directory, name), stat.st_size, stat.st_mtime_ns // 1_000_000)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with _os_errors(path), open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return (self.read(file.path) for file in files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        with _os_errors(file.path):
            return pa.OSFile(file.path, "rb")

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Writes a temporary file beside the target and renames or links it, so that no reader sees a part of it."""
        temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{uuid4().hex}.tmp")
        with _os_errors(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if overwrite:
                    os.replace(temporary, path)
                else:
                    os.link(temporary, path)
            finally:
                if os.path.exists(temporary):
                    os.unlink(temporary)


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: no path can have such a name
        raise MissingFileError("the file does not exist", path=path) from error
    except PermissionError as error:
        raise AccessDeniedError("permission denied: check the file's owner and mode", path=path) from error
    except OSError as error:
        raise StorageError(f"the file system failed: {error.strerror or error}", path=path) from error
