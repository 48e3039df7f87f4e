"""`scan` opens a `Frame`, the rows of a table at one version. `Changes` are those that its commits inserted, updated
and deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from lakeport.engine import default_engine
from lakeport.engine.parquet import uses_polars
from lakeport.frame.rows import Rows
from lakeport.frame.table_cache import cached_table
from lakeport.kernel.changes import ChangeFile, ChangeScan, ChangeScanBuilder, TableChanges
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, all_of, format_expression
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.paths import parse_target
from lakeport.kernel.scan import Scan, ScanBuilder, ScanFile, scan_files_in
from lakeport.kernel.schema import CHANGE_COLUMNS, ROW_COMMIT_VERSION, ROW_ID, StructType, arrow_field
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import parse_time
from lakeport.locations import file_path, is_url
from lakeport.sharing.names import is_table_url, parse_table_name, parse_table_url
from lakeport.source import LATEST, At, PathTable, TableSource

if TYPE_CHECKING:
    from lakeport.client import AccessMode, ClientChoices, GivenProfile


def scan(
    target: str,
    *,
    access: AccessMode | None = None,
    cache: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Frame:
    """The Delta table at a path or URL (`s3://`, `gs://`, `az://`, `abfss://`, local), or the shared table
    `profile#share.schema.table`. Lazy: first use opens the latest version, and the frame and everything derived from it
    stay at that version. Call `scan` again to see newer ones.

    `access` selects how a shared table's files are read: through signed URLs (`url`) or in the table's own directory
    (`dir`); the default is what the provider offers. `cache` is a directory for data read through signed URLs.
    `storage_options` are obstore's; missing ones come from the environment, or from the server for a shared table read
    in its directory. `engine` is for tables at a path. Raises `ValueError` for options that do not fit together."""
    options = storage_options or {}
    return Frame.of(open_source(target, engine=engine, access=access, cache=cache, storage_options=options))


def open_source(
    target: str, *, profile: GivenProfile = None, engine: Engine | None = None, **options: Unpack[ClientChoices]
) -> TableSource:
    """The table that `scan` takes; given a profile, the shared table `share.schema.table`. Sends no request yet.

    Raises the errors of `scan`, and `OSError` if the profile cannot be read."""
    text = parse_target(target)
    if profile is None and not is_table_url(text):
        if options.get("access") is not None or options.get("cache") is not None:
            raise ValueError(f"access and cache apply only to shared tables, PROFILE#share.schema.table, not to {text}")
        storage_options = options.get("storage_options")
        if engine is None and is_url(text) and file_path(text) is None:
            return cached_table(text, storage_options or {})
        return PathTable(engine or default_engine(storage_options), text)
    if engine is not None:
        raise ValueError("engine applies only to tables at a path: shared tables are read with the client's own")
    from lakeport.client import ClientOptions, open_server, open_table  # lazy: local tables do not need the client

    client = ClientOptions(**options)
    if profile is not None:
        return open_table(open_server(profile, client), parse_table_name(text), client)
    url = parse_table_url(text)
    return open_table(open_server(url.profile, client), url.name, client)


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


def _at(version: int | None, time: int | str | datetime | None) -> At:
    if version is not None and not isinstance(version, int):
        raise ValueError(f"{version!r} is not a version: pass an integer")
    if not isinstance(time, int | str | datetime | None):
        raise ValueError(f"{time!r} is not a time: pass milliseconds, a datetime or ISO 8601 text")
    return At(version, parse_time(time) if isinstance(time, str) else time)


class TableVersion:
    """A `Selection` of one version. Once open, it keeps that version, even when pickled."""

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
        """The requested version; once open, by its number."""
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
    """A `Selection` of changes. Once open, it keeps its versions, even when pickled."""

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
        if isinstance(self._end, At):
            return self._end
        if (at := self._end.at) != LATEST:
            return at
        # A start past the latest version is "not found", not "after their end".
        return At(max(self._end.definition.version, self._start.version or 0))

    @property
    def schema(self) -> StructType:
        return self.feed.schema

    def scan_builder(self, condition: Expression | None, limit: int | None) -> ChangeScanBuilder:
        return self.feed.scan_builder()
