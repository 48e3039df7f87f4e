"""`convert`: create the Iceberg mirror of a Delta table, or update it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lakeport.engine import default_engine
from lakeport.errors import ConversionError, MissingFileError, VersionNotFoundError
from lakeport.iceberg.delta.ahead import Ahead, look_ahead
from lakeport.iceberg.delta.change import KnownFiles, TableChange
from lakeport.iceberg.delta.source import Increment, LogTruncatedError, open_increment, plan_full
from lakeport.iceberg.manifests.manifest import OutOfStepError
from lakeport.iceberg.session import Plan, Session
from lakeport.iceberg.snapshots.shape import plan_shape
from lakeport.iceberg.table.metadata import (
    DELTA_TABLE_ID,
    current_snapshot,
    forget_history,
    mirrored_time,
    mirrored_version,
    new_metadata,
)
from lakeport.iceberg.table.schema import FieldIdConflict, Json
from lakeport.iceberg.targets.place import check_mirror, open_place
from lakeport.iceberg.targets.target import CommitLostError, Published, Target
from lakeport.kernel.engine import Engine
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.workers import Workers, open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_FORMAT_VERSION = 2
_OWN_FILES = {"gc.enabled": "false"}
"""The data files belong to Delta: Iceberg's own maintenance must not delete them."""

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
        raise ValueError(f"format_version is 2 or 3, not {format_version!r}")
    if full and since is not None:
        raise ValueError("full makes one snapshot, since one of each version: give one of them, not both")
    engine = engine or default_engine(storage_options)
    source, place = open_place(engine, target, out, catalog, table)
    options = _Options(format_version, since, full, squash, progress)
    return _Converter(engine, source, place, options, open_workers(engine, spark)).run()


@dataclass(frozen=True)
class _Options:
    format_version: int | None
    since: int | None
    full: bool
    squash: bool
    progress: Progress | None


