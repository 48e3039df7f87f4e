"""Tables that frames read: those at a path; `lakeport.client` has shared ones. What a frame reads of a table is one
version, or the changes of a range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeVar

from lakeport.kernel.changes import (
    ChangeFile,
    ChangeScan,
    ChangeScanBuilder,
    TableChanges,
    TableCommits,
    first_version_since,
    last_version_until,
    table_changes,
    table_changes_between,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression
from lakeport.kernel.log import CommitInfo, find_segment
from lakeport.kernel.scan import PlanBuilder, Scan, ScanBuilder, ScanFile
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot, Table

Moment = int | datetime
"""Milliseconds since the epoch, or a datetime (naive means UTC)."""


@dataclass(frozen=True, slots=True)
class At:
    """A version by its number or by a time: the last one at or before it; as the start of a range, the first one at or
    after it. Neither means the latest."""

    version: int | None = None
    timestamp: Moment | None = None


LATEST = At()


class TableSource(Protocol):
    """A table that can be opened. Its snapshots and changes are read with its engine."""

    @property
    def engine(self) -> Engine: ...

    @property
    def target(self) -> str:
        """The path or name that the user gave."""

    @property
    def prunes(self) -> bool:
        """Whether a snapshot depends on the condition and limit it was opened with."""

    def head(self, at: At) -> Snapshot:
        """The schema and properties of a version. It may lack its files."""

    def snapshot(self, at: At, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        """A version. May omit files without rows that satisfy the condition, and any files beyond those
        needed for `limit` rows."""

    def changes(self, start: At, end: At) -> TableChanges:
        """The changes of a range, inclusive."""

    def history(self, snapshot: Snapshot, limit: int | None) -> Iterator[CommitInfo]:
        """The commits up to a snapshot, newest first."""

    def latest_version(self) -> int:
        """The latest version number, always fetched anew."""

    def version_since(self, moment: Moment) -> int:
        """The first version at or after a time. If there is none, raises the error of this kind of table."""

    def commits(self, start: int, end: int) -> TableCommits:
        """The commits of a version range, inclusive."""

    def forget(self, root: str) -> None:
        """Release everything opened under the root of a snapshot, changes or commits; it is not read again."""

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        """A picklable engine with which another process can read these files; it need not find any others."""


class PathTable:
    """The table at a path or storage URL."""

    prunes = False

    def __init__(self, engine: Engine, target: str) -> None:
        self.engine, self.target = engine, target

    @cached_property
    def _table(self) -> Table:
        return Table.for_path(self.engine, self.target)

    def head(self, at: At) -> Snapshot:
        return self.snapshot(at)

    def snapshot(self, at: At, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        if at.version is not None:
            return self._table.snapshot_at_version(at.version)
        if at.timestamp is not None:
            return self._table.snapshot_at_timestamp(at.timestamp)
        return self._table.latest_snapshot()

    def changes(self, start: At, end: At) -> TableChanges:
        table, since, until = self._table, start.timestamp, end.timestamp
        if since is not None and end.version is None:
            return table_changes_between(table, since, until)
        first = start.version if since is None else first_version_since(table, since)
        last = end.version if until is None else last_version_until(table, until)
        assert first is not None
        return table_changes(table, first, last)

    def history(self, snapshot: Snapshot, limit: int | None) -> Iterator[CommitInfo]:
        return snapshot.history(limit)

    def latest_version(self) -> int:
        return find_segment(self.engine.storage, self._table.root).version

    def version_since(self, moment: Moment) -> int:
        return first_version_since(self._table, moment)

    def commits(self, start: int, end: int) -> TableCommits:
        return TableCommits(self._table, start, end)

    def forget(self, root: str) -> None:
        """Nothing to release."""

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        return self.engine


_Plan = TypeVar("_Plan", bound=Scan | ChangeScan, covariant=True)


class Selection(Protocol[_Plan]):
    """What a frame reads of a table. It is opened at first use, once for all threads and all views."""

    source: TableSource

    @property
    def is_open(self) -> bool: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def definition(self) -> Snapshot | None:
        """The schema, properties and protocol of the version; None if there are several."""

    def scan_builder(self, condition: Expression | None, limit: int | None) -> PlanBuilder[_Plan]:
        """A plan for all rows; files may be missing, as in `TableSource.snapshot`."""


class TableVersion:
    """A `Selection` of one version. Pickled once open, it stays at that version."""

    def __init__(self, source: TableSource, at: At = LATEST) -> None:
        self.source, self._at = source, at
        self._opened: dict[str, Snapshot] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TableVersion, (self.source, self.at)

    @property
    def is_open(self) -> bool:
        return bool(self._opened)

    @property
    def at(self) -> At:
        """The version by its number once open."""
        return At(self.definition.version) if self.is_open else self._at

    @property
    def definition(self) -> Snapshot:
        """The version, possibly without its files."""
        for opened in list(self._opened.values()):
            return opened
        return self._open_once("head", lambda: self.source.head(self._at))

    @property
    def schema(self) -> StructType:
        return self.definition.schema

    def snapshot(self, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        if not self.source.prunes:
            return self.definition
        key = f"{None if condition is None else format_expression(condition)} limit {limit}"
        return self._open_once(key, lambda: self.source.snapshot(self._at, condition, limit))

    def scan_builder(self, condition: Expression | None, limit: int | None) -> ScanBuilder:
        return self.snapshot(condition, limit).scan_builder()

    def _open_once(self, key: str, open_snapshot: Callable[[], Snapshot]) -> Snapshot:
        if key not in self._opened:
            snapshot = open_snapshot()
            key = key if self.source.prunes else "head"  # a shared table may turn out to be offered by its directory
            self._opened.setdefault(key, snapshot)
        return self._opened[key]


class VersionRange:
    """A `Selection` of changes. Pickled once open, it stays at its versions."""

    definition = None

    def __init__(self, source: TableSource, start: At, end: At | TableVersion) -> None:
        self.source, self._start, self._end = source, start, end
        self._opened: list[TableChanges] = []

    def __reduce__(self) -> tuple[Any, ...]:
        for feed in self._opened[:1]:
            if feed.start <= feed.end:  # otherwise there is no commit between the two times
                return VersionRange, (self.source, At(feed.start), At(feed.end))
        return VersionRange, (self.source, self._start, self._end)

    @property
    def is_open(self) -> bool:
        return bool(self._opened)

    @property
    def feed(self) -> TableChanges:
        if not self._opened:
            self._opened.append(self.source.changes(self._start, self._last()))
        return self._opened[0]

    def _last(self) -> At:
        end = self._end if isinstance(self._end, At) else self._end.at
        if isinstance(self._end, At) or end != LATEST:
            return end
        # A start past the latest version is "not found", not "backwards".
        return At(max(self._end.definition.version, self._start.version or 0))

    @property
    def schema(self) -> StructType:
        return self.feed.schema

    def scan_builder(self, condition: Expression | None, limit: int | None) -> ChangeScanBuilder:
        return self.feed.scan_builder()
