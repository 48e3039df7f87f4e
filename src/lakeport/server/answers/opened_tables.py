"""A cache of tables, each with its latest snapshot.

A snapshot is updated before each use by reading only newer commits. Concurrent requests share one update, and each sees
every version that existed when it arrived.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import pyarrow.compute as pc

from lakeport.engine import engine_over
from lakeport.engine.storage.confined import ConfinedStorage
from lakeport.engine.storage.storage import Storage
from lakeport.errors import CorruptTableError, TableNotFoundError, UnsupportedFeatureError
from lakeport.kernel.engine import Engine
from lakeport.kernel.lazy import lazy_property
from lakeport.kernel.log import CommitTimes
from lakeport.kernel.scan import Scan
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.snapshot import Table as DeltaTable
from lakeport.server.catalog.model import Table, table_roots

T = TypeVar("T")

_OLDER_VERSIONS = 4
"""Older snapshots to keep per table, for later pages and refreshes."""
_KEPT_RANGES = 4
_VERIFY_SECONDS = 10.0
"""How long it may take to notice that another table with the same name and version has replaced this one."""
_UNREADABLE = (UnsupportedFeatureError, CorruptTableError)
"""Errors of a single version; older ones may be readable."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a snapshot."""

    files: int
    size: int
    vectors: int
    """Files with a deletion vector."""


class SharedSnapshot:
    """A version of a table, and the data that its answers share."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.delta = snapshot
        self._kept: dict[int, Any] = {}

    @property
    def version(self) -> int:
        return self.delta.version

    @cached_property
    def scan(self) -> Scan:
        """A scan with all log details of the files."""
        return self.delta.scan_builder().with_log_details().build()

    @lazy_property
    def totals(self) -> Totals:
        files = size = vectors = 0
        for batch in self.delta.live_files(self.scan.columns):
            files += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
            vectors += batch.num_rows - batch.column("deletionVector").null_count
        return Totals(files, size, vectors)

    def kept(self, start: int, make: Callable[[], T]) -> T:
        """The result of `make` for the versions from `start` to this one; the last few are cached."""
        found: T | None = self._kept.get(start)
        if found is None:
            found = make()
            self._kept = dict([*self._kept.items(), (start, found)][-_KEPT_RANGES:])
        return found


class CachedTable:
    """A table with its recently used snapshots. Thread-safe."""

    def __init__(self, engine: Engine, location: str, stale_is_fine: bool) -> None:
        self.delta = DeltaTable.for_path(engine, location)
        self._stale_is_fine = stale_is_fine
        self._lock = Lock()
        self._latest: SharedSnapshot | None = None
        self._looked = self._verified = float("-inf")
        self._older: OrderedDict[int, SharedSnapshot] = OrderedDict()

    def latest(self) -> SharedSnapshot:
        """The latest version. Raises as `Table.latest_snapshot` does."""
        asked = time.monotonic()
        with self._lock:
            if self._latest is None or (self._looked < asked and not self._stale_is_fine):
                looked = time.monotonic()
                self._latest = self._look(self._latest)
                self._looked = looked  # not on failure: those who waited for it have seen nothing yet
            return self._latest

    def at_version(self, version: int) -> SharedSnapshot:
        """Works even if the latest version is unreadable. Also raises `VersionNotFoundError`."""
        latest = self._latest
        if latest is None or latest.version != version or self._may_be_replaced:
            try:
                latest = self.latest()
            except _UNREADABLE:
                return self._without_latest(version)
        if latest.version == version:
            return latest
        with self._lock:
            older = self._older
            if (known := older.get(version)) is not None:
                older.move_to_end(version)
                return known
        return self._loaded(version, older)

    def latest_version(self) -> int:
        """The number of the latest version, readable or not."""
        try:
            return self.latest().version
        except _UNREADABLE:
            return self.delta.latest_version()

    def commit_times(self) -> CommitTimes:
        """The times of all commits, even if the latest version is unreadable."""
        try:
            return self.latest().delta.commit_times()
        except _UNREADABLE:
            return self.delta.commit_times()

    def _without_latest(self, version: int) -> SharedSnapshot:
        """Load a version when the latest is unreadable and so cannot prove that the table is still the same."""
        with self._lock:
            older, latest = self._older, self._latest
            known = latest if latest is not None and latest.version == version else older.get(version)
        if known is not None:
            if self._is_in_place(known.delta):
                return known
            with self._lock:
                older.pop(version, None)
        return self._loaded(version, older)

    def _loaded(self, version: int, older: OrderedDict[int, SharedSnapshot]) -> SharedSnapshot:
        """`older` belongs to the table as it was before loading; a replacement table gets a new dictionary."""
        loaded = SharedSnapshot(self.delta.snapshot_at_version(version))
        with self._lock:
            shared = older.setdefault(version, loaded)  # another thread may have been faster
            while len(older) > _OLDER_VERSIONS:
                older.popitem(last=False)
        return shared

    def _look(self, known: SharedSnapshot | None) -> SharedSnapshot:
        if known is None:
            return self._load()
        try:
            newer = known.delta.refresh()
        except (CorruptTableError, TableNotFoundError):  # another table may have taken its place
            return self._load()
        if newer is known.delta:
            return known if self._is_unchanged(newer) else self._load()
        self._verified = float("-inf")  # newer commits may be another table's
        return SharedSnapshot(newer) if self._is_unchanged(known.delta) else self._load()

    def _load(self) -> SharedSnapshot:
        began = time.monotonic()
        loaded = SharedSnapshot(self.delta.latest_snapshot())
        self._older = OrderedDict()  # loads under way for the old table may be stale
        self._verified = began
        return loaded

    @property
    def _may_be_replaced(self) -> bool:
        return time.monotonic() - self._verified >= _VERIFY_SECONDS

    def _is_unchanged(self, snapshot: Snapshot) -> bool:
        """Whether the table is still the one that was read; not checked more often than needed."""
        if not self._may_be_replaced:
            return True
        self._verified = time.monotonic()
        return self._is_in_place(snapshot)

    def _is_in_place(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot's last log file is still there, unchanged."""
        last = snapshot.segment.latest_file
        return self.delta.engine.storage.status(last.path) == last


class TableCache:
    """The most recently used tables, up to `capacity`."""

    def __init__(self, storage_options: Mapping[str, str], capacity: int, stale_is_fine: bool = False) -> None:
        self._options, self._capacity, self._stale_is_fine = dict(storage_options), capacity, stale_is_fine
        self._lock = Lock()
        self._storages: dict[frozenset[tuple[str, str]], Storage] = {}
        self._tables: OrderedDict[object, CachedTable] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, table: Table) -> CachedTable:
        key = (table.location, table.auxiliary_locations, frozenset(table.storage.items()))
        with self._lock:
            if key not in self._tables:
                roots = table_roots(table)
                storage = ConfinedStorage(self._storage(table.storage_options(self._options)), roots)
                self._tables[key] = CachedTable(engine_over(storage), roots[0], self._stale_is_fine)
            self._tables.move_to_end(key)
            found = self._tables[key]
            while len(self._tables) > self._capacity:
                self._tables.popitem(last=False)
            return found

    def _storage(self, options: dict[str, str]) -> Storage:
        key = frozenset(options.items())
        if key not in self._storages:
            self._storages[key] = Storage(options)
        return self._storages[key]
