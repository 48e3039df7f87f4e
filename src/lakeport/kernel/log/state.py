"""A table's state other than its files: protocol, metadata, application transactions, domain metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import (
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    TRANSACTION,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    to_action,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.log.checkpoint import read_checkpoint_actions
from lakeport.kernel.log.segment import Checkpoint

STATE_FIELDS = [PROTOCOL, METADATA, TRANSACTION, DOMAIN_METADATA]


@dataclass
class TableState:
    """The newest action of each kind; filled newest first, so existing entries win."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    def add_older(self, batch: pa.RecordBatch, path: str) -> None:
        """Add the actions of a batch older than all previous ones."""
        for raw in _actions(batch, "protocol"):
            self.protocol = self.protocol or to_action(raw, Protocol, path)
        for raw in _actions(batch, "metaData"):
            self.metadata = self.metadata or to_action(_with_dicts(raw), Metadata, path)
        for raw in _actions(batch, "txn"):
            transaction = to_action(raw, Transaction, path)
            self.transactions.setdefault(transaction.app_id, transaction)
        for raw in _actions(batch, "domainMetadata"):
            domain = to_action(raw, DomainMetadata, path)
            self.domains.setdefault(domain.domain, domain)

    def require(self, root: str) -> tuple[Protocol, Metadata]:
        """Return protocol and metadata. Raises `CorruptTableError` if the log at `root` lacks either."""
        if self.protocol is None:
            raise CorruptTableError("no protocol found in the table's log; restore its first commits", path=root)
        if self.metadata is None:
            raise CorruptTableError("no metadata found in the table's log; restore its first commits", path=root)
        return self.protocol, self.metadata

    def over(self, older: TableState) -> TableState:
        """Combine this state, of a run of commits, with an older one."""
        return TableState(
            self.protocol or older.protocol,
            self.metadata or older.metadata,
            older.transactions | self.transactions,
            older.domains | self.domains,
        )


def read_checkpoint_state(engine: Engine, checkpoint: Checkpoint) -> TableState:
    state = TableState()
    for batch in read_checkpoint_actions(engine, checkpoint, STATE_FIELDS):
        state.add_older(batch, checkpoint.files[0].path)
    return state


def _actions(batch: pa.RecordBatch, name: str) -> list[dict[str, Any]]:
    """The actions of one kind in a batch, last first, since the newest comes last in the file."""
    column = batch.column(name)
    if column.null_count == len(column):
        return []
    rows = [row for row in column.drop_null().to_pylist() if any(value is not None for value in row.values())]
    return rows[::-1]


def _with_dicts(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert maps, which Arrow returns as pairs, to dicts."""
    fixed = dict(raw)
    fixed["configuration"] = dict(raw["configuration"] or ())
    if raw["format"] is not None:
        fixed["format"] = {
            "provider": raw["format"]["provider"] or "parquet",
            "options": dict(raw["format"]["options"] or ()),
        }
    return fixed
