"""Fetching the files of a shared table: several at once, by ranges, each checked before it counts as there."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from threading import Event, Lock

from lakeport.client.sync.names import copy_path, new_run, parse_copy
from lakeport.client.sync.plan import VersionPlan, Wanted
from lakeport.client.sync.result import Progress
from lakeport.client.sync.stated import Received, Statements
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
        self._has_looked = False
        self._there: set[str] = set()
        self._copies: dict[str, list[FileStatus]] = {}
        """What is there, by name."""
        self._expected: set[str] = set()
        self._tell = progress or (lambda done, total: None)
        self._statements = Statements()
        self._lock = Lock()
        self._done = self._total = 0
        self.files = self.bytes = 0
        """What was fetched so far; what was there already does not count."""

    def fetch(self, plan: VersionPlan, source: StorageClient) -> dict[str, str]:
        """The paths, relative to the table, of the data files of the plan, by their names. All of them are there then,
        and so are their deletion vectors.

        Raises `MissingFileError` if the share no longer has one, `CorruptTableError` for one that is damaged, and what
        the storages raise. Files that are complete stay: the next sync finds them."""
        needed, with_vectors = plan.missing, plan.vectors
        if needed or with_vectors:
            self._look()
        there = self._found(needed)
        files = [wanted for wanted in needed if wanted.name not in there]
        vectors = [wanted for wanted in with_vectors if self._vector_path(wanted) not in self._there]
        self._total += sum(wanted.file.size for wanted in files)
        stop = Event()
        tasks = [partial(self._fetch_file, source, wanted, stop) for wanted in files]
        tasks += [partial(self._fetch_vector, source, wanted) for wanted in vectors]
        _run_all(tasks, stop)
        return plan.present | there | {wanted.name: copy_path(wanted.name, self._run) for wanted in files}

    def fetch_changes(self, files: Sequence[Wanted], source: StorageClient, directory: str) -> dict[str, str]:
        """The same for files of the change data feed, which have a directory of their own."""
        paths = {wanted.name: f"{directory}/{copy_path(wanted.name, self._run)}" for wanted in files}
        self._total += sum(wanted.file.size for wanted in files)
        stop = Event()
        _run_all([partial(self._fetch_to, source, wanted, paths[wanted.name], stop) for wanted in files], stop)
        return paths

    def expect(self, plan: VersionPlan) -> None:
        """Counts what `fetch` would fetch."""
        needed = plan.missing
        if needed:
            self._look()
        there = self._found(needed)
        for wanted in needed:
            if wanted.name not in there and wanted.name not in self._expected:
                self._expected.add(wanted.name)
                self.files, self.bytes = self.files + 1, self.bytes + wanted.file.size

    def _found(self, needed: Sequence[Wanted]) -> dict[str, str]:
        """Data files that an earlier sync left, or that an earlier version has, by their names."""
        candidates = [
            (wanted.name, file)
            for wanted in needed
            for file in self._copies.get(wanted.name, ())
            if file.size == wanted.file.size
        ]
        with ThreadPoolExecutor(_AT_ONCE, "lakeport-sync") as pool:
            whole = pool.map(self._is_whole, [file for _, file in candidates])
            pairs = zip(candidates, whole, strict=True)
            return {name: file.path.removeprefix(f"{self._root}/") for (name, file), is_whole in pairs if is_whole}

    def _look(self) -> None:
        if self._has_looked:
            return
        self._has_looked = True
        for file in self._storage.list_from(self._root, ""):
            self._there.add(file.path)
            if name := parse_copy(file.path.removeprefix(f"{self._root}/")):
                self._copies.setdefault(name, []).append(file)

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
        received = Received(source, wanted.file.path)
        if not self._write(path, size, received, None, stop):
            self._write(path, size, Received(source, wanted.file.path), received, stop)
        with self._lock:
            self.files, self.bytes = self.files + 1, self.bytes + size
            self._copies.setdefault(wanted.name, []).append(FileStatus(path, size))

    def _write(self, path: str, size: int, received: Received, before: Received | None, stop: Event) -> bool:
        """Whether the file is there now; if not, it has to come again, for what came `before` is not as stated."""
        output = self._storage.open_output(path)
        try:
            tail = b""
            for start in range(0, size, _PIECE):
                if stop.is_set():
                    raise _StoppedError
                piece = received.read(start, min(_PIECE, size - start))
                _check_length(piece, start, min(_PIECE, size - start), received.path)
                output.write(piece)
                tail = (tail + piece)[-_TAIL:]
                self._advance(len(piece))
            if is_right := self._statements.hold(received, before):
                _check_end(tail, size, received.path)
                output.close()
        except BaseException:
            output.abort()
            raise
        if not is_right:
            output.abort()
            self._advance(-size)
        return is_right

    def _fetch_vector(self, source: StorageClient, wanted: Wanted) -> None:
        vector, path, origin = wanted.file.deletion_vector, self._vector_path(wanted), wanted.vector_path
        assert vector is not None
        assert origin is not None
        frame = source.read(origin, vector.offset or 1, vector.size_in_bytes + _AROUND_A_VECTOR)
        size, payload, checksum = frame[:4], frame[4:-4], frame[-4:]
        if int.from_bytes(size, "big") != len(payload) or int.from_bytes(checksum, "big") != zlib.crc32(payload):
            raise CorruptTableError("the deletion vector is damaged", path=origin)
        with suppress(FileExistsError):  # another sync was faster: with the same bytes
            self._storage.write(path, bytes([FILE_VERSION]) + frame)
        with self._lock:
            self._there.add(path)

    def _vector_path(self, wanted: Wanted) -> str:
        location = wanted.vector.location(self._root) if wanted.vector else None
        assert location is not None
        return location

    def _advance(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._tell(self._done, max(self._total, self._done))


def _run_all(tasks: Sequence[Callable[[], None]], stop: Event) -> None:
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


def _check_length(piece: bytes, start: int, length: int, path: str) -> None:
    if len(piece) != length:
        raise CorruptTableError(f"the file ends before the byte {start + length}, which it should have", path=path)


def _check_end(tail: bytes, size: int, path: str) -> None:
    """Raises `CorruptTableError` unless a Parquet file of this size can end so."""
    footer = int.from_bytes(tail[:4], "little")
    if size < _LEAST or tail[4:] not in _MAGIC or footer + _LEAST > size:
        raise CorruptTableError("the file does not end as a Parquet file of its size does", path=path)
