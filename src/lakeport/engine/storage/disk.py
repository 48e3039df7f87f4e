"""Local files: every write reported as done survives a crash of the machine."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from stat import S_ISREG
from typing import BinaryIO
from uuid import uuid4

import pyarrow as pa

from lakeport.errors import AccessDeniedError, MissingFileError, OutOfSpaceError, StorageError
from lakeport.kernel.engine import FileStatus

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EACCES}
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1


class LocalFiles:
    """The local file system."""

    def list_from(self, directory: str, first_name: str) -> Iterator[FileStatus]:
        with os_errors(directory):
            try:
                with os.scandir(directory) as entries:
                    found = sorted((entry.name, entry) for entry in entries if entry.name >= first_name)
            except (FileNotFoundError, NotADirectoryError, ValueError):
                return
            for _, entry in found:
                if status := _status(entry):
                    yield status

    def scans_directories(self, directory: str) -> bool:
        return True

    def status(self, path: str) -> FileStatus | None:
        with os_errors(path):
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError, ValueError):
                return None
        return FileStatus(path, found.st_size, found.st_mtime_ns // 1_000_000) if S_ISREG(found.st_mode) else None

    def list_all(self, directory: str) -> Iterator[FileStatus]:
        remaining = [directory]
        while remaining:
            files, directories = self.list_directory(remaining.pop())
            remaining += directories
            yield from files

    def list_directory(self, directory: str) -> tuple[list[FileStatus], list[str]]:
        with os_errors(directory):
            try:
                with os.scandir(directory) as entries:
                    found = list(entries)
            except (FileNotFoundError, NotADirectoryError, ValueError):  # or removed meanwhile
                return [], []
            directories = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
            return [status for entry in found if (status := _status(entry))], directories

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with os_errors(path), open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def read_many(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        return (self.read(file.path) for file in files)

    def open_input(self, file: FileStatus) -> pa.NativeFile:
        with os_errors(file.path):
            return pa.OSFile(file.path, "rb")

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Write a temporary file next to the target and rename or link it, so readers never see part of it. A killed
        process may leave it behind: its name starts with a dot, so nobody takes it for data."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{uuid4().hex}.tmp")
        with _writing_errors(path):
            _make_directory(directory)
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                    _sync(file)
                if overwrite:
                    os.replace(temporary, path)
                else:
                    _publish(temporary, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
        try:
            _sync_directory(directory)
        except OSError as error:  # it exists, but a crash may undo it
            raise StorageError(f"the file system failed: {error.strerror or error}", path=path) from error

    def open_output(self, path: str) -> _LocalOutput:
        with _writing_errors(path):
            _make_directory(os.path.dirname(path))
            return _LocalOutput(path, open(path, "xb"))

    def delete(self, paths: Sequence[str]) -> None:
        failures = []
        for path in paths:
            try:
                with os_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(path)
            except StorageError as error:
                failures.append(error)
        if failures:
            raise failures[0]


class _LocalOutput:
    """An `OutputFile` under its final name from the start: a killed process leaves a file that no commit names, which
    vacuum removes."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self._path, self._file, self._finished = path, file, False

    def write(self, data: bytes | memoryview) -> int:
        with _writing_errors(self._path):
            return self._file.write(data)

    def close(self) -> None:
        with _writing_errors(self._path):
            _sync(self._file)
            self._file.close()
            _sync_directory(os.path.dirname(self._path))
        self._finished = True

    def abort(self) -> None:
        if self._finished:
            return
        self._finished = True
        with suppress(OSError):  # buffered data may not fit on the disk
            self._file.close()
        with suppress(OSError):
            os.unlink(self._path)


def _status(entry: os.DirEntry[str]) -> FileStatus | None:
    """The file of an entry; None if it is not a file, or was removed meanwhile."""
    try:
        if not entry.is_file():
            return None
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return FileStatus(entry.path, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _publish(temporary: str, path: str) -> None:
    """Publish the file under its final name unless that name is taken. Uses a hard link, or a rename if the disk has no
    links. Raises `FileExistsError`."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _rename_without_replacing(temporary, path)


def _rename_without_replacing(source: str, target: str) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename and not rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE):
        return
    number = ctypes.get_errno() if rename else errno.ENOSYS
    if number == errno.EEXIST:
        raise FileExistsError(number, os.strerror(number), target)
    raise StorageError(
        "the file system supports neither hard links nor a rename without overwriting, so two writers could "
        f"overwrite each other's commits ({os.strerror(number)}): put the table on another disk or an object store",
        path=target,
    )


def _make_directory(directory: str) -> None:
    """Create the directory and its parents, durably."""
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory)
    _make_directory(above)
    try:
        os.mkdir(directory)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise NotADirectoryError(errno.ENOTDIR, "a file is where a directory must be", directory) from None
    _sync_directory(above)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(directory: str) -> None:
    """Make new names in a directory durable; some file systems do so by themselves and reject the request."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise


@contextmanager
def _writing_errors(path: str) -> Iterator[None]:
    """Like `os_errors`, but a missing file means that its parent is not a directory, or was removed meanwhile."""
    with os_errors(path):
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StorageError(f"the file cannot be created: {reason}", path=path) from error


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Convert operating system errors to those of a `StorageClient`."""
    try:
        yield
    except (FileExistsError, StorageError):
        raise
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: an invalid path name
        raise MissingFileError("the file does not exist", path=path) from error
    except PermissionError as error:
        raise AccessDeniedError("permission denied: check the file's owner and mode", path=path) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise AccessDeniedError("the file system is read-only: mount it for writing", path=path) from error
        if error.errno in _NO_SPACE:
            raise OutOfSpaceError(
                "the disk is full: free some space there, or write to another disk, and try again", path=path
            ) from error
        raise StorageError(f"the file system failed: {error.strerror or error}", path=path) from error
