"""Commit staged actions as a version of the table.

A commit is one put-if-absent write. If another writer wins the race, its commits are checked for conflicts and the
actions are rebased onto them. If the storage leaves the outcome unknown, the file is looked up before it is written
again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakeport.errors import (
    AccessDeniedError,
    CommitConflictError,
    CommitUnknownError,
    OutOfSpaceError,
    StorageError,
)
from lakeport.kernel.actions import Action, Add, AddCdc, DomainMetadata, Remove, Transaction, encode_actions
from lakeport.kernel.definition import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ISOLATION_LEVEL,
    TableDefinition,
    assign_row_ids,
    assigns_row_ids,
    high_water_mark,
)
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import commit_path, list_newer, read_lines
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction.conflicts import Changes, Reads, WinningCommit, check_conflicts, read_winner
from lakeport.version import __version__

ENGINE_INFO = f"Lakeport/{__version__}"

_log = logging.getLogger(__name__)
_LOOKS = 3
"""How often to write and look up a commit with unknown outcome before giving up."""
_ATTEMPTS = 1000
"""How often to retry a version that the storage has but does not show; each attempt is a round trip."""


@dataclass
class StagedActions:
    """The actions of a commit, other than the table's definition."""

    adds: list[Add] = field(default_factory=list)
    removes: list[Remove] = field(default_factory=list)
    changes: list[AddCdc] = field(default_factory=list)
    applications: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not any((self.adds, self.removes, self.changes, self.applications, self.domains))

    @property
    def rearranges_only(self) -> bool:
        """Whether no rows are added or removed."""
        files: list[Add | Remove] = [*self.adds, *self.removes]
        return bool(files) and not any(file.data_change for file in files)


@dataclass(frozen=True)
class Committed:
    """The result of a commit: version `version` of the table."""

    version: int
    definition: TableDefinition
    adds: tuple[Add, ...]
    removes: tuple[Remove, ...]
    applications: Mapping[str, Transaction]
    domains: Mapping[str, DomainMetadata]
    info: Mapping[str, Any]
    """The `commitInfo`."""


@dataclass(frozen=True)
class _Base:
    """The version that the commit builds on, with its state."""

    version: int
    highest_row_id: int
    timestamp: int
    """The previous in-commit timestamp."""


