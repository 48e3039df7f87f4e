"""`convert`: create the Iceberg mirror of a Delta table, or update it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakeport.engine import default_engine
from lakeport.errors import ConversionError, MissingFileError, StorageError, VersionNotFoundError
from lakeport.iceberg.decision import DeltaState, Plan, Wanted, decide
from lakeport.iceberg.delta.change import TableChange
from lakeport.iceberg.delta.source import Ahead, Increment, LogTruncatedError, look_ahead, open_increment, plan_full
from lakeport.iceberg.manifests.manifest import OutOfStepError
from lakeport.iceberg.snapshots.shape import plan_shape
from lakeport.iceberg.snapshots.writer import SnapshotWriter
from lakeport.iceberg.table.metadata import (
    DELTA_TABLE_ID,
    apply_updates,
    current_snapshot,
    forget_history,
    mirrored_time,
    mirrored_version,
    new_metadata,
)
from lakeport.iceberg.table.schema import FieldIdConflict, Json
from lakeport.iceberg.targets import open_mirror
from lakeport.iceberg.targets.target import CommitLostError, Published, Target
from lakeport.kernel.engine import Engine
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.workers import Workers, open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_FILES = {"gc.enabled": "false"}
"""The data files belong to Delta: Iceberg's own maintenance must not delete them."""
_SNAPSHOTS_AT_ONCE = 50
_SECONDS_AT_MOST = 10.0
"""Limits of a group published together: a crash loses little work, and metadata is not rewritten too often."""

Progress = Callable[[int, int], object]
"""Called with the mirrored version and the latest one."""


@dataclass(frozen=True)
class Conversion:
    """The result of `convert`."""

    version: int
    """The Delta version that the mirror shows."""
    kind: str
    """`full`, `incremental`, or `none` if the mirror was up to date."""
    versions: tuple[int, ...]
    """The versions that got a snapshot."""
    format_version: int
    location: str
    """The directory of the Iceberg table."""
    metadata_location: str
    """Its metadata file, for readers without a catalog."""
    snapshot_id: int


