"""The copy: check that it can be updated, and commit versions of the shared table to it.

Its definition is the shared table's protocol, schema and properties, plus the sync's own properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from lakeport.client.opening import AccessMode
from lakeport.client.sync.plan import Live, VersionPlan, Wanted, live_files, parse_copy
from lakeport.engine import ComposedEngine
from lakeport.errors import SyncError, TableNotFoundError
from lakeport.kernel.actions import Add, AddCdc, DomainMetadata, Format, Metadata, Protocol, Remove
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.definition import (
    CATALOG_MANAGED,
    READER_FEATURES,
    ROW_TRACKING_DOMAIN,
    TIMESTAMP_ENABLEMENT,
    TableDefinition,
    assigns_row_ids,
    high_water_mark,
    row_tracking_domain,
    supported_features,
    with_history,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import finish_commit
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Committer, Reads, StagedActions

SYNCED_TABLE = "lakeport.sync.table"
"""A property of the copy: the table's name in the share."""
SYNCED_VERSION = "lakeport.sync.version"
"""A property of the copy: its version of the shared table."""
SYNCED_ACCESS = "lakeport.sync.access"
"""A property of the copy: `dir` if its files are named by the provider's paths rather than the server's ids."""


def copied_definition(
    root: str, before: Snapshot | None, shared: Snapshot, table: str, access: AccessMode
) -> TableDefinition:
    """The definition of the copy at `root` once it has the files of `shared`. It keeps the shared table's id."""
    known = None if before is None else before.definition
    protocol = _without_catalog(shared.protocol)
    return TableDefinition(
        root,
        protocol if known is None else merged_protocol(known.protocol, protocol),
        _metadata(known, shared, table, access),
        before=known,
    )


def _metadata(known: TableDefinition | None, shared: Snapshot, table: str, access: AccessMode) -> Metadata:
    # Versions of the provider's log are meaningless in another log.
    configuration = {name: value for name, value in shared.properties.items() if name not in TIMESTAMP_ENABLEMENT}
    if known is not None:
        configuration = with_history(configuration, known.metadata.configuration)
    noted: dict[str, str | None] = {SYNCED_TABLE: table, SYNCED_VERSION: str(shared.version)}
    if access == "dir":
        noted[SYNCED_ACCESS] = access
    return msgspec.structs.replace(
        shared.metadata, format=shared.metadata.format or Format(), configuration=configuration | noted
    )


def merged_protocol(known: Protocol, shared: Protocol) -> Protocol:
    """The shared table's protocol plus what the copy had before: its older versions and log files may still need it."""
    had, has = supported_features(known), supported_features(shared)
    if had <= has and _versions(known) <= _versions(shared):
        return shared
    if has <= had and _versions(shared) <= _versions(known):
        return known
    features = had | has
    readers = {name for name in features if name in READER_FEATURES}
    readers |= {*(known.reader_features or ()), *(shared.reader_features or ())}
    reader = max(known.min_reader_version, shared.min_reader_version)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=7,
        reader_features=tuple(sorted(readers)) if reader >= 3 else None,
        writer_features=tuple(sorted(features)),
    )


def _versions(protocol: Protocol) -> tuple[int, int]:
    return protocol.min_reader_version, protocol.min_writer_version


def _without_catalog(protocol: Protocol) -> Protocol:
    """No catalog manages the copy."""
    reader, writer = (
        None if names is None else tuple(name for name in names if name not in CATALOG_MANAGED)
        for names in (protocol.reader_features, protocol.writer_features)
    )
    return msgspec.structs.replace(protocol, reader_features=reader, writer_features=writer)


OPERATION = "SYNC"
_HARMLESS = frozenset({"VACUUM START", "VACUUM END"})
"""Operations that do not change the table's content or definition."""


@dataclass(frozen=True)
class Arrived:
    """One version of the shared table, with all its files in place."""

    plan: VersionPlan
    paths: dict[str, str]
    """Paths of data files relative to the table, by name."""
    changed: frozenset[str] | None = None
    """Names of files that added or removed rows; the others only moved rows. None if unknown."""
    changes: list[AddCdc] = field(default_factory=list)

    def changes_rows(self, name: str) -> bool:
        return self.changed is None or name in self.changed


