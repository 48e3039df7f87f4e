"""`Transaction`: changes to a table, staged against one version and committed as a later one.

    transaction = update_table(snapshot, "WRITE")
    context = transaction.write_context()             # for this process, or as bytes for workers
    transaction.add_files(adds)                       # made by writers from the context and rows
    committed = transaction.commit()

A commit is one put-if-absent write. If another writer wins the race, its commits are checked for conflicts and the
transaction is rebased onto them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.actions import Add, DomainMetadata, Metadata, Protocol, Remove
from lakeport.kernel.actions import Transaction as ApplicationTransaction
from lakeport.kernel.definition import (
    APPEND_ONLY,
    CLUSTERING_DOMAIN,
    COMPRESSION,
    ENABLE_ROW_TRACKING,
    ROW_COMMIT_VERSION_COLUMN,
    ROW_ID_COLUMN,
    ROW_TRACKING_DOMAIN,
    TARGET_FILE_SIZE,
    TableDefinition,
    check_writable,
    clustering_domain,
    column_mapping_mode,
    constraints_of,
    define_table,
    gathers_rows,
)
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction.commit import Committed, Committer, StagedActions
from lakeport.kernel.transaction.conflicts import Reads
from lakeport.kernel.write import WriteContext, check_storable, stats_columns, to_change, widen_stats


@dataclass
class Transaction:
    """Created by `create_table`, `replace_table` and `update_table`. For one thread and one commit."""

    engine: Engine
    root: str
    operation: str
    snapshot: Snapshot | None
    """The version read; None for a new table."""
    definition: TableDefinition
    reads: Reads
    started: int
    """Start time in milliseconds since the epoch."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The operation's parameters, for the table's history."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The operation's metrics, for the table's history."""
    _staged: StagedActions = field(default_factory=StagedActions)

    # State

    @property
    def protocol(self) -> Protocol:
        return self.definition.protocol

    @property
    def metadata(self) -> Metadata:
        return self.definition.metadata

    @property
    def schema(self) -> StructType:
        return self.definition.schema

    @property
    def mapping_mode(self) -> str:
        return column_mapping_mode(self.protocol, self.metadata, self.root)

    def write_context(self, *, keep_row_ids: bool = False) -> WriteContext:
        """How to write rows. With `keep_row_ids`, in a table that tracks rows, the input has `_row_id` and
        `_row_commit_version`."""
        mode = self.mapping_mode
        configuration = self.metadata.configuration
        partition_columns = tuple(self.schema.resolve((name,))[0].name for name in self.metadata.partition_columns)
        check_storable(self.schema, partition_columns, self.root)
        keep = keep_row_ids and ENABLE_ROW_TRACKING.of(configuration)
        return WriteContext(
            table_root=self.root,
            schema_json=self.metadata.schema_string,
            partition_columns=partition_columns,
            mapping_mode=mode,
            stats_columns=stats_columns(
                self.schema, partition_columns, mode, configuration, self.definition.clustering_columns
            ),
            tight_bounds="deletionVectors" in (self.protocol.writer_features or ()),
            constraints=constraints_of(configuration, self.schema, self.root),
            target_file_size=TARGET_FILE_SIZE.of(configuration),
            gathers_rows=gathers_rows(configuration),
            compression=COMPRESSION.of(configuration),
            now=self.started,
            row_id_column=ROW_ID_COLUMN.of(configuration) if keep else None,
            row_commit_version_column=ROW_COMMIT_VERSION_COLUMN.of(configuration) if keep else None,
        )

    # Reads

    def plan(self, scan: Scan) -> list[ScanFile]:
        """The files of a scan of the snapshot, recorded as reads for conflict detection."""
        files = list(scan.files())
        self.reads.paths.update(file.path for file in files)
        if scan.filter is None:
            self.reads.everything = True
        else:
            self.reads.scans.append(scan)
        return files

    def application_version(self, app_id: str) -> int | None:
        """The last version that an application recorded in the table."""
        return None if self.snapshot is None else self.snapshot.transaction_version(app_id)

    # Changes

    def add_files(self, adds: Iterable[Add], *, data_change: bool = True) -> None:
        """Add files written with the write context. `data_change` is false if rows are only moved."""
        self._staged.adds += [
            add if add.data_change == data_change else msgspec.structs.replace(add, data_change=data_change)
            for add in adds
        ]

    def remove_files(self, files: Iterable[ScanFile], *, data_change: bool = True) -> None:
        """Remove files of the snapshot from the table."""
        self._staged.removes += [self._remove(file, data_change) for file in files]

    def set_deletion_vector(
        self, file: ScanFile, vector: DeletionVectorDescriptor | None, *, data_change: bool = True
    ) -> None:
        """Replace the deletion vector of a file in the snapshot. Needs the file's statistics (`with_stats`)."""
        self._staged.removes.append(self._remove(file, data_change))
        stats = widen_stats(file.stats) if vector is not None else file.stats
        after = msgspec.structs.replace(file, deletion_vector=vector, stats=stats)
        self._staged.adds.append(after.to_add(self.root, data_change=data_change))

    def add_changes(self, files: Iterable[Add]) -> None:
        """Add files of changed rows, made with `write_context().for_changes()`: all changes of this commit."""
        self._staged.changes += map(to_change, files)

    def set_application_version(self, app_id: str, version: int) -> None:
        """Record an application's version atomically with the commit."""
        self._staged.applications[app_id] = ApplicationTransaction(app_id, version, self.started)

    def cluster_by(self, columns: Sequence[str]) -> None:
        """Cluster the table by other columns, or by none. Raises `ValueError`."""
        self.definition = self.definition.clustered_by(columns)
        self._staged.domains[CLUSTERING_DOMAIN] = clustering_domain(self.definition.clustering_columns)

    def set_domain(self, domain: str, configuration: str) -> None:
        """Set the configuration of a user's metadata domain. Raises `ValueError` for one of Delta's own."""
        self._stage_domain(DomainMetadata(domain, configuration))

    def remove_domain(self, domain: str) -> None:
        known = {} if self.snapshot is None else self.snapshot.domain_metadata
        if domain not in known:
            raise ValueError(f"the table has no metadata domain {domain!r} [{self.root}]")
        self._stage_domain(DomainMetadata(domain, known[domain], removed=True))

    def restore_domains(self, domains: Mapping[str, str]) -> None:
        """Restore the metadata domains of another version of the table, including Delta's own; row ids already assigned
        stay assigned."""
        known = {} if self.snapshot is None else self.snapshot.domain_metadata
        for name in (domains.keys() | known.keys()) - {ROW_TRACKING_DOMAIN}:
            if domains.get(name) != known.get(name):
                configuration = domains.get(name, known.get(name, ""))
                self._staged.domains[name] = DomainMetadata(name, configuration, removed=name not in domains)

    def _stage_domain(self, action: DomainMetadata) -> None:
        if action.domain.startswith("delta."):
            raise ValueError(f"the metadata domain {action.domain!r} is reserved for Delta: it cannot be set")
        self.definition = self.definition.with_features("domainMetadata")
        self._staged.domains[action.domain] = action

    def _remove(self, file: ScanFile, data_change: bool) -> Remove:
        return file.to_remove(self.root, data_change=data_change, timestamp=self.started)

    # Commit

    @property
    def changes_nothing(self) -> bool:
        return self._staged.is_empty and not self.definition.is_changed

    def check_rows_may_change(self) -> None:
        """Raises `UnsupportedFeatureError` if the table is append-only or was so until now; so does a commit that
        removes rows."""
        before = {} if self.snapshot is None else self.snapshot.properties
        if APPEND_ONLY.of(self.metadata.configuration) or APPEND_ONLY.of(before):
            raise UnsupportedFeatureError(
                f"the table is append-only (delta.appendOnly): its rows cannot be changed or removed [{self.root}]",
                features=["appendOnly"],
            )

    def commit(self) -> Committed:
        """Write the next version of the table.

        Raises `CommitConflictError` if another writer's commit conflicts, `CommitUnknownError` if the storage leaves
        the outcome unknown. On any error, nothing half-written is visible."""
        if any(remove.data_change for remove in self._staged.removes):
            self.check_rows_may_change()
        committer = Committer(
            self.engine,
            self.snapshot,
            self.definition,
            self.reads,
            self._staged,
            operation=self.operation,
            parameters=self.parameters,
            metrics=self.metrics,
        )
        return committer.commit()


