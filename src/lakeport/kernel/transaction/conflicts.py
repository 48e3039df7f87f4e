"""Detect conflicts between a transaction and other writers' commits.

Appends do not conflict. A transaction conflicts with a commit that changed the protocol or metadata, removed a file
that the transaction read or removes, added rows that it would have read, or advanced the same application
transaction or metadata domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

import msgspec
import pyarrow as pa

from lakeport.errors import CommitConflictError
from lakeport.kernel.actions import Add, DomainMetadata, Remove
from lakeport.kernel.definition import ROW_TRACKING_DOMAIN
from lakeport.kernel.engine import FileStatus, StorageClient
from lakeport.kernel.log import ActionLine, read_lines
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.scan import Scan
from lakeport.kernel.values import array_of, to_mask


@dataclass(frozen=True)
class WinningCommit:
    """A commit by another writer since this transaction read the table."""

    version: int
    lines: Sequence[ActionLine]
    modification_time: int = 0
    """Of the commit file, in milliseconds since the epoch."""

    @cached_property
    def adds(self) -> list[Add]:
        return [line.add for line in self.lines if line.add is not None]

    @cached_property
    def removes(self) -> list[Remove]:
        return [line.remove for line in self.lines if line.remove is not None]

    @cached_property
    def info(self) -> dict[str, Any]:
        return next((line.info for line in self.lines if line.info is not None), {})

    @cached_property
    def domains(self) -> dict[str, DomainMetadata]:
        return {line.domain.domain: line.domain for line in self.lines if line.domain is not None}

    @property
    def description(self) -> str:
        operation = self.info.get("operation")
        return f"version {self.version}" + (f" ({operation})" if operation else "")


def read_winner(storage: StorageClient, file: FileStatus, version: int) -> WinningCommit:
    """Raises `CorruptTableError` for an unreadable commit."""
    return WinningCommit(version, tuple(read_lines(storage, file)), file.modification_time)


@dataclass
class Reads:
    """A transaction's reads, for conflict detection."""

    root: str
    scans: list[Scan] = field(default_factory=list)
    """Others must not add rows selected by these."""
    paths: set[str] = field(default_factory=set)
    """Others must not remove these files; absolute and plain."""
    everything: bool = False
    """Others must not add or remove any file."""

    @property
    def nothing(self) -> bool:
        return not (self.scans or self.paths or self.everything)


@dataclass(frozen=True)
class Changes:
    """A transaction's writes, for conflict detection."""

    removed: frozenset[str]
    """Absolute, plain file paths."""
    app_ids: frozenset[str]
    domains: frozenset[str]
    changes_metadata: bool
    rearranges_only: bool
    """Whether no rows are added or removed."""
    serializable: bool
    """Whether the isolation level is Serializable, so that blind appends can conflict too (`delta.isolationLevel`)."""


def check_conflicts(reads: Reads, changes: Changes, winner: WinningCommit) -> None:
    """Raises `CommitConflictError` if the winner's commit conflicts with the transaction."""
    _check_table(winner)
    _check_removed(reads, changes, winner)
    _check_added(reads, changes, winner)
    for line in winner.lines:
        if line.txn is not None and line.txn.app_id in changes.app_ids:
            raise _conflict(winner, f"it also has the application transaction {line.txn.app_id!r}")
    for name in sorted(changes.domains & winner.domains.keys() - {ROW_TRACKING_DOMAIN}):
        raise _conflict(winner, f"it also sets the metadata domain {name!r}")


def _check_table(winner: WinningCommit) -> None:
    if any(line.protocol is not None for line in winner.lines):
        raise _conflict(winner, "it changes the table's protocol")
    if any(line.metadata is not None for line in winner.lines):
        raise _conflict(winner, "it changes the table's schema or properties")


def _check_removed(reads: Reads, changes: Changes, winner: WinningCommit) -> None:
    for remove in winner.removes:
        path = resolve_path(reads.root, remove.path)
        if path in changes.removed:
            raise _conflict(winner, "it changes or removes a file that this transaction also changes", remove.path)
        if reads.everything or path in reads.paths:
            raise _conflict(winner, "it changes or removes a file that this transaction has read", remove.path)


def _check_added(reads: Reads, changes: Changes, winner: WinningCommit) -> None:
    if changes.rearranges_only and not changes.changes_metadata:
        return
    blind = winner.info.get("isBlindAppend") is True
    if blind and not changes.serializable and not changes.changes_metadata:
        return  # the append can be ordered after this transaction
    added = [add for add in winner.adds if add.data_change]
    if not added:
        return
    for add in added if reads.everything else _readable(reads.scans, added):
        raise _conflict(winner, "it adds rows that this transaction would have had to read", add.path)


def _readable(scans: Iterable[Scan], added: list[Add]) -> Iterable[Add]:
    """The files that any of the scans would have selected."""
    for scan in scans:
        selection = scan.select(_as_batch(added, scan.columns.schema)).selection
        yield from added if selection is None else compress(added, to_mask(selection))


def _as_batch(adds: list[Add], schema: pa.Schema) -> pa.RecordBatch:
    """Actions as a batch of scan files."""
    rows = [msgspec.to_builtins(add) for add in adds]
    return pa.RecordBatch.from_struct_array(array_of(rows, pa.struct(list(schema))))


def _conflict(winner: WinningCommit, reason: str, file: str | None = None) -> CommitConflictError:
    where = f" [{file}]" if file else ""
    return CommitConflictError(
        f"another writer committed {winner.description} first: {reason}{where}. Nothing was committed; read the table "
        "again and repeat the operation",
        version=winner.version,
    )