class Destination:
    """The table at a path, which need not exist yet."""

    def __init__(self, engine: Engine, path: str) -> None:
        self.engine = engine
        self.root = engine.storage.resolve(path)
        self.snapshot: Snapshot | None = None
        with suppress(TableNotFoundError):
            self.snapshot = Table.for_path(engine, self.root).latest_snapshot()

    @property
    def version(self) -> int:
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def synced_version(self) -> int | None:
        """The copy's version of the shared table; None if there is no copy yet."""
        text = None if self.snapshot is None else self.snapshot.properties.get(SYNCED_VERSION)
        return int(text) if text and text.isdigit() else None

    @property
    def synced_access(self) -> AccessMode:
        """The access mode of the copy's files, which determines their names."""
        noted = None if self.snapshot is None else self.snapshot.properties.get(SYNCED_ACCESS)
        return "dir" if noted == "dir" else "url"

    def check(self, shared: Snapshot, table: str, *, full: bool) -> None:
        """Raises `SyncError` if the copy cannot be updated; with `full`, only if it is not a copy at all."""
        if self.snapshot is None:
            return
        if self.synced_version is None:
            raise SyncError(
                "the destination is a table that was not created by a sync; it was left unchanged. Choose another "
                f"destination [{self.root}]"
            )
        if full:
            return
        if self.snapshot.metadata.id != shared.metadata.id:
            known = self.snapshot.properties.get(SYNCED_TABLE)
            raise SyncError(
                f"{table} is not the table that was copied here as {known}: it is another one, or was recreated; "
                f"choose another place, or pass full=True to replace the copy [{self.root}]"
            )
        if self.synced_version > shared.version:
            raise SyncError(
                f"the copy has version {self.synced_version} of {table}, which is at version {shared.version}: it was "
                f"recreated or rolled back; pass full=True to reset the copy [{self.root}]"
            )
        self._check_untouched(self.snapshot)

    def _check_untouched(self, snapshot: Snapshot) -> None:
        """Raises `SyncError` if another writer changed the copy since the last sync, or if that is unknown."""
        for commit in snapshot.history():
            if commit.operation == OPERATION:
                return
            if commit.operation not in _HARMLESS:
                raise SyncError(
                    f"another writer changed the copy in version {commit.version} ({commit.operation}): restore the "
                    f"version before, or pass full=True to undo all changes by other writers [{self.root}]"
                )
        raise SyncError(
            "the log no longer shows whether another writer changed the copy; pass full=True to compare all of its "
            f"files with the share's [{self.root}]"
        )

    def live(self) -> Live:
        if self.snapshot is None:
            return {}
        return live_files(self.snapshot.scan_builder().with_log_details().build().files(), self.root)

    def commit(self, shared: Snapshot, table: str, access: AccessMode, arrived: Arrived) -> None:
        """Commit the next version of the copy. Raises `CommitConflictError` if another writer changed it meanwhile, and
        `CommitUnknownError`."""
        definition = copied_definition(self.root, self.snapshot, shared, table, access)
        new = [self._add(one, arrived, data_change=arrived.changes_rows(one.name)) for one in arrived.plan.added]
        restated = [self._add(one, arrived, data_change=False) for one in arrived.plan.restated]
        staged = StagedActions(
            adds=[*new, *restated],
            removes=[self._remove(file, arrived) for file in arrived.plan.removed],
            changes=arrived.changes,
        )
        if assigns_row_ids(definition.protocol, definition.metadata):
            staged.domains |= self._row_ids(staged.adds)
        committed = Committer(
            _at(self.engine, shared.timestamp) if shared.timestamp else self.engine,
            self.snapshot,
            definition,
            Reads(self.root, everything=True),
            staged,
            operation=OPERATION,
            parameters={"table": table, "version": str(shared.version)},
            metrics={
                "numAddedFiles": len(new),
                "numAddedBytes": sum(add.size for add in new),
                "numRemovedFiles": len(staged.removes),
            },
        ).commit()
        # Do not count files twice in the version's totals if only their details changed.
        finish_commit(self.engine, replace(committed, adds=committed.adds[: len(new)]), self.snapshot)
        # Not a later one: the next commit must see another writer's commits as conflicts.
        self.snapshot = Table.for_path(self.engine, self.root).snapshot_at_version(committed.version)

    def _row_ids(self, adds: Iterable[Add]) -> dict[str, DomainMetadata]:
        """The copy's highest row id, as its log must record it."""
        domains = {} if self.snapshot is None else self.snapshot.domain_metadata
        before = high_water_mark(domains, self.root)
        ends = [
            add.base_row_id + (decode_num_records(add.stats) or 1) - 1 for add in adds if add.base_row_id is not None
        ]
        highest = max([before, *ends])
        return {} if highest == before else {ROW_TRACKING_DOMAIN: row_tracking_domain(highest)}

    def _add(self, wanted: Wanted, arrived: Arrived, *, data_change: bool) -> Add:
        copy = msgspec.structs.replace(
            wanted.file,
            uri=arrived.paths[wanted.name],
            modification_time=wanted.file.modification_time or self.engine.now(),
            deletion_vector=wanted.vector,
        )
        return copy.to_add(self.root, data_change=data_change)

    def _remove(self, file: ScanFile, arrived: Arrived) -> Remove:
        changes_rows = arrived.changes_rows(parse_copy(file.path.removeprefix(f"{self.root}/")) or file.path)
        return file.to_remove(self.root, data_change=changes_rows, timestamp=self.engine.now())


def _at(engine: Engine, time: int) -> Engine:
    """The engine at another time: a commit gets the provider's time."""
    return ComposedEngine(engine.storage, engine.json, engine.parquet, engine.expressions, clock=lambda: time)
