"""Files on a disk and objects in a store (S3, GCS, Azure, HTTP), behind the one `StorageClient` of the kernel."""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import obstore
import pyarrow as pa
from obstore import exceptions as obstore_errors
from obstore.store import ObjectStore, from_url

from lakeport.errors import AccessDeniedError, MissingFileError, StorageError
from lakeport.kernel.engine import FileStatus, StorageClient

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")
_WHOLE_OBJECT_LIMIT = 2 << 20
"""Objects up to this size are fetched in one request, larger ones by ranges."""

_PARALLEL_REQUESTS = 16


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
        root = _store_root(path)
        with self._lock:
            if root not in self._stores:
                self._stores[root] = ObjectFiles(root, _make_store(root, self._options))
            return self._stores[root]


class LocalFiles:
    """The file system."""

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        with _os_errors(directory):
            try:
                with os.scandir(directory) as entries:
                    found = sorted((entry.name, entry) for entry in entries if entry.name >= first_name)
            except (FileNotFoundError, NotADirectoryError):
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
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{uuid4().hex}.tmp")
        with _os_errors(path):
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


class ObjectFiles:
    """One bucket or container."""

    def __init__(self, root: str, store: ObjectStore) -> None:
        self._root = root
        self._store = store

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_PARALLEL_REQUESTS, thread_name_prefix="lakeport-storage")

    def _key(self, path: str) -> str:
        return path[len(self._root) :].strip("/")

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        prefix = self._key(directory)
        # The offset is exclusive, so it ends one character before the first name.
        offset = f"{prefix}/{first_name[:-1]}" if first_name else None
        with _store_errors(directory):
            for chunk in obstore.list(self._store, prefix, offset=offset):
                for meta in chunk:
                    name = meta["path"][len(prefix) + 1 :]
                    if name.startswith("_") and first_name[:1].isdigit():
                        return  # names are sorted: only subdirectories and hints follow the numbered files
                    if "/" in name or name < first_name:
                        continue
                    modified = int(meta["last_modified"].timestamp() * 1000)
                    yield FileStatus(f"{directory}/{name}", meta["size"], modified)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with _store_errors(path):
            if length is not None:
                return bytes(obstore.get_range(self._store, self._key(path), start=start, length=length))
            options: Any = {"range": {"offset": start}} if start else None
            return bytes(obstore.get(self._store, self._key(path), options=options).bytes())

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        paths = iter([file.path for file in files])
        ahead: deque[Future[bytes]] = deque(self._pool.submit(self.read, p) for p in islice(paths, _PARALLEL_REQUESTS))
        while ahead:
            data = ahead.popleft().result()
            if (following := next(paths, None)) is not None:
                ahead.append(self._pool.submit(self.read, following))
            yield data

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        return open_ranges(self, file)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        with _store_errors(path):
            obstore.put(self._store, self._key(path), data, mode="overwrite" if overwrite else "create")


def open_ranges(storage: StorageClient | ObjectFiles, file: FileStatus) -> pa.NativeFile:
    """Random access to a file by way of `storage.read`: whole if it is small, by ranges otherwise."""
    if file.size <= _WHOLE_OBJECT_LIMIT:
        return pa.BufferReader(storage.read(file.path))
    return pa.PythonFile(io.BufferedReader(_Ranges(storage, file), buffer_size=1 << 16), mode="r")


class _Ranges(io.RawIOBase):
    """A seekable file whose every read is a range request."""

    def __init__(self, storage: StorageClient | ObjectFiles, file: FileStatus) -> None:
        self._storage, self._file, self._position = storage, file, 0

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

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._file.size - self._position)
        if length <= 0:
            return 0
        data = self._storage.read(self._file.path, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def _store_root(path: str) -> str:
    """`scheme://authority`"""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


_CLIENT_OPTIONS = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent"}
)


def _make_store(root: str, options: Mapping[str, Any]) -> ObjectStore:
    client: Any = {name: value for name, value in options.items() if name in _CLIENT_OPTIONS}
    config: Any = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS}
    if root.startswith("http://"):
        client["allow_http"] = True
    try:
        return from_url(
            root,
            config=config or None,
            client_options=client or None,
            retry_config={"max_retries": 4, "retry_timeout": timedelta(seconds=30)},
        )
    except (obstore_errors.BaseError, ValueError) as error:
        raise StorageError(f"cannot open the storage: {_first_line(error)}", path=root) from error


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFileError("the file does not exist", path=path) from error
    except PermissionError as error:
        raise AccessDeniedError("permission denied: check the file's owner and mode", path=path) from error
    except OSError as error:
        raise StorageError(f"the file system failed: {error.strerror or error}", path=path) from error


@contextmanager
def _store_errors(path: str) -> Iterator[None]:
    try:
        yield
    except obstore_errors.AlreadyExistsError as error:
        raise FileExistsError(path) from error
    except (FileNotFoundError, obstore_errors.NotFoundError) as error:
        raise MissingFileError("the object does not exist", path=path) from error
    except (PermissionError, obstore_errors.PermissionDeniedError, obstore_errors.UnauthenticatedError) as error:
        raise AccessDeniedError(f"access denied: check the credentials ({_first_line(error)})", path=path) from error
    except (obstore_errors.BaseError, OSError, ValueError) as error:
        raise StorageError(f"the storage failed: {_first_line(error)}", path=path) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
