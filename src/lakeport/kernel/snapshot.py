"""`Table`: a Delta table at a path. `Snapshot`: one version of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property

import pyarrow as pa

from lakeport.errors import CorruptTableError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    TableDefinition,
    check_readable,
    check_type_changes,
    column_mapping_mode,
    is_catalog_managed,
)
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import (
    Checksum,
    Commit,
    CommitInfo,
    CommitTimes,
    FileColumns,
    LogListing,
    LogReplay,
    LogSegment,
    extend_segment,
    find_segment,
    is_checkpoint,
    list_log,
    log_path,
    read_history,
)
from lakeport.kernel.scan import ScanBuilder
from lakeport.kernel.schema import StructField, StructType, parse_schema


class Table:
    """A Delta table at a path. Reads nothing until a snapshot is requested."""

    def __init__(
        self, engine: Engine, root: str, catalog_version: int | None, staged_commits: Sequence[Commit]
    ) -> None:
        self.engine, self.root = engine, root
        self._catalog_version, self._staged_commits = catalog_version, staged_commits

    @classmethod
    def for_path(
        cls,
        engine: Engine,
        path: str,
        *,
        max_catalog_version: int | None = None,
        staged_commits: Sequence[str] = (),
    ) -> Table:
        """Return the table at `path`, which need not exist yet.

        For a catalog-managed table, `max_catalog_version` is the latest ratified version, and `staged_commits` names
        the unpublished commits in `_staged_commits`."""
        root = engine.storage.resolve(path)
        commits = [_staged(root, name) for name in staged_commits]
        return cls(engine, root, max_catalog_version, commits)

    def latest_snapshot(self) -> Snapshot:
        """Raises `TableNotFoundError`, `CorruptTableError`, `UnsupportedFeatureError`."""
        return self._snapshot(self._catalog_version)

    def snapshot_at_version(self, version: int) -> Snapshot:
        """Also raises `VersionNotFoundError`."""
        if version < 0:
            raise ValueError(f"a version must be 0 or more, not {version}")
        if self._catalog_version is not None and version > self._catalog_version:
            raise ValueError(
                f"version {version} is later than the catalog's latest ratified version: {self._catalog_version}"
            )
        return self._snapshot(version)

    def snapshot_at_timestamp(self, timestamp: int | datetime) -> Snapshot:
        """The snapshot that was current at a time: milliseconds since the epoch, or a datetime (naive means UTC)."""
        return self.snapshot_at_version(self.version_at_timestamp(timestamp))

    def version_at_timestamp(self, timestamp: int | datetime) -> int:
        return self.commit_times().version_at(to_milliseconds(timestamp))

    def latest_version(self) -> int:
        """The latest version number, from a listing only: the version need not be readable."""
        return self._segment(self._catalog_version).version

    def commit_times(self) -> CommitTimes:
        """The times of all commits. The latest version need not be readable."""
        segment = self._segment(self._catalog_version)
        return _commit_times(self.engine, self.root, segment, self._newest_metadata(segment))

    def _newest_metadata(self, segment: LogSegment) -> Metadata:
        """The metadata of the newest undamaged version. Raises `CorruptTableError` if there is none."""
        try:
            return self._replayed(segment)[1][1]
        except CorruptTableError as damage:
            for version in range(segment.version - 1, -1, -1):
                with suppress(CorruptTableError, VersionNotFoundError):
                    return self._replayed(self._segment(version))[1][1]
            raise damage

    def _snapshot(self, version: int | None) -> Snapshot:
        replay, known = self._replayed(self._segment(version))
        snapshot = Snapshot(self.engine, self.root, replay, *known)
        if self._catalog_version is None:
            _check_unmanaged(snapshot)
        return snapshot

    def _segment(self, version: int | None) -> LogSegment:
        return find_segment(self.engine.storage, self.root, version, self._staged_commits)

    def _replayed(self, segment: LogSegment) -> tuple[LogReplay, tuple[Protocol, Metadata]]:
        replay = LogReplay(self.engine, self.root, segment)
        return replay, replay.protocol_and_metadata()


class Snapshot:
    """One version of a table. Loads protocol and metadata eagerly, the file list lazily."""

    def __init__(self, engine: Engine, root: str, replay: LogReplay, protocol: Protocol, metadata: Metadata) -> None:
        self.engine, self.root, self._replay = engine, root, replay
        self.protocol, self.metadata = protocol, metadata
        check_readable(protocol, root)
        self.schema: StructType = parse_schema(metadata.schema_string, path=root)
        self.mapping_mode = column_mapping_mode(protocol, metadata, root)
        check_type_changes(self.schema, root)
        self._check_columns()

    def __repr__(self) -> str:
        return f"<Snapshot of {self.root} at version {self.version}>"

    @property
    def segment(self) -> LogSegment:
        """The log files that make up this version."""
        return self._replay.segment

    @property
    def version(self) -> int:
        return self.segment.version

    @property
    def checksum(self) -> Checksum | None:
        """This version's checksum; None if it was not written yet when the log was listed."""
        return self._replay.checksum

    @property
    def timestamp(self) -> int:
        """The commit time of this version, in milliseconds since the epoch. If log cleanup left only the checkpoint,
        its modification time."""
        latest = self.segment.latest_file
        if not is_checkpoint(latest.path) and ENABLE_IN_COMMIT_TIMESTAMPS.of(self.properties, path=self.root):
            listing = LogListing(commits={self.version: latest})
            return CommitTimes(self.engine.storage, listing, self.metadata, self.root).of(self.version)
        return latest.modification_time

    @property
    def properties(self) -> dict[str, str | None]:
        return self.metadata.configuration

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names, spelled as in the schema."""
        return tuple(field.name for field in self.partition_fields)

    @cached_property
    def partition_fields(self) -> tuple[StructField, ...]:
        return tuple(self.schema.resolve((name,))[0] for name in self.metadata.partition_columns)

    @cached_property
    def physical_partition_columns(self) -> tuple[str, ...]:
        return tuple(f.physical_name(self.mapping_mode) for f in self.partition_fields)

    @cached_property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each metadata domain."""
        return {name: d.configuration for name, d in self._replay.state.domains.items() if not d.removed}

    @property
    def definition(self) -> TableDefinition:
        """The table's definition in this version: everything but its files."""
        return TableDefinition.of(self.root, self.protocol, self.metadata, lambda: self.domain_metadata)

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application recorded in the table (`txn`)."""
        transaction = self._replay.state.transactions.get(app_id)
        return None if transaction is None else transaction.version

    @property
    def tracks_rows(self) -> bool:
        return ENABLE_ROW_TRACKING.of(self.properties, path=self.root)

    def live_files(self, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Batches of `columns.schema`, one row per file of this version. Reads log files only."""
        return self._replay.live_files(columns)

    def history(self, limit: int | None = None) -> Iterator[CommitInfo]:
        """The commits up to this version, newest first, as far back as the log goes."""
        times = self.commit_times()
        for count, commit in enumerate(read_history(self.engine.storage, times.listing, times, self.version)):
            if limit is not None and count >= limit:
                return
            yield commit

    def commit_times(self) -> CommitTimes:
        return _commit_times(self.engine, self.root, self.segment, self.metadata)

    def refresh(self) -> Snapshot:
        """Return the latest version, reading only commits newer than this one; `self` if there are none. For a
        catalog-managed table, return the latest published version."""
        newer = self._refreshed()
        if not is_catalog_managed(self.protocol):
            _check_unmanaged(newer)
        return newer

    def _refreshed(self) -> Snapshot:
        segment = extend_segment(self.segment, self.engine.storage, self.root)
        if segment is self.segment:
            return self
        if not _continues(segment, self.segment):
            replay = LogReplay(self.engine, self.root, segment)
            return Snapshot(self.engine, self.root, replay, *replay.protocol_and_metadata())
        replay = LogReplay(self.engine, self.root, segment, older=self._replay)
        newer = replay.new_commits.state
        return Snapshot(
            self.engine, self.root, replay, newer.protocol or self.protocol, newer.metadata or self.metadata
        )

    def scan_builder(self) -> ScanBuilder:
        return ScanBuilder(self)

    def _check_columns(self) -> None:
        lowered = [f.name.lower() for f in self.schema]
        if len(set(lowered)) != len(lowered):
            raise CorruptTableError("the schema has two columns with the same name", path=self.root)
        for name in self.metadata.partition_columns:
            if name not in self.schema.names:  # exact case: partition values use this name
                known = ", ".join(map(repr, self.schema.names))
                raise CorruptTableError(
                    f"the partition column {name!r} is not one of the columns {known}", path=self.root
                )


