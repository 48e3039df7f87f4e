"""Checksum files (`{version}.crc`): a version's protocol, metadata and totals, stored beside its commit.

They are optional: a missing, damaged or unwritable one never causes a failure. Their contents must be right, so an
uncertain number is omitted, or the file is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from lakeport.errors import LakeportError
from lakeport.kernel.actions import Add, DomainMetadata, Format, Metadata, Protocol, Remove, TableState, Transaction
from lakeport.kernel.engine import Engine
from lakeport.kernel.log.segment import checksum_path


class Checksum(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The content of a checksum file (section "Version Checksum File Schema"); None means absent."""

    metadata: Metadata
    protocol: Protocol
    num_metadata: int = 1
    num_protocol: int = 1
    txn_id: str | None = None
    table_size_bytes: int | None = None
    num_files: int | None = None
    in_commit_timestamp_opt: int | None = None
    set_transactions: tuple[Transaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    num_deleted_records_opt: int | None = None
    num_deletion_vectors_opt: int | None = None


class _WholeMetadata(Metadata, frozen=True, rename="camel", kw_only=True):
    """Metadata with no field omitted: an absent mapping mode would be read as none."""

    partition_columns: tuple[str, ...]
    configuration: dict[str, str | None]


class _StoredChecksum(Checksum, frozen=True, rename="camel", kw_only=True):
    metadata: _WholeMetadata


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Totals over the files of a version."""

    files: int = 0
    size: int = 0
    deletion_vectors: int | None = 0
    """None if unknown; then `deleted_records` is unknown too."""
    deleted_records: int = 0

    def after(self, adds: Iterable[Add], removes: Iterable[Remove]) -> FileTotals | None:
        """The totals after a commit; None if it removes a file of unknown size."""
        added, removed = _totals(adds), _totals(removes)
        if added is None or removed is None:
            return None
        vectors = None
        if self.deletion_vectors is not None:
            vectors = self.deletion_vectors + (added.deletion_vectors or 0) - (removed.deletion_vectors or 0)
        return FileTotals(
            self.files + added.files - removed.files,
            self.size + added.size - removed.size,
            vectors,
            self.deleted_records + added.deleted_records - removed.deleted_records,
        )


def _totals(actions: Iterable[Add | Remove]) -> FileTotals | None:
    actions = list(actions)
    sizes = [action.size for action in actions if action.size is not None]
    if len(sizes) < len(actions):
        return None
    vectors = [action.deletion_vector for action in actions if action.deletion_vector is not None]
    return FileTotals(len(actions), sum(sizes), len(vectors), sum(vector.cardinality for vector in vectors))


def read_checksum(engine: Engine, path: str) -> Checksum | None:
    """Read a version's checksum file, which saves replaying the log for protocol and metadata. None if the file is
    missing or incomplete."""
    try:
        stored = msgspec.json.decode(engine.storage.read(path), type=_StoredChecksum)
    except (LakeportError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    fields = msgspec.structs.asdict(stored)
    return Checksum(**fields | {"metadata": Metadata(**msgspec.structs.asdict(stored.metadata))})


def next_checksum(
    previous: Checksum | None,
    version: int,
    adds: Sequence[Add],
    removes: Sequence[Remove],
    *,
    protocol: Protocol,
    metadata: Metadata,
    transactions: Iterable[Transaction] = (),
    domains: Iterable[DomainMetadata] = (),
    txn_id: str | None = None,
    in_commit_timestamp: int | None = None,
) -> Checksum | None:
    """Derive the checksum of `version` from the previous one (None if unknown) and the commit's changes; None if it
    cannot be derived.

    `protocol` and `metadata` are the table's, `transactions` and `domains` the commit's. Each add must be of a file
    that is new to the table or among `removes`: pass `previous=None` if a commit re-adds a file."""
    before = _of_no_version(protocol, metadata) if version == 0 else previous
    totals = _totals_of(before)
    if before is None or totals is None or (totals := totals.after(adds, removes)) is None:
        return None
    return _checksum(
        totals,
        protocol,
        metadata,
        _set_transactions(before.set_transactions, transactions),
        _set_domains(before.domain_metadata, domains),
        txn_id,
        in_commit_timestamp,
    )


def _of_no_version(protocol: Protocol, metadata: Metadata) -> Checksum:
    """The state before the first version."""
    return _checksum(FileTotals(), protocol, metadata, (), (), None, None)


def whole_checksum(totals: FileTotals, state: TableState, root: str, in_commit_timestamp: int | None) -> Checksum:
    """The checksum of a version with known file totals."""
    return _checksum(
        totals,
        *state.require(root),
        tuple(state.transactions.values()),
        _set_domains((), state.domains.values()),
        None,
        in_commit_timestamp,
    )


def write_checksum(engine: Engine, root: str, version: int, checksum: Checksum) -> None:
    """Write a version's checksum file after its commit. Never overwrites one and never raises storage errors: the
    commit is valid without it."""
    with suppress(FileExistsError, LakeportError):
        engine.storage.write(checksum_path(root, version), _encode(checksum))


def _encode(checksum: Checksum) -> bytes:
    fields = _without_nulls(msgspec.to_builtins(checksum))
    for name in ("metadata", "protocol"):
        fields[name] = _without_nulls(fields[name])
    for name in ("setTransactions", "domainMetadata"):
        if name in fields:
            fields[name] = [_without_nulls(action) for action in fields[name]]
    return msgspec.json.encode(fields)


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _totals_of(checksum: Checksum | None) -> FileTotals | None:
    if checksum is None or checksum.num_files is None or checksum.table_size_bytes is None:
        return None
    vectors, records = checksum.num_deletion_vectors_opt, checksum.num_deleted_records_opt
    if vectors is None and not _has_deletion_vectors(checksum.protocol):
        vectors = records = 0
    known = vectors is not None and records is not None
    return FileTotals(
        checksum.num_files, checksum.table_size_bytes, vectors if known else None, records if known and records else 0
    )


def _has_deletion_vectors(protocol: Protocol) -> bool:
    return protocol.has_feature("deletionVectors")


def _checksum(
    totals: FileTotals,
    protocol: Protocol,
    metadata: Metadata,
    transactions: tuple[Transaction, ...] | None,
    domains: tuple[DomainMetadata, ...] | None,
    txn_id: str | None,
    in_commit_timestamp: int | None,
) -> Checksum:
    counts_vectors = _has_deletion_vectors(protocol) and totals.deletion_vectors is not None
    return Checksum(
        metadata=msgspec.structs.replace(metadata, format=metadata.format or Format()),
        protocol=protocol,
        txn_id=txn_id,
        table_size_bytes=totals.size,
        num_files=totals.files,
        in_commit_timestamp_opt=in_commit_timestamp,
        set_transactions=transactions,
        domain_metadata=domains,
        num_deleted_records_opt=totals.deleted_records if counts_vectors else None,
        num_deletion_vectors_opt=totals.deletion_vectors if counts_vectors else None,
    )


def _set_transactions(
    known: tuple[Transaction, ...] | None, newer: Iterable[Transaction]
) -> tuple[Transaction, ...] | None:
    if known is None:
        return None
    return tuple(({t.app_id: t for t in known} | {t.app_id: t for t in newer}).values())


def _set_domains(
    known: tuple[DomainMetadata, ...] | None, newer: Iterable[DomainMetadata]
) -> tuple[DomainMetadata, ...] | None:
    if known is None:
        return None
    domains = {d.domain: d for d in known} | {d.domain: d for d in newer}
    return tuple(domain for domain in domains.values() if not domain.removed)
