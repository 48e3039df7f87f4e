"""`TableSource`: a table that frames can read; `PathTable`: one at a path. Shared ones are in `lakeport.client`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.scan import ScanFile
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
        """The latest version number, never cached."""

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

    @property
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
        return self._table.latest_version()

    def version_since(self, moment: Moment) -> int:
        return first_version_since(self._table, moment)

    def commits(self, start: int, end: int) -> TableCommits:
        return TableCommits(self._table, start, end)

    def forget(self, root: str) -> None:
        """Nothing to release."""

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        return self.engine