def convert(
    target: str,
    *,
    out: str | None = None,
    catalog: Any = None,
    table: str | None = None,
    format_version: int | None = None,
    since: int | None = None,
    full: bool = False,
    squash: bool = False,
    progress: Progress | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Conversion:
    """Create the Iceberg mirror of the Delta table at a path or a URL, or update it. Data files are neither copied nor
    changed. Generated files are written to the directory `out`, the location of the Iceberg table; the default is
    `_iceberg` in the Delta table's directory. Mirrors must not share a directory.

    With `catalog`, the mirror is published there as `table` (`namespace.name`). `catalog` is a pyiceberg catalog, its
    name in pyiceberg's configuration, or its properties. The default of `out` is then `_iceberg-namespace.name`.
    Without a catalog, readers open the mirror by its directory.

    A new mirror has one snapshot, of the latest version; with `since`, one of that version and of each later one. After
    that, each new Delta version becomes a snapshot. `squash` combines all new versions into one snapshot, also those
    after `since`. `since` is ignored if the mirror exists. With `full`, which excludes `since`, the mirror is rebuilt
    in one snapshot. The same happens if new versions cannot be mirrored one by one: the log was truncated, files of an
    intermediate version were vacuumed, Iceberg cannot express it, the Delta table's history has changed, or somebody
    else has written to the mirror or rolled it back.

    After `CREATE OR REPLACE`, the mirror gets one more snapshot, with another schema; earlier ones stay. If another
    Delta table has taken the place of the mirrored one, or the table has moved or has new column ids, one snapshot
    atomically replaces all earlier ones.

    `format_version` is 2 (the default) or 3; a mirror keeps its own, and can be upgraded from 2 to 3. `progress` is
    called with the mirrored version and the latest one. With a session in `spark`, its tasks write delete files,
    otherwise threads do.

    Conversions are idempotent, and safe to interrupt or run concurrently: the mirror always shows a whole version.

    Raises `ConversionError` for a table that Iceberg cannot express, before anything is written, and if something else
    is at `out`; also `TableNotFoundError`, `VersionNotFoundError`, `CorruptTableError`, `UnsupportedFeatureError`."""
    if format_version not in (None, 2, 3):
        raise ValueError(f"format_version must be 2 or 3, not {format_version!r}")
    if full and since is not None:
        raise ValueError("full writes one snapshot, since one for each version: pass only one of them")
    engine = engine or default_engine(storage_options)
    source, place = open_mirror(engine, target, out, catalog, table)
    wanted = Wanted(format_version, since, full, squash)
    tell = progress or (lambda version, latest: None)
    return _Converter(engine, source, place, wanted, tell, open_workers(engine, spark)).run()


@dataclass(frozen=True)
class _Learned:
    """The findings of failed attempts to convert."""

    obstacle: Exception | None = None
    """Why new versions cannot be mirrored one by one."""
    has_new_column_ids: bool = False


@dataclass(frozen=True)
class _Converter:
    engine: Engine
    table: Table
    target: Target
    wanted: Wanted
    progress: Progress
    workers: Workers

    def run(self) -> Conversion:
        outcome: Conversion | _Learned = _Learned()
        while isinstance(outcome, _Learned):
            outcome = self._attempt(outcome)
        return outcome

    def _attempt(self, learned: _Learned) -> Conversion | _Learned:
        """The result, or what the next attempt needs to know."""
        base = self.target.load()
        ahead = self._look_ahead(base, learned)
        plan = decide(base, self._state(base, ahead, learned), self.wanted)
        if learned.obstacle is not None and plan.is_new:  # the mirror does not even have its first version
            raise learned.obstacle
        try:
            return self._carry_out(plan, base, ahead)
        except CommitLostError:  # lost the race; retry on the winner's metadata
            return _Learned()
        except FieldIdConflict:
            if learned.has_new_column_ids:
                raise
            return _Learned(has_new_column_ids=True)
        except (OutOfStepError, LogTruncatedError, MissingFileError, ConversionError) as error:
            # A superseded snapshot can be expired, and its files deleted, while it is being read.
            if isinstance(error, MissingFileError) and self._is_overtaken(base):
                return _Learned()
            # Files of an intermediate version may be vacuumed, or Iceberg cannot express it.
            if plan.kind != "incremental" and isinstance(error, (MissingFileError, ConversionError)):
                raise
            if learned.obstacle is not None:
                raise
            return _Learned(obstacle=error)

    def _is_overtaken(self, base: Published | None) -> bool:
        now = self.target.load()
        return now is not None and (base is None or now.path != base.path)

    # What to decide from

    def _look_ahead(self, base: Published | None, learned: _Learned) -> Ahead:
        if base is None or self.wanted.full or learned != _Learned():
            return Ahead(self.table.latest_snapshot())
        return look_ahead(self.table, base.metadata)

    def _state(self, base: Published | None, ahead: Ahead, learned: _Learned) -> DeltaState:
        latest = ahead.latest
        return DeltaState(
            latest.root,
            latest.metadata.id,
            latest.version,
            None if base is None else self._mirrored_id(base.metadata, latest),
            ahead.is_followed and learned.obstacle is None,
            learned.has_new_column_ids,
        )

    def _mirrored_id(self, mirror: Json, latest: Snapshot) -> str | None:
        version = mirrored_version(mirror)
        if version is not None and mirror["properties"].get(DELTA_TABLE_ID) != latest.metadata.id:
            with suppress(VersionNotFoundError):  # cleaned up, not reused by another table's log
                return self.table.snapshot_at_version(version).metadata.id
        return None

    # Execution

    def _carry_out(self, plan: Plan, base: Published | None, ahead: Ahead) -> Conversion:
        self.target.check_format_version(plan.format_version)
        start = new_metadata(self.target.location, plan.format_version) if base is None else base.metadata
        updates = self._first_updates(plan, start)
        plan_shape(apply_updates(start, updates, 0), ahead.latest)  # reject before anything is written
        whole, increment = self._contents(plan, start, ahead)
        session = _Session(self.engine, self.target, base, start, updates, self.workers)
        versions = []
        try:
            for version in session.write(whole, increment, plan.squash):
                versions.append(version)
                self.progress(version, ahead.latest.version)
        except BaseException:
            session.discard()
            raise
        return self._result(plan, session.published, tuple(versions))

    def _first_updates(self, plan: Plan, start: Json) -> list[Json]:
        """The updates before the first snapshot."""
        updates: list[Json] = []
        if plan.format_version != start["format-version"]:
            updates.append({"action": "upgrade-format-version", "format-version": plan.format_version})
        if plan.is_new:
            updates += forget_history(start, self.target.location)
            updates.append({"action": "set-properties", "updates": _OWN_FILES})
        return updates

    def _contents(self, plan: Plan, start: Json, ahead: Ahead) -> tuple[TableChange | None, Increment | None]:
        whole = None
        if plan.whole is not None:
            is_latest = plan.whole == ahead.latest.version
            whole = plan_full(ahead.latest if is_latest else self.table.snapshot_at_version(plan.whole))
        if plan.after is None:
            return whole, None
        if whole is not None:
            return whole, Increment(whole.snapshot, whole.timestamp)
        return None, ahead.increment or open_increment(self.table, plan.after, mirrored_time(start))

    def _result(self, plan: Plan, published: Published | None, versions: tuple[int, ...]) -> Conversion:
        assert published is not None
        snapshot, version = current_snapshot(published.metadata), mirrored_version(published.metadata)
        assert snapshot is not None
        assert version is not None
        return Conversion(
            version,
            plan.kind,
            versions,
            published.metadata["format-version"],
            self.target.location,
            published.path,
            snapshot["snapshot-id"],
        )


class _Session:
    """Writes snapshots and publishes them in groups."""

    def __init__(
        self, engine: Engine, target: Target, base: Published | None, start: Json, updates: list[Json], workers: Workers
    ) -> None:
        """`base` is the published state, `start` its metadata or that of a new table; `updates` come before the first
        snapshot."""
        self._engine, self._target = engine, target
        self.published, self._start = base, start
        self._writer = SnapshotWriter(engine, target.location, apply_updates(start, updates, 0), workers)
        self._writer.updates += updates

    def write(self, whole: TableChange | None, increment: Increment | None, squash: bool) -> Iterator[int]:
        """Write a snapshot of the whole table, which replaces the previous contents, and those of later changes. Yields
        the versions of written snapshots; all are published at the end."""
        waiting, since = 0, time.monotonic()
        later = increment.changes(self._writer, squash=squash) if increment else ()
        for change in chain([whole] if whole else [], later):
            self._writer.apply(change, whole=change is whole)
            waiting += 1
            if waiting >= _SNAPSHOTS_AT_ONCE or time.monotonic() - since > _SECONDS_AT_MOST:
                self._publish()
                waiting, since = 0, time.monotonic()
            yield change.version
        if self._writer.updates:
            self._publish()

    def _publish(self) -> None:
        written = list(self._writer.written)
        self._writer.written.clear()  # keep them unless publishing is known to have failed
        try:
            self.published = self._target.publish(self.published, self._start, self._writer.finished_updates())
        except CommitLostError:
            self._writer.written += written
            raise
        self._start = self.published.metadata
        self._writer.restart(self._start)

    def discard(self) -> None:
        """Remove written but unpublished files. `clean` finds any that remain."""
        with suppress(StorageError):
            self._engine.storage.delete(self._writer.written)
