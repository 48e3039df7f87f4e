"""`Frame`, the rows of a table at one version, and `Changes`, those that its commits inserted, updated and deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from lakeport.engine.parquet import uses_polars
from lakeport.frame.rows import Rows
from lakeport.frame.selection import TableVersion, VersionRange
from lakeport.kernel.changes import ChangeFile, ChangeScan, TableChanges
from lakeport.kernel.expressions import all_of
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.scan import Scan, ScanBuilder, ScanFile, scan_files_in
from lakeport.kernel.schema import CHANGE_COLUMNS, ROW_COMMIT_VERSION, ROW_ID, arrow_field
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import parse_time
from lakeport.source import LATEST, At, TableSource


@dataclass(frozen=True, eq=False)
class Frame(Rows[Scan]):
    """The rows of a table at one version: the version passed to `at`, or else the latest at first use, shared with all
    related frames. Later commits do not affect it; call `lakeport.scan` again to see them.

    A server that does not share a table's history may be unable to return the version again. Reads then raise
    `SharingError` with the code `VERSION_CHANGED`."""

    _reads: TableVersion
    _row_tracking: bool = False

    @classmethod
    def of(cls, source: TableSource) -> Frame:
        """The latest version of a table."""
        return cls(TableVersion(source))

    @property
    def snapshot(self) -> Snapshot:
        """The version that this frame reads, with all its files."""
        return self._reads.snapshot()

    @property
    def definition(self) -> Snapshot:
        """The version that this frame reads, possibly without its files."""
        return self._reads.definition

    @property
    def version(self) -> int:
        return self.definition.version

    @property
    def tracks_rows(self) -> bool:
        return self._row_tracking

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        tracking = [arrow_field(ROW_ID), arrow_field(ROW_COMMIT_VERSION)] if self._row_tracking else []
        return pa.schema([*super().schema, *tracking])

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """The commits up to this version, newest first."""
        return list(self.source.history(self.definition, limit))

    def files(self) -> list[ScanFile]:
        """The data files to read, with statistics. Opens none of them."""
        return list(self.plan(with_stats=True).files())

    def explain(self) -> str:
        """A readable description of what a read would do."""
        total = 0
        files: list[ScanFile] = []
        plan = self.plan()
        for batch in plan.scan_files():
            total += batch.data.num_rows
            files += scan_files_in(batch, plan.snapshot.root)
        facts = {}
        if plan.remaining_filter is not None and uses_polars(file.status for file in files):
            facts["reader"] = "Polars, and pyarrow for what Polars cannot read exactly"
        return self._explained(
            "partitions suffice",
            table=self.target if self.source.prunes else plan.snapshot.root,
            version=str(self.version),
            columns=", ".join(self.schema.names),
            files=f"{len(files)} of {total}, {sum(f.size for f in files):,} bytes",
            **facts,
        )

    def at(self, *, version: int | None = None, timestamp: int | str | datetime | None = None) -> Frame:
        """Another version: by number, or the latest at a time (milliseconds since the epoch, a datetime, or ISO 8601
        text; UTC if it has no zone)."""
        if (version is None) == (timestamp is None):
            raise ValueError("pass either a version or a timestamp")
        return replace(self, _reads=TableVersion(self.source, _at(version, timestamp)))

    def with_row_tracking(self) -> Frame:
        """Add `_row_id` and `_row_commit_version`; the table must track rows."""
        return replace(self, _row_tracking=True)

    def changes(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        start_timestamp: int | str | datetime | None = None,
        end_timestamp: int | str | datetime | None = None,
    ) -> Changes:
        """The changes between two versions, inclusive; `end` defaults to the version that this frame reads. A
        timestamp, in the forms that `at` accepts, stands for the first version at or after it (start) or the last one
        at or before it (end). Columns, filters and limits set earlier still apply."""
        if (start is None) == (start_timestamp is None):
            raise ValueError("pass either a start version or a start timestamp")
        if end is not None and end_timestamp is not None:
            raise ValueError("pass either an end version or an end timestamp")
        given = _at(end, end_timestamp)
        last = self._reads if given == LATEST else given
        columns = None if self._columns is None else (*self._columns, *CHANGE_COLUMNS.names)
        reads = VersionRange(self.source, _at(start, start_timestamp), last)
        return Changes(reads, columns, self._filters, self._limit)

    def _scan_builder(self) -> ScanBuilder:
        builder = self._reads.scan_builder(all_of(self._filters), self._limit)
        return builder.with_row_tracking() if self._row_tracking else builder

    def _without_columns(self) -> Frame:
        return replace(self, _columns=(), _row_tracking=False)


def _at(version: int | None, time: int | str | datetime | None) -> At:
    if version is not None and not isinstance(version, int):
        raise ValueError(f"{version!r} is not a version: pass an integer")
    if not isinstance(time, int | str | datetime | None):
        raise ValueError(f"{time!r} is not a time: pass milliseconds, a datetime or ISO 8601 text")
    return At(version, parse_time(time) if isinstance(time, str) else time)


@dataclass(frozen=True, eq=False)
class Changes(Rows[ChangeScan]):
    """The rows that a table's commits inserted, updated and deleted, oldest commit first, with `_change_type`
    (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`.

    Raises `ChangeFeedError` where the feed was off or the schema was different, and `VersionNotFoundError` for versions
    that the table never had or no longer has."""

    _reads: VersionRange

    @property
    def feed(self) -> TableChanges:
        """The version range to read. Concurrent threads get the same one."""
        return self._reads.feed

    def files(self) -> list[ChangeFile]:
        """The files to read, with statistics. Opens none of them."""
        return list(self.plan(with_stats=True).files())

    def explain(self) -> str:
        """A readable description of what a read would do."""
        files = list(self.plan().files())
        return self._explained(
            "partitions and commits suffice",
            table=self.target if self.source.prunes else self.feed.root,
            versions=f"{self.feed.start} to {self.feed.end}",
            columns=", ".join(self.schema.names),
            files=f"{len(files)}, {sum(f.size for f in files):,} bytes",
        )
