"""Where a frame's rows come from: a Delta table at a path. `lakeport.client` has the equivalent for shared tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

from lakeport.kernel.changes import (
    ChangeFile,
    TableChanges,
    TableCommits,
    first_version_since,
    last_version_until,
    table_changes,
    table_changes_between,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.log import CommitInfo, find_segment
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table

Moment = int | datetime
"""Milliseconds since the epoch, or a datetime (naive means UTC)."""


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

    def head(self, version: int | None, timestamp: Moment | None) -> Snapshot:
        """The schema and properties of a version, or of the latest. It may lack its files."""

    def snapshot(
        self, version: int | None, timestamp: Moment | None, condition: Expression | None, limit: int | None
    ) -> Snapshot:
        """A version, or the latest. May omit files without rows that satisfy the condition, and any files beyond those
        needed for `limit` rows."""

    def changes(self, start: int | None, end: int | None, since: Moment | None, until: Moment | None) -> TableChanges:
        """The changes from a version or time to another, or to the latest."""

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

    def head(self, version: int | None, timestamp: Moment | None) -> Snapshot:
        return self.snapshot(version, timestamp, None, None)

    def snapshot(
        self, version: int | None, timestamp: Moment | None, condition: Expression | None, limit: int | None
    ) -> Snapshot:
        table = Table.for_path(self.engine, self.target)
        if version is not None:
            return table.snapshot_at_version(version)
        if timestamp is not None:
            return table.snapshot_at_timestamp(timestamp)
        return table.latest_snapshot()

    def changes(self, start: int | None, end: int | None, since: Moment | None, until: Moment | None) -> TableChanges:
        table = Table.for_path(self.engine, self.target)
        if since is not None and end is None:
            return table_changes_between(table, since, until)
        first = start if since is None else first_version_since(table, since)
        last = end if until is None else last_version_until(table, until)
        assert first is not None
        return table_changes(table, first, last)

    def history(self, snapshot: Snapshot, limit: int | None) -> Iterator[CommitInfo]:
        return snapshot.history(limit)

    def latest_version(self) -> int:
        return find_segment(self.engine.storage, self._root).version

    def version_since(self, moment: Moment) -> int:
        return first_version_since(Table.for_path(self.engine, self.target), moment)

    def commits(self, start: int, end: int) -> TableCommits:
        return TableCommits(Table.for_path(self.engine, self.target), start, end)

    def forget(self, root: str) -> None:
        """Nothing to release."""

    @property
    def _root(self) -> str:
        return self.engine.storage.resolve(self.target)

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        return self.engine