@dataclass(frozen=True)
class _Converter:
    engine: Engine
    table: Table
    target: Target
    options: _Options
    workers: Workers

    def run(self) -> Conversion:
        while True:  # lost the race; retry on the winner's metadata
            with suppress(CommitLostError):
                return self._attempt()

    def _attempt(self) -> Conversion:
        base = self.target.load()
        ahead, plan = self._look_ahead(base), None
        try:
            plan = self._plan(base, ahead)
            return self._carry_out(plan, base, ahead.latest)
        except (OutOfStepError, LogTruncatedError) as error:  # or the log was cleaned up meanwhile
            return self._start_over(error)
        except FieldIdConflict:
            base = self.target.load()
            return self._carry_out(self._plan_anew(base, ahead.latest, None), base, ahead.latest)
        except MissingFileError as error:
            # A superseded snapshot can be expired, and its files deleted, while it is being read.
            if self._is_overtaken(base):
                raise CommitLostError from error
            if plan is None or plan.kind != "incremental":
                raise
            return self._start_over(error)  # files of an intermediate version were vacuumed
        except ConversionError as error:
            if plan is None or plan.kind != "incremental":
                raise
            plan_shape(plan.begun, ahead.latest)
            return self._start_over(error)  # only an intermediate version is rejected

    def _look_ahead(self, base: Published | None) -> Ahead:
        if base is None or self.options.full:
            return Ahead(self.table.latest_snapshot())
        return look_ahead(self.table, base.metadata)

    def _start_over(self, error: Exception) -> Conversion:
        """Mirror the latest version as a whole; some versions before it may be published already. Raises `error` if the
        mirror does not even have its first version."""
        base, latest = self.target.load(), self.table.latest_snapshot()
        if base is None or not self._is_mirrored(base, latest):
            raise error
        return self._carry_out(self._plan_whole(base, latest), base, latest)

    def _is_overtaken(self, base: Published | None) -> bool:
        now = self.target.load()
        return now is not None and (base is None or now.path != base.path)

    def _is_mirrored(self, base: Published, latest: Snapshot) -> bool:
        """Whether the published table is a mirror of this table, at this location. Raises `ConversionError` if it is
        not a mirror, or mirrors another table elsewhere."""
        return check_mirror(base, latest) and not self._began_anew(base, latest)

    def _began_anew(self, base: Published, latest: Snapshot) -> bool:
        """Whether another table, with its own log, has taken the place of the mirrored one. A table replaced within its
        log has a new id, but had the old one at the mirrored version."""
        known: str | None = base.metadata["properties"].get(DELTA_TABLE_ID)
        version = mirrored_version(base.metadata)
        if known == latest.metadata.id or version is None:
            return False
        if version > latest.version:
            return True
        try:
            return self.table.snapshot_at_version(version).metadata.id != known
        except VersionNotFoundError:  # cleaned up, not reused by another table's log
            return False

    # Plans

    def _plan(self, base: Published | None, ahead: Ahead) -> Plan:
        latest = ahead.latest
        if base is None or not self._is_mirrored(base, latest):
            return self._plan_anew(base, latest, self.options.since)
        version = mirrored_version(base.metadata)
        assert version is not None
        if self.options.full or version > latest.version or not ahead.is_followed:
            return self._plan_whole(base, latest)
        updates = self._upgrades(base.metadata)
        if version == latest.version:
            return Plan("none", base.metadata, updates, None, _no_changes)
        try:
            increment = ahead.increment or open_increment(self.table, version, mirrored_time(base.metadata))
        except LogTruncatedError:
            return self._plan_whole(base, latest)
        return Plan("incremental", base.metadata, updates, None, partial(increment.changes, squash=self.options.squash))

    def _plan_whole(self, base: Published, latest: Snapshot) -> Plan:
        """One snapshot of the whole table; earlier ones stay."""
        return Plan("full", base.metadata, self._upgrades(base.metadata), plan_full(latest), _no_changes)

    def _plan_anew(self, base: Published | None, latest: Snapshot, since: int | None) -> Plan:
        """A new mirror, or one that discards its snapshots and column ids."""
        if base is None:
            start = new_metadata(self.target.location, self.options.format_version or _DEFAULT_FORMAT_VERSION)
            updates = []
        else:
            start = base.metadata
            updates = [*self._upgrades(start), *forget_history(start, self.target.location)]
        updates.append({"action": "set-properties", "updates": _OWN_FILES})
        if since is None or since == latest.version:
            return Plan("full", start, updates, plan_full(latest), _no_changes)
        first = self.table.snapshot_at_version(since)
        whole = plan_full(first)
        changes = partial(Increment(first, whole.timestamp).changes, squash=self.options.squash)
        return Plan("full", start, updates, whole, changes)

    def _upgrades(self, metadata: Json) -> list[Json]:
        wanted, given = self.options.format_version, metadata["format-version"]
        if wanted is None or wanted == given:
            return []
        if wanted < given:
            raise ConversionError(
                f"the mirror has format version {given}, and cannot go back to {wanted}: give another directory",
                reason="format version",
            )
        return [{"action": "upgrade-format-version", "format-version": wanted}]

    # Execution

    def _carry_out(self, plan: Plan, base: Published | None, latest: Snapshot) -> Conversion:
        self.target.check_format_version(plan.begun["format-version"])
        plan_shape(plan.begun, latest)  # reject before anything is written
        session = Session(self.engine, self.target, plan, base, self.workers)
        try:
            versions = tuple(session.write(lambda version: self._tell(version, latest.version)))
        except BaseException:
            session.discard()
            raise
        return self._result(plan, session, versions)

    def _tell(self, version: int, latest: int) -> None:
        if self.options.progress is not None:
            self.options.progress(version, latest)

    def _result(self, plan: Plan, session: Session, versions: tuple[int, ...]) -> Conversion:
        published = session.published
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


def _no_changes(_: KnownFiles) -> Iterator[TableChange]:
    return iter(())
