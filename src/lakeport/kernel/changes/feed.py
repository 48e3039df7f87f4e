"""The change data feed: the rows that each commit of a version range inserted, updated and deleted.

Planning reads only the log, commit by commit, and yields `ChangeFile`s. With their shared `ChangeState`,
`transform_change_data` converts the Parquet handler's output to rows. In each commit,

- cdc files, if any, hold all changes;
- otherwise each added file is inserted and each removed file is deleted, unless its `dataChange` is false;
- a file that is both removed and added changed in the rows where its two deletion vectors differ, if any.

The rows have the schema of the range's last version; see `change_schema` for compatible earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lakeport.errors import ChangeFeedError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.changes.commits import CommitRange
from lakeport.kernel.changes.plan import ChangeScanBuilder
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED, check_readable, find_incompatibility, layout_of
from lakeport.kernel.log import CommitActions, FileColumns
from lakeport.kernel.schema import CHANGE_COLUMNS, StructType
from lakeport.kernel.snapshot import Snapshot, Table, to_milliseconds


def table_changes(table: Table, start: int, end: int | None = None) -> TableChanges:
    """The changes of versions `start` to `end`, or to the latest.

    Raises `VersionNotFoundError` for versions that do not exist or have been cleaned up, and `ChangeFeedError` if the
    feed is off at `start`, or if `start` is unreadable under the schema of `end`. Later versions are checked during
    planning."""
    if end is not None and start > end:
        raise ChangeFeedError(
            f"the changes start at version {start}, after their end {end} [{table.root}]", version=start
        )
    last = table.latest_snapshot() if end is None else table.snapshot_at_version(end)
    first = last if start == last.version else table.snapshot_at_version(start)
    changes = TableChanges(first, last, start)
    changes.check()
    return changes


def table_changes_between(table: Table, start: int | datetime, end: int | datetime | None = None) -> TableChanges:
    """The changes of versions made between two times, both inclusive; empty if there are none. Times are milliseconds
    since the epoch, or datetimes (naive means UTC)."""
    first = first_version_since(table, start)
    if end is None:
        return table_changes(table, first)
    last = last_version_until(table, end)
    if first > last and to_milliseconds(start) <= to_milliseconds(end):
        snapshot = table.snapshot_at_version(last)
        return TableChanges(snapshot, snapshot, first)
    return table_changes(table, first, last)


def first_version_since(table: Table, timestamp: int | datetime) -> int:
    """The first version made at or after a time. Raises `VersionNotFoundError` if the time is after all versions, or
    if versions of that time may have been cleaned up."""
    return table.latest_snapshot().commit_times().version_from(to_milliseconds(timestamp))


def last_version_until(table: Table, timestamp: int | datetime) -> int:
    """The last version made at or before a time; for a future time, the latest. Raises `VersionNotFoundError` if the
    time is before all versions."""
    latest = table.latest_snapshot()
    times = latest.commit_times()
    return times.version_at(min(to_milliseconds(timestamp), times.of(latest.version)))


class TableChanges:
    """The changes of versions `start` to `end`; empty if `start` is greater."""

    def __init__(self, first: Snapshot, last: Snapshot, start: int) -> None:
        """Raises `VersionNotFoundError` if a commit of the range has been cleaned up."""
        self.snapshot, self.start, self.end = last, start, last.version
        self.engine, self.root = last.engine, last.root
        self.schema: StructType = StructType((*last.schema, *CHANGE_COLUMNS))
        """The table's columns in the last version, and `CHANGE_COLUMNS`."""
        self._first = first
        self._commits = CommitRange.until(last, start)
        self._layout = layout_of(last.protocol, last.metadata, self.root)

    def __repr__(self) -> str:
        return f"<TableChanges of {self.root}, versions {self.start} to {self.end}>"

    def scan_builder(self) -> ChangeScanBuilder:
        return ChangeScanBuilder(self)

    def commits(self, columns: FileColumns) -> Iterator[CommitActions]:
        """The commits of the range with the files that changed rows; each is read lazily, once. Raises
        `ChangeFeedError` at a version with the feed off or an incompatible schema, `UnsupportedFeatureError` at an
        unreadable one."""
        protocol, metadata = self._first.protocol, self._first.metadata
        for version in self._commits.versions:
            commit = self._commits.read_changes(version, columns)
            if commit.state.protocol or commit.state.metadata:
                protocol, metadata = commit.state.protocol or protocol, commit.state.metadata or metadata
                self._check_version(version, protocol, metadata)
            yield commit

    def time_of(self, commit: CommitActions) -> int:
        """The commit time in milliseconds since the epoch."""
        return self._commits.time_of(commit)

    def check(self) -> None:
        """Raises `ChangeFeedError` if the first or last version does not support reading changes."""
        for column in CHANGE_COLUMNS:
            if self.snapshot.schema.find(column.name) is not None:
                raise ChangeFeedError(
                    f"the table has a column {column.name!r}, a name that the change data feed uses; rename it "
                    f"[{self.root}]",
                    version=self.end,
                )
        self._check_version(self.start, self._first.protocol, self._first.metadata)

    def _check_version(self, version: int, protocol: Protocol, metadata: Metadata) -> None:
        check_readable(protocol, self.root)
        if not self._has_feed(metadata):
            raise ChangeFeedError(
                f"the change data feed is off at version {version}; {self._advice(version)} [{self.root}]",
                version=version,
            )
        if found := find_incompatibility(layout_of(protocol, metadata, self.root), self._layout):
            column, reason = found
            raise ChangeFeedError(
                f"the changes of version {version} cannot be read with the schema of version {self.end} because of "
                f"the column {column!r}: {reason}; read the versions before the change separately [{self.root}]",
                version=version,
            )

    def _advice(self, version: int) -> str:
        """Advice for the error that the feed is off at `version`."""
        if (since := self._feed_since(version + 1)) is not None:
            return f"it is on since version {since}: start there"
        if version > self.start:
            return f"end at version {version - 1}"
        return f"set {ENABLE_CHANGE_DATA_FEED.name} to true to record changes from then on"

    def _feed_since(self, first: int) -> int | None:
        """The version since which the feed has been on without a break; None if it is off at the last version."""
        since = None
        for version, lines in self._commits.read_lines(first):
            if metadata := lines.state()[1]:
                since = (since or version) if self._has_feed(metadata) else None
        return since

    def _has_feed(self, metadata: Metadata) -> bool:
        return ENABLE_CHANGE_DATA_FEED.of(metadata.configuration, path=self.root)
