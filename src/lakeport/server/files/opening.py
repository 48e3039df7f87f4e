"""Opens a file below a root, resolving links, and detects changes while it is read."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from email.utils import formatdate
from io import FileIO
from stat import S_ISREG
from threading import Lock

from lakeport.engine.storage.confined import open_within
from lakeport.errors import AccessDeniedError, MissingFileError, StorageError
from lakeport.server.signing.table_signer import is_clean

_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
_DENIED = {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}


@dataclass(frozen=True, slots=True)
class FileState:
    """Distinguishes one content of a file from the next."""

    size: int
    modified_ns: int
    inode: int

    @property
    def etag(self) -> str:
        return f'"{self.inode:x}-{self.size:x}-{self.modified_ns:x}"'

    @property
    def last_modified(self) -> str:
        return formatdate(self.modified_ns // 1_000_000_000, usegmt=True)


class OpenFile:
    """A file and its state when it was opened. `close` waits for a `read` in another thread."""

    def __init__(self, descriptor: int, path: str, state: FileState) -> None:
        self.path, self.state = path, state
        self._file = FileIO(descriptor)  # closes the file even if the waiting task was cancelled
        self._lock = Lock()

    def read(self, start: int, length: int) -> bytes:
        """Read exactly this range. Raises `StorageError` if the file has changed since it was opened."""
        with self._lock:
            try:
                data = _read_whole(self._file.fileno(), start, length)
                state = _state(os.fstat(self._file.fileno()))
            except OSError as error:
                raise StorageError(f"the file cannot be read: {error.strerror}", path=self.path) from error
        if state != self.state or len(data) != length:
            raise StorageError("the file changed while it was read", path=self.path)
        return data

    def close(self) -> None:
        with self._lock:
            self._file.close()


def open_file(root: str, relative: str) -> OpenFile:
    """Open the regular file at a clean path below `root`.

    Raises `MissingFileError`; `AccessDeniedError` if it is not a regular file, or links lead out of the root;
    `StorageError` if the disk fails.
    """
    path = f"{root}/{relative}"
    if not is_clean(relative) or "\0" in relative:
        raise AccessDeniedError("the path leads outside its directory", path=repr(path))
    try:
        descriptor, real_path = open_within([root], path)
        status = os.fstat(descriptor)
    except StorageError:
        raise
    except OSError as error:
        raise _translated(error, path) from error
    if not S_ISREG(status.st_mode):
        os.close(descriptor)
        raise AccessDeniedError("this is not a regular file", path=path)
    return OpenFile(descriptor, real_path, _state(status))


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino)


def _read_whole(descriptor: int, start: int, length: int) -> bytes:
    """Returns fewer bytes only at the end of the file."""
    data = os.pread(descriptor, length, start)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), start + len(data))):
        data += more
    return data


def _translated(error: OSError, path: str) -> StorageError | MissingFileError:
    if error.errno in _MISSING:
        return MissingFileError("the file does not exist", path=path)
    if error.errno in _DENIED:
        return AccessDeniedError(f"the file cannot be opened: {error.strerror}", path=path)
    return StorageError(f"the file cannot be opened: {error.strerror}", path=path)
