"""Fetch a shared table's files: find those already present, and copy the rest by threads or workers, by ranges. Each
file is checked before it becomes complete."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock

from lakeport.client.sync.plan import VersionPlan, Wanted, copy_path, new_run, parse_copy
from lakeport.client.tables.shared_storage import SharedStorage
from lakeport.errors import CorruptTableError
from lakeport.kernel.deletion_vectors import FILE_VERSION
from lakeport.kernel.engine import FileStatus, StorageClient
from lakeport.workers import Workers, Workplace
from lakeport.workers.ordered import map_ordered

AT_ONCE = 8
"""Files copied in parallel."""
TAIL = 8
"""The end of a Parquet file: the footer length and the magic number."""
_PIECE = 8 << 20
"""How much of a file is in memory at a time."""
_MAGIC = (b"PAR1", b"PARE")
_LEAST = 12
_AROUND_A_VECTOR = 8


class _StoppedError(Exception):
    """Another file could not be copied."""


@dataclass(frozen=True)
class Copy:
    """A data file to copy into a directory of the table, or only its deletion vector."""

    wanted: Wanted
    directory: str = ""
    is_vector: bool = False

    @property
    def size(self) -> int:
        vector = self.wanted.file.deletion_vector
        return vector.size_in_bytes if self.is_vector and vector else self.wanted.file.size

    @property
    def origin(self) -> str:
        """Its path in the share."""
        path = self.wanted.vector_path if self.is_vector else self.wanted.file.path
        assert path is not None
        return path


class Copier:
    """Copies files below `root`, under unique names. Thread-safe."""

    def __init__(self, storage: StorageClient, root: str, advance: Callable[[int], object]) -> None:
        """`advance` receives the number of bytes copied."""
        self._storage, self._root, self._advance, self._run = storage, root, advance, new_run()

    def copy(self, source: StorageClient, copy: Copy, stop: Event) -> str:
        """Copy a file and return its path relative to the table.

        Raises `MissingFileError` if the share no longer has it, `CorruptTableError` if it is damaged, and storage
        errors."""
        return self._copy_vector(source, copy) if copy.is_vector else self._copy_file(source, copy, stop)

    def _copy_file(self, source: StorageClient, copy: Copy, stop: Event) -> str:
        relative = "/".join(filter(None, [copy.directory, copy_path(copy.wanted.name, self._run)]))
        output = self._storage.open_output(f"{self._root}/{relative}")
        try:
            # The end is written last, once verified: other syncs consider a file with an end complete, and may commit
            # it before this one could remove it.
            tail = b""
            for piece in pieces_of(source, copy.origin, copy.size):
                if stop.is_set():
                    raise _StoppedError
                waiting = tail + piece
                tail = waiting[-TAIL:]
                output.write(waiting[:-TAIL])
                self._advance(len(piece))
            check_end(tail, copy.size, copy.origin)
            output.write(tail)
            output.close()
        except BaseException:
            output.abort()
            raise
        return relative

    def _copy_vector(self, source: StorageClient, copy: Copy) -> str:
        path = vector_path(copy.wanted, self._root)
        vector = copy.wanted.file.deletion_vector
        assert vector is not None
        frame = source.read(copy.origin, vector.offset or 1, vector.size_in_bytes + _AROUND_A_VECTOR)
        size, payload, checksum = frame[:4], frame[4:-4], frame[-4:]
        if int.from_bytes(size, "big") != len(payload) or int.from_bytes(checksum, "big") != zlib.crc32(payload):
            raise CorruptTableError("the deletion vector is damaged", path=copy.origin)
        with suppress(FileExistsError):  # another sync was faster, with the same bytes
            self._storage.write(path, bytes([FILE_VERSION]) + frame)
        return path.removeprefix(f"{self._root}/")


def copy_all(
    copier: Copier, source: StorageClient, copies: Sequence[Copy], arrived: Callable[[Copy, str], object]
) -> None:
    """Copy files in parallel; `arrived` is called with each and its path. Raises an error after all other
    copies have stopped."""
    stop = Event()

    def run(copy: Copy) -> None:
        arrived(copy, copier.copy(source, copy, stop))

    for _ in map_ordered(run, copies, AT_ONCE, "sync", stop):
        pass


@dataclass(frozen=True)
class Delivery:
    """The copies of one task, and the storage to read them from."""

    source: StorageClient
    copies: list[Copy]


def delivery(source: StorageClient, copies: list[Copy]) -> Delivery:
    """Send another process only what it needs."""
    return Delivery(
        source.part(copy.origin for copy in copies) if isinstance(source, SharedStorage) else source, copies
    )


@dataclass(frozen=True)
class DeliverFiles:
    """A task: copy files below the root. Complete files stay, even if another fails."""

    root: str

    def __call__(self, place: Workplace, delivery: Delivery) -> list[tuple[Copy, str]]:
        there: list[tuple[Copy, str]] = []
        copier = Copier(place.engine.storage, self.root, lambda size: None)
        copy_all(copier, delivery.source, delivery.copies, lambda copy, path: there.append((copy, path)))
        return there


def vector_path(wanted: Wanted, root: str) -> str:
    """Where the copy at `root` has the deletion vector."""
    location = wanted.vector.location(root) if wanted.vector else None
    assert location is not None
    return location


def pieces_of(storage: StorageClient, path: str, size: int) -> Iterator[bytes]:
    """The bytes of a file, one piece in memory at a time. Raises `CorruptTableError` if there are fewer than `size`."""
    for start in range(0, size, _PIECE):
        length = min(_PIECE, size - start)
        piece = storage.read(path, start, length)
        if len(piece) != length:
            raise CorruptTableError(f"the file ends before byte {start + length}", path=path)
        yield piece


def check_end(tail: bytes, size: int, path: str) -> None:
    """Raises `CorruptTableError` unless this is a valid end of a Parquet file of this size."""
    footer = int.from_bytes(tail[:4], "little")
    if size < _LEAST or tail[4:] not in _MAGIC or footer + _LEAST > size:
        raise CorruptTableError("the file does not end with a valid Parquet footer", path=path)


Progress = Callable[[int, int], object]
"""Called now and then with the bytes copied and the total."""

_TASK_BYTES = 256 << 20
_OPEN_COST = 1 << 20
"""The cost of requesting a file, in bytes that could arrive in the same time."""


class Fetcher:
    """Fetches files below `root`, reusing complete ones from earlier syncs."""

    def __init__(
        self, storage: StorageClient, root: str, progress: Progress | None = None, workers: Workers | None = None
    ) -> None:
        """`workers` in other processes copy the files; otherwise threads do."""
        self._storage, self._root, self._workers = storage, root, workers
        self._copier = Copier(storage, root, self._advance)
        self._has_looked = False
        self._there: set[str] = set()
        self._copies: dict[str, list[FileStatus]] = {}
        """Present files, by name."""
        self._expected: set[str] = set()
        self._report = progress or (lambda done, total: None)
        self._lock = Lock()
        self._done = self._total = 0
        self.files = self.bytes = 0
        """Fetched so far, without files already present."""

    def fetch(self, plan: VersionPlan, source: StorageClient) -> dict[str, str]:
        """Fetch the plan's data files and deletion vectors; return the data files' paths relative to the table, by
        name.

        Raises `MissingFileError` if the share no longer has a file, `CorruptTableError` for a damaged one, and storage
        errors. Complete files stay for the next sync."""
        needed, with_vectors = plan.missing, plan.vectors
        if needed or with_vectors:
            self._look()
        there = self._found(needed)
        files = [Copy(wanted) for wanted in needed if wanted.name not in there]
        lacking = [wanted for wanted in with_vectors if vector_path(wanted, self._root) not in self._there]
        return plan.present | there | self._bring(source, files, [Copy(wanted, is_vector=True) for wanted in lacking])

    def fetch_changes(self, files: Sequence[Wanted], source: StorageClient, directory: str) -> dict[str, str]:
        """Like `fetch`, for files of the change data feed, which have their own directory."""
        return self._bring(source, [Copy(wanted, directory) for wanted in files], [])

    def expect(self, plan: VersionPlan) -> None:
        """Count what `fetch` would fetch."""
        needed = plan.missing
        if needed:
            self._look()
        there = self._found(needed)
        for wanted in needed:
            if wanted.name not in there and wanted.name not in self._expected:
                self._expected.add(wanted.name)
                self.files, self.bytes = self.files + 1, self.bytes + wanted.file.size

    def _found(self, needed: Sequence[Wanted]) -> dict[str, str]:
        """Data files from an earlier sync or version, by name."""
        candidates = [
            (wanted.name, file)
            for wanted in needed
            for file in self._copies.get(wanted.name, ())
            if file.size == wanted.file.size
        ]
        whole = map_ordered(self._is_whole, [file for _, file in candidates], AT_ONCE, "sync")
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
            check_end(self._storage.read(file.path, file.size - TAIL, TAIL), file.size, file.path)
        except CorruptTableError:
            return False
        return True

    def _bring(self, source: StorageClient, files: list[Copy], vectors: list[Copy]) -> dict[str, str]:
        """Copy files; return the paths of all now present, by name."""
        self._total += sum(copy.size for copy in files)
        paths: dict[str, str] = {}

        def arrived(copy: Copy, path: str) -> None:
            with self._lock:
                self._note(copy, path)
                if not copy.is_vector:
                    paths[copy.wanted.name] = path

        if self._workers is None or self._workers.here is not None:
            copy_all(self._copier, source, [*files, *vectors], arrived)
            return paths
        groups = self._workers.groups([*files, *vectors], lambda copy: copy.size + _OPEN_COST, _TASK_BYTES)
        deliveries = [delivery(source, group) for group in groups]
        try:
            for there in self._workers.map(DeliverFiles(self._root), deliveries):
                for copy, path in there:
                    arrived(copy, path)
                self._advance(sum(copy.size for copy, _ in there if not copy.is_vector))
        except BaseException:  # some have arrived nevertheless, for the next attempt
            self._has_looked = False
            raise
        return paths

    def _note(self, copy: Copy, relative: str) -> None:
        path = f"{self._root}/{relative}"
        if copy.is_vector:
            self._there.add(path)
            return
        self.files, self.bytes = self.files + 1, self.bytes + copy.size
        self._copies.setdefault(copy.wanted.name, []).append(FileStatus(path, copy.size))

    def _advance(self, size: int) -> None:
        with self._lock:
            self._done += size
            self._report(self._done, max(self._total, self._done))
