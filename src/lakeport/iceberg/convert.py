"""`convert`: makes the Iceberg mirror of a Delta table, or brings it up to date."""

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
"""The data files are Delta's: Iceberg's own maintenance must not delete them."""

Progress = Callable[[int, int], object]
"""Told the version that is mirrored, and the latest one."""


@dataclass(frozen=True)
class Conversion:
    """What `convert` did."""

    version: int
    """The version of the Delta table that the mirror shows."""
    kind: str
    """`full`, `incremental`, or `none` if there was nothing to do."""
    versions: tuple[int, ...]
    """Those that got a snapshot."""
    format_version: int
    location: str
    """The directory of the Iceberg table."""
    metadata_location: str
    """Its metadata file, by which readers without a catalog can open it."""
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
    """Makes the Iceberg mirror of the Delta table at a path or a URL, or brings it up to date. Data files are neither
    copied nor changed; what is generated goes into the directory `out`, the location of the Iceberg table: `_iceberg`
    in the directory of the Delta table unless given. No two mirrors may have the same one.

    With `catalog` the mirror is published there as `table`, which is `namespace.name`: it is a catalog of pyiceberg's,
    the name of one in pyiceberg's configuration, or its properties. Then `out` is `_iceberg-namespace.name` unless
    given. Otherwise the mirror is opened by its directory.

    A new mirror has one snapshot, of the latest version; with `since`, one of that version and of each later one. After
    that, each new version of the Delta table becomes a snapshot. With `squash`, all new ones become one; also all after
    that of `since`, which does not count for a mirror that is there already. With `full`, which excludes `since`, or
    where the new versions cannot be mirrored one by one, one snapshot takes the place of all that there was: the log
    no longer tells what changed, files of a version in between were vacuumed, or Iceberg cannot express it; the Delta
    table has got another history, or somebody else has written to the mirror or rolled it back.

    A table that `CREATE OR REPLACE` has made anew gets one more snapshot, with another schema; the earlier ones stay.
    Where another Delta table has taken the place of the former, or the table has moved, or gives columns other ids, one
    snapshot takes the place of all earlier ones, in one step.

    `format_version` is 2 (the default) or 3; a mirror keeps its own, and can go from 2 to 3. `progress` is told the
    version that is mirrored, and the latest one. With a session in `spark`, delete files are written by its
    tasks, otherwise by threads.

    It can be repeated, broken off, and run twice at once: the mirror always shows a whole version.

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
        while True:  # who is overtaken by another has less to do the next time
            with suppress(CommitLostError):
                return self._attempt()

    def _attempt(self) -> Conversion:
        base = self.target.load()
        ahead, plan = self._look_ahead(base), None
        try:
            plan = self._plan(base, ahead)
            return self._carry_out(plan, base, ahead.latest)
        except (OutOfStepError, LogTruncatedError) as error:  # also: it is cleaned up while it is read
            return self._start_over(error)
        except FieldIdConflict:
            base = self.target.load()
            return self._carry_out(self._plan_anew(base, ahead.latest, None), base, ahead.latest)
        except MissingFileError as error:
            # A snapshot that is no longer current can be expired, and its files deleted, while it is being read.
            if self._is_overtaken(base):
                raise CommitLostError from error
            if plan is None or plan.kind != "incremental":
                raise
            return self._start_over(error)  # files of a version in between were vacuumed
        except ConversionError as error:
            if plan is None or plan.kind != "incremental":
                raise
            plan_shape(plan.begun, ahead.latest)
            return self._start_over(error)  # only a version in between is refused

    def _look_ahead(self, base: Published | None) -> Ahead:
        if base is None or self.options.full:
            return Ahead(self.table.latest_snapshot())
        return look_ahead(self.table, base.metadata)

    def _start_over(self, error: Exception) -> Conversion:
        """Mirrors the latest version as a whole; some before it may have been published. Raises `error` if the mirror
        does not even have its first version."""
        base, latest = self.target.load(), self.table.latest_snapshot()
        if base is None or not self._is_mirrored(base, latest):
            raise error
        return self._carry_out(self._plan_whole(base, latest), base, latest)

    def _is_overtaken(self, base: Published | None) -> bool:
        now = self.target.load()
        return now is not None and (base is None or now.path != base.path)

    def _is_mirrored(self, base: Published, latest: Snapshot) -> bool:
        """Whether what is published is a mirror of this table, at this place. Raises `ConversionError` if it is none,
        or one of another table at another place."""
        return check_mirror(base, latest) and not self._began_anew(base, latest)

    def _began_anew(self, base: Published, latest: Snapshot) -> bool:
        """Whether another table, with a log of its own, has taken the place of the mirrored one. One that was replaced
        within its log has got another id, but had the former one at the mirrored version."""
        known: str | None = base.metadata["properties"].get(DELTA_TABLE_ID)
        version = mirrored_version(base.metadata)
        if known == latest.metadata.id or version is None:
            return False
        if version > latest.version:
            return True
        try:
            return self.table.snapshot_at_version(version).metadata.id != known
        except VersionNotFoundError:  # cleaned up, and not taken by the log of another table
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
        """One snapshot for all; the earlier ones stay."""
        return Plan("full", base.metadata, self._upgrades(base.metadata), plan_full(latest), _no_changes)

    def _plan_anew(self, base: Published | None, latest: Snapshot, since: int | None) -> Plan:
        """A new mirror, or one that forgets its snapshots and the ids of its columns."""
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

    # Carrying them out

    def _carry_out(self, plan: Plan, base: Published | None, latest: Snapshot) -> Conversion:
        self.target.check_format_version(plan.begun["format-version"])
        plan_shape(plan.begun, latest)  # what is refused is refused before anything is written
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
