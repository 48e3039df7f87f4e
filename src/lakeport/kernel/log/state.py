"""A table's state other than its files: protocol, metadata, application transactions, domain metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
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
from lakeport.kernel.engine import FILE_INDEX, Engine, FileStatus
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

    def add_older(self, batch: pa.RecordBatch, files: Sequence[FileStatus]) -> None:
        """Add the actions of a batch older than all previous ones: of the first of the files, or of those that its
        `FILE_INDEX` names, the newest of which comes first."""
        for raw, path in _actions(batch, "protocol", files):
            self.protocol = self.protocol or to_action(raw, Protocol, path)
        for raw, path in _actions(batch, "metaData", files):
            self.metadata = self.metadata or to_action(_with_dicts(raw), Metadata, path)
        for raw, path in _actions(batch, "txn", files):
            transaction = to_action(raw, Transaction, path)
            self.transactions.setdefault(transaction.app_id, transaction)
        for raw, path in _actions(batch, "domainMetadata", files):
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
        state.add_older(batch, checkpoint.files)
    return state


def _actions(batch: pa.RecordBatch, name: str, files: Sequence[FileStatus]) -> list[tuple[dict[str, Any], str]]:
    """The actions of one kind in a batch and the paths of their files: file by file, and last first, since the newest
    comes last in its file."""
    column = batch.column(name)
    if column.null_count == len(column):
        return []
    actions = column.drop_null().to_pylist()
    numbers = [0] * len(actions)
    if FILE_INDEX.name in batch.schema.names:
        numbers = batch.column(FILE_INDEX.name).filter(column.is_valid()).to_pylist()
    numbered = zip(reversed(numbers), reversed(actions), strict=True)
    ordered = sorted(numbered, key=itemgetter(0))
    return [(row, files[number].path) for number, row in ordered if any(value is not None for value in row.values())]


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
