"""`ParkedTransaction`: a transaction begun in one process and committed in another.

    parked = park(transaction)                        # a value that can be pickled
    transaction = parked.resume(engine)

Its version and definition are fixed. The commit checks for conflicts with other commits made meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeport.errors import CommitConflictError
from lakeport.kernel.actions import DomainMetadata
from lakeport.kernel.actions import Transaction as ApplicationTransaction
from lakeport.kernel.definition import TableDefinition
from lakeport.kernel.engine import Engine
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction.commit import StagedActions
from lakeport.kernel.transaction.conflicts import Reads
from lakeport.kernel.transaction.transaction import Transaction


@dataclass(frozen=True)
class ParkedTransaction:
    """A transaction before it has read or staged any file, as a picklable value."""

    version: int | None
    """The version read; None for a new table."""
    operation: str
    definition: TableDefinition
    started: int
    parameters: Mapping[str, Any]
    applications: Mapping[str, ApplicationTransaction]
    domains: Mapping[str, DomainMetadata]

    def resume(self, engine: Engine) -> Transaction:
        """Resume the transaction on its original version.

        Raises `CommitConflictError` if another table has replaced it, `TableNotFoundError` if it is gone."""
        staged = StagedActions(applications=dict(self.applications), domains=dict(self.domains))
        root = self.definition.root
        return Transaction(
            engine,
            root,
            self.operation,
            self._snapshot(engine),
            self.definition,
            Reads(root),
            self.started,
            dict(self.parameters),
            _staged=staged,
        )

    def _snapshot(self, engine: Engine) -> Snapshot | None:
        if self.version is None:
            return None
        snapshot = Table.for_path(engine, self.definition.root).snapshot_at_version(self.version)
        before = self.definition.before
        if before is not None and snapshot.metadata.id != before.metadata.id:
            raise CommitConflictError(
                f"another table has replaced the one that was read at version {self.version}; nothing was "
                f"committed: repeat the operation [{snapshot.root}]",
                version=self.version,
            )
        return snapshot


def park(transaction: Transaction) -> ParkedTransaction:
    """Convert a transaction that has only been defined to a picklable value."""
    staged = transaction._staged
    assert transaction.reads.nothing, "reads are not parked"
    assert not any((staged.adds, staged.removes, staged.changes)), "changed files are not parked"
    return ParkedTransaction(
        None if transaction.snapshot is None else transaction.snapshot.version,
        transaction.operation,
        transaction.definition,
        transaction.started,
        dict(transaction.parameters),
        dict(staged.applications),
        dict(staged.domains),
    )