@dataclass(frozen=True)
class Committer:
    """Performs one commit."""

    engine: Engine
    snapshot: Snapshot | None
    """The version read; None for a new table."""
    definition: TableDefinition
    reads: Reads
    staged: StagedActions
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    transaction_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def root(self) -> str:
        return self.definition.root

    def commit(self) -> Committed:
        """Raises `CommitConflictError` and `CommitUnknownError`."""
        self._check_log_is_there()
        base = self._base()
        while True:
            committed, data = self._encoded(base)
            if self._put(committed.version, data):
                return committed
            base = self._rebased(base)

    def _check_log_is_there(self) -> None:
        """Raises `CommitConflictError` if the version read has been cleaned up: the next one may be gone too, and a
        file in its place would not be a commit."""
        if self.snapshot is not None and not self.engine.storage.status(self.snapshot.segment.latest_file.path):
            raise self._outdated(self.snapshot.version)

    def _outdated(self, version: int) -> CommitConflictError:
        return CommitConflictError(
            f"the log no longer has version {version}, so conflicts cannot be detected; nothing was "
            f"committed: read the table again and repeat the operation [{self.root}]",
            version=version,
        )

    def _base(self) -> _Base:
        if self.snapshot is None:
            return _Base(-1, -1, 0)
        highest = high_water_mark(self.snapshot.domain_metadata, self.root) if self._assigns_row_ids else -1
        return _Base(self.snapshot.version, highest, self.snapshot.timestamp if self._stamps else 0)

    def _rebased(self, base: _Base) -> _Base:
        """Rebase onto the commits that others have made since."""
        commits, footprint = list_newer(self.engine.storage, self.root, base.version).commits, self._footprint
        for version in range(base.version + 1, max(commits, default=base.version + 1) + 1):
            # A listing during concurrent writes may miss an existing version.
            file = commits.get(version) or self.engine.storage.status(commit_path(self.root, version))
            if file is None:
                raise self._outdated(version)
            winner = read_winner(self.engine.storage, file, version)
            if self.snapshot is None:
                raise CommitConflictError(
                    f"another writer created the table first; append to it, or choose another path [{self.root}]",
                    version=version,
                )
            check_conflicts(self.reads, footprint, winner)
            base = self._after(base, winner)
        return base

    def _after(self, base: _Base, winner: WinningCommit) -> _Base:
        domains = {name: domain.configuration for name, domain in winner.domains.items()}
        highest = max(base.highest_row_id, high_water_mark(domains, self.root))
        stamp = winner.info.get("inCommitTimestamp")
        timestamp = stamp if isinstance(stamp, int) else winner.modification_time
        return _Base(winner.version, highest, max(base.timestamp, timestamp) if self._stamps else 0)

    @property
    def _assigns_row_ids(self) -> bool:
        return assigns_row_ids(self.definition.protocol, self.definition.metadata)

    @property
    def _stamps(self) -> bool:
        return ENABLE_IN_COMMIT_TIMESTAMPS.of(self.definition.metadata.configuration)

    @property
    def _isolation(self) -> str:
        return ISOLATION_LEVEL.of(self.definition.metadata.configuration)

    @property
    def _footprint(self) -> Changes:
        return Changes(
            removed=frozenset(resolve_path(self.root, remove.path) for remove in self.staged.removes),
            app_ids=frozenset(self.staged.applications),
            domains=frozenset(self.staged.domains),
            changes_metadata=self.definition.is_changed,
            rearranges_only=self.staged.rearranges_only,
            serializable=self._isolation == "Serializable",
        )

    def _encoded(self, base: _Base) -> tuple[Committed, bytes]:
        """Encode the commit as the version after `base`."""
        version, now = base.version + 1, self.engine.now()
        stamp = max(now, base.timestamp + 1) if self._stamps else None
        definition = self.definition.as_of(version, stamp)
        staged, adds, domains = self.staged, self.staged.adds, dict(self.staged.domains)
        if self._assigns_row_ids:
            adds, mark = assign_row_ids(adds, base.highest_row_id, version)
            domains |= {mark.domain: mark} if mark else {}
        info = self._commit_info(stamp, now)
        files: list[Action] = [*staged.removes, *adds, *staged.changes]
        actions: list[Action] = [*definition.actions, *staged.applications.values(), *domains.values(), *files]
        data = msgspec.json.encode({"commitInfo": info}) + b"\n" + encode_actions(actions)
        result = Committed(version, definition, tuple(adds), tuple(staged.removes), staged.applications, domains, info)
        return result, data

    def _commit_info(self, stamp: int | None, now: int) -> dict[str, Any]:
        info: dict[str, Any] = {} if stamp is None else {"inCommitTimestamp": stamp}
        info |= {
            "timestamp": now if stamp is None else stamp,
            "operation": self.operation,
            "operationParameters": {name: _text(value) for name, value in self.parameters.items()},
            "isolationLevel": "SnapshotIsolation" if self.staged.rearranges_only else self._isolation,
            "isBlindAppend": self.reads.nothing and not self.staged.removes and not self.definition.is_changed,
            "operationMetrics": {name: _text(value) for name, value in self.metrics.items()},
            "engineInfo": ENGINE_INFO,
            "txnId": self.transaction_id,
        }
        if self.snapshot is not None:
            info["readVersion"] = self.snapshot.version
        if self._assigns_row_ids:
            info["tags"] = {"delta.rowTracking.preserved": "true"}
        return info

    def _put(self, version: int, data: bytes) -> bool:
        """Write the version. False if another writer's commit is there."""
        path = commit_path(self.root, version)
        failures: list[StorageError] = []
        for _ in range(_ATTEMPTS):
            try:
                self.engine.storage.write(path, data)
                return True
            except FileExistsError as error:
                # It may be ours: an attempt that seemed to fail, here or inside the storage's client, succeeded.
                # Or another writer is creating it, and the storage does not show it yet.
                _log.debug("version %d already exists: %s", version, error)
            except StorageError as error:
                if not failures and isinstance(error, AccessDeniedError | OutOfSpaceError):
                    raise  # not written
                _log.warning("the storage did not confirm version %d: %s", version, error)
                failures.append(error)
            if (found := self._found(path, version)) is not None:
                return found
            if len(failures) == _LOOKS:
                break
        reason = failures[-1] if failures else "it reports that the version exists, but does not return it"
        raise CommitUnknownError(
            f"the storage failed while version {version} was being written: {reason}; it does not exist now, but may "
            f"still appear: check the table's history before repeating the operation [{self.root}]",
            version=version,
        ) from (failures[-1] if failures else None)

    def _found(self, path: str, version: int) -> bool | None:
        """Whether the existing version is this commit; None if there is none."""
        try:
            return self._is_ours(path)
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise CommitUnknownError(
                f"the storage failed while version {version} was being written, and cannot confirm whether it "
                f"exists: {error}; check the table's history before repeating the operation [{self.root}]",
                version=version,
            ) from error

    def _is_ours(self, path: str) -> bool:
        return read_lines(self.engine.storage, FileStatus(path, 0)).info.get("txnId") == self.transaction_id


def _text(value: Any) -> str:
    """Parameters and metrics are text, as in other writers; lists and objects are JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
