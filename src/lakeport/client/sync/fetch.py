"""Fetch a shared table's files: find those already present, and copy the rest by threads or workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from lakeport.client.sync.copying import (
    AT_ONCE,
    TAIL,
    Copier,
    Copy,
    DeliverFiles,
    check_end,
    copy_all,
    delivery,
    vector_path,
)
from lakeport.client.sync.names import parse_copy
from lakeport.client.sync.plan import VersionPlan, Wanted
from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import FileStatus, StorageClient
from lakeport.workers import Workers
from lakeport.workers.ordered import map_ordered

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
        self._tell = progress or (lambda done, total: None)
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
            self._tell(self._done, max(self._total, self._done))
