"""Fetching the files of a shared table: several at once, by ranges, each checked before it counts as there."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from threading import Event, Lock

from lakeport.client.sync.names import copy_path, new_run, parse_copy
from lakeport.client.sync.plan import VersionPlan, Wanted
from lakeport.client.sync.result import Progress
from lakeport.errors import CorruptTableError
from lakeport.kernel.deletion_vectors import FILE_VERSION
from lakeport.kernel.engine import FileStatus, StorageClient

_PIECE = 8 << 20
"""So much of a file is in memory at a time."""
_AT_ONCE = 8
_TAIL = 8
"""The end of a Parquet file: the length of its footer, and the magic number."""
_MAGIC = (b"PAR1", b"PARE")
_LEAST = 12
_AROUND_A_VECTOR = 8


class _StoppedError(Exception):
    """Another file could not be fetched."""


class Fetcher:
    """Brings files below `root`. What an earlier sync left there whole is taken as it is."""

    def __init__(self, storage: StorageClient, root: str, progress: Progress | None = None) -> None:
        self._storage, self._root = storage, root
        self._run = new_run()
        self._known: dict[str, list[FileStatus]] | None = None
        self._tell = progress or (lambda done, total: None)
        self._lock = Lock()
        self._done = self._total = 0
        self.files = self.bytes = 0
        """What was fetched so far; what was there already does not count."""

    def fetch(self, plan: VersionPlan, source: StorageClient) -> dict[str, str]:
        """The paths, relative to the table, of the data files of the plan, by their names. All of them are there, and so
        are their deletion vectors.

        Raises `MissingFileError` if the share no longer has one, `CorruptTableError` for one that is damaged, and what
        the storages raise. Files that are complete stay: the next sync finds them."""
        there = self._found([*plan.missing, *plan.vectors])
        paths = {**plan.present, **there}
        files = [wanted for wanted in plan.missing if wanted.name not in there]
        vectors = [wanted for wanted in plan.vectors if self._vector_path(wanted) not in self._names]
        self._total += sum(wanted.file.size for wanted in files)
        stop = Event()
        tasks = [partial(self._fetch_file, source, wanted, stop) for wanted in files]
        tasks += [partial(self._fetch_vector, source, wanted) for wanted in vectors]
        _run_all(tasks, stop)
        return paths | {wanted.name: copy_path(wanted.name, self._run) for wanted in files}

    def fetch_changes(self, files: Iterable[Wanted], source: StorageClient, directory: str) -> dict[str, str]:
        """The same for files of the change data feed, which have a directory of their own."""
        stop = Event()
        named = {wanted.name: f"{directory}/{copy_path(wanted.name, self._run)}" for wanted in (files := list(files))}
        self._total += sum(wanted.file.size for wanted in files)
        _run_all([partial(self._fetch_to, source, wanted, named[wanted.name], stop) for wanted in files], stop)
        return named

    def missing_bytes(self, plan: VersionPlan) -> tuple[int, int]:
        """How many files of the plan, and how many bytes, are not there yet."""
        there = self._found(plan.missing)
        files = [wanted for wanted in plan.missing if wanted.name not in there]
        return len(files), sum(wanted.file.size for wanted in files)

    def _found(self, needed: Iterable[Wanted]) -> dict[str, str]:
        """Data files that an earlier sync left, or that an earlier version has, by their names."""
        if self._known is None:
            self._names: set[str] = set()
            self._known = {}
            if any(True for _ in needed):
                self._look()
        found: dict[str, str] = {}
        for wanted in needed:
            for file in self._known.get(wanted.name, ()):
                if file.size == wanted.file.size and self._is_whole(file):
                    found[wanted.name] = file.path.removeprefix(f"{self._root}/")
        return found

    def _look(self) -> None:
        assert self._known is not None
        for file in self._storage.list_from(self._root, ""):
            self._names.add(file.path)
            if name := parse_copy(file.path.removeprefix(f"{self._root}/")):
                self._known.setdefault(name, []).append(file)

    def _is_whole(self, file: FileStatus) -> bool:
        try:
            _check_end(self._storage.read(file.path, file.size - _TAIL, _TAIL), file.size, file.path)
        except CorruptTableError:
            return False
        return True

    def _fetch_file(self, source: StorageClient, wanted: Wanted, stop: Event) -> None:
        self._fetch_to(source, wanted, copy_path(wanted.name, self._run), stop)

    def _fetch_to(self, source: StorageClient, wanted: Wanted, relative: str, stop: Event) -> None:
        path, size = f"{self._root}/{relative}", wanted.file.size
        output = self._storage.open_output(path)
        try:
            tail = b""
            for start in range(0, size, _PIECE):
                if stop.is_set():
                    raise _StoppedError
                piece = source.read(wanted.file.path, start, min(_PIECE, size - start))
                output.write(piece)
                tail = (tail + piece)[-_TAIL:]
                self._advance(len(piece))
            _check_end(tail, size, wanted.file.path)
            output.close()
        except BaseException:
            output.abort()
            raise
        with self._lock:
            self.files += 1
            self.bytes += size

    def _fetch_vector(self, source: StorageClient, wanted: Wanted) -> None:
        vector, path = wanted.file.deletion_vector, self._vector_path(wanted)
        assert vector is not None
        frame = source.read(vector.path_or_inline_dv, vector.offset or 1, vector.size_in_bytes + _AROUND_A_VECTOR)
        size, payload, checksum = frame[:4], frame[4:-4], frame[-4:]
        if int.from_bytes(size, "big") != len(payload) or int.from_bytes(checksum, "big") != zlib.crc32(payload):
            raise CorruptTableError("the deletion vector is damaged", path=vector.path_or_inline_dv)
        with suppress(FileExistsError):  # another sync was faster: with the same bytes
            self._storage.write(path, bytes([FILE_VERSION]) + frame)
        with self._lock:
            self._names.add(path)

    def _vector_path(self, wanted: Wanted) -> str:
        location = wanted.vector.location(self._root) if wanted.vector else None
        assert location is not None
        return location

    def _advance(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._tell(self._done, max(self._total, self._done))


def _run_all(tasks: list[Callable[[], None]], stop: Event) -> None:
    """Runs the tasks, some at once. Raises what the first one raises that fails, when no other runs any more."""
    with ThreadPoolExecutor(_AT_ONCE, "lakeport-sync") as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            for future in futures:
                future.cancel()
    errors = [error for future in futures if not future.cancelled() and (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, _StoppedError)):
        raise error


def _check_end(tail: bytes, size: int, path: str) -> None:
    """Raises `CorruptTableError` unless a Parquet file of this size can end so."""
    footer = int.from_bytes(tail[:4], "little")
    if size < _LEAST or tail[4:] not in _MAGIC or footer + _LEAST > size:
        raise CorruptTableError("the file does not end as a Parquet file of its size does", path=path)