def _continues(segment: LogSegment, older: LogSegment) -> bool:
    """Whether a segment starts with all files of `older`, so there was no log cleanup and no table replacement."""
    return segment.checkpoint == older.checkpoint and segment.commits[: len(older.commits)] == older.commits


def _commit_times(engine: Engine, root: str, segment: LogSegment, metadata: Metadata) -> CommitTimes:
    listing = list_log(engine.storage, root)
    for commit in segment.commits:
        if commit.first == commit.last:
            listing.commits[commit.last] = commit.file
    listing.limit(segment.version)
    return CommitTimes(engine.storage, listing, metadata, root)


def _check_unmanaged(snapshot: Snapshot) -> None:
    """Raises `UnsupportedFeatureError` if a catalog manages the table."""
    if is_catalog_managed(snapshot.protocol):
        raise UnsupportedFeatureError(
            "the table is managed by a catalog, and only the catalog knows its latest version; ask it and pass "
            f"max_catalog_version and its staged_commits [{snapshot.root}]",
            features=["catalogManaged"],
        )


def to_milliseconds(timestamp: int | datetime) -> int:
    """Milliseconds since the epoch, rounded down; a naive datetime is UTC."""
    if not isinstance(timestamp, datetime):
        return timestamp
    moment = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


_MILLISECOND = datetime(1970, 1, 1, microsecond=1000) - datetime(1970, 1, 1)


def _staged(root: str, name: str) -> Commit:
    version = name.partition(".")[0]
    if not version.isdigit():
        raise ValueError(f"{name!r} is not the name of a staged commit")
    return Commit(int(version), int(version), FileStatus(f"{log_path(root)}/_staged_commits/{name}", 0))