def create_table(
    engine: Engine,
    path: str,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    *,
    clustering_columns: Sequence[str] = (),
    name: str | None = None,
    description: str | None = None,
    operation: str = "CREATE TABLE",
) -> Transaction:
    """Begin a transaction that creates a table. Raises `ValueError` for an invalid definition."""
    root, now = engine.storage.resolve(path), engine.now()
    definition = define_table(
        root, schema, partition_columns, properties, name=name, description=description, created=now
    )
    transaction = Transaction(engine, root, operation, None, definition, Reads(root), now)
    return _clustered(transaction, clustering_columns)


def replace_table(
    snapshot: Snapshot,
    schema: StructType,
    partition_columns: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    *,
    clustering_columns: Sequence[str] = (),
    operation: str = "REPLACE TABLE",
) -> Transaction:
    """Begin a transaction that replaces a snapshot's table: removes its files; keeps its history and the settings that
    the log relies on. As no file remains, the column mapping may change.

    Raises `ValueError` for an invalid definition and `UnsupportedFeatureError` for an append-only table."""
    before, now = snapshot.definition, snapshot.engine.now()
    definition = define_table(
        snapshot.root,
        schema,
        partition_columns,
        properties,
        name=before.metadata.name,
        description=before.metadata.description,
        created=before.metadata.created_time or now,
        before=before,
    )
    transaction = Transaction(
        snapshot.engine, snapshot.root, operation, snapshot, definition, Reads(snapshot.root), started=now
    )
    if files := transaction.plan(snapshot.scan_builder().with_log_details().build()):
        transaction.check_rows_may_change()
        transaction.remove_files(files)
    return _clustered(transaction, clustering_columns)


def update_table(snapshot: Snapshot, operation: str) -> Transaction:
    """Begin a transaction on a table. Raises `UnsupportedFeatureError` naming any feature this version cannot write."""
    definition = snapshot.definition
    check_writable(snapshot.protocol, snapshot.metadata, snapshot.schema, snapshot.root)
    reads = Reads(snapshot.root)
    return Transaction(
        snapshot.engine, snapshot.root, operation, snapshot, definition, reads, started=snapshot.engine.now()
    )


def _clustered(transaction: Transaction, columns: Sequence[str]) -> Transaction:
    """Cluster the table by exactly these columns."""
    known = {} if transaction.snapshot is None else transaction.snapshot.domain_metadata
    if columns:
        transaction.cluster_by(columns)
    elif CLUSTERING_DOMAIN in known:
        domain = DomainMetadata(CLUSTERING_DOMAIN, known[CLUSTERING_DOMAIN], removed=True)
        transaction._staged.domains[CLUSTERING_DOMAIN] = domain
    return transaction
