"""Work after a commit: checksum, checkpoint, log cleanup. The commit is valid without it, so it raises nothing.

Cleanup deletes log files that are no longer needed (section "Metadata Cleanup"): a checkpoint older than the log's
retention replaces everything before it. It is kept, as are its commit and every later version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from lakeport.errors import CorruptTableError
from lakeport.kernel.definition import CHECKPOINT_INTERVAL, ENABLE_EXPIRED_LOG_CLEANUP, LOG_RETENTION
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import (
    Checkpoint,
    Checksum,
    checksum_path,
    is_checkpoint,
    is_commit,
    log_path,
    next_checksum,
    parse_version,
    read_checkpoint_state,
    read_checksum,
    read_sidecars,
    sort_log_files,
    version_name,
    write_checksum,
)
from lakeport.kernel.maintenance.checkpoint_writer import write_checkpoint
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Committed

_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class ExpiredLog:
    """The oldest checkpoint to keep, and the files that it makes redundant, oldest first."""

    checkpoint: Checkpoint
    files: tuple[FileStatus, ...]


def clean_up_log(engine: Engine, snapshot: Snapshot) -> list[str]:
    """Delete log files older than the table's `delta.logRetentionDuration`, unless a younger version needs them.
    Returns their paths; empty if the table's properties forbid cleanup.

    Raises `CorruptTableError`, and deletes nothing, if the checkpoint that replaces them is unreadable."""
    if not ENABLE_EXPIRED_LOG_CLEANUP.of(snapshot.properties):
        return []
    now, root = engine.now(), snapshot.root
    cutoff = _start_of_day(now - LOG_RETENTION.of(snapshot.properties))
    if (snapshot.metadata.created_time or 0) > cutoff:
        return []  # nothing can be that old
    expired = find_expired_log(engine.storage.list_from(log_path(root), version_name(0)), cutoff)
    if expired is None:
        return []
    _check_readable(engine, root, expired.checkpoint)
    paths = [file.path for file in expired.files]
    engine.storage.delete(paths)
    # A checkpoint in progress has sidecars that nothing refers to yet.
    sidecars = _unused_sidecars(engine, root, expired.checkpoint.version, min(cutoff, _start_of_day(now) - _DAY))
    engine.storage.delete(sidecars)
    return paths + sidecars


def find_expired_log(files: Iterable[FileStatus], cutoff: int) -> ExpiredLog | None:
    """The part of a log, listed by name, not needed for versions from `cutoff` (milliseconds) on; None if all is
    needed. Consumes only the expired part of `files` and the next commit.

    A commit's age is its modification time, adjusted forward if an older commit has a later one. This is safe with
    in-commit timestamps: a file's modification time is never earlier, so copying a log only delays its cleanup."""
    seen: list[FileStatus] = []
    newest, time = -1, -1
    for file in files:
        version = parse_version(file.path)
        if version is None:
            continue
        seen.append(file)
        if is_commit(file.path, version):
            time = max(file.modification_time, time + 1)
            if time > cutoff:
                break
            newest = version
    checkpoints = sort_log_files(seen).checkpoints
    base = max((version for version in checkpoints if version <= newest), default=None)
    if base is None:
        return None
    expired = tuple(file for file in seen if _is_before(file.path, base))
    return ExpiredLog(checkpoints[base], expired) if expired else None


def _is_before(path: str, version: int) -> bool:
    """Whether a checkpoint of `version` makes a log file redundant, including a compaction that starts there."""
    own = parse_version(path)
    return own is not None and (own < version or (own == version and path.endswith(".compacted.json")))


def _start_of_day(milliseconds: int) -> int:
    """Midnight UTC."""
    return milliseconds - milliseconds % _DAY


def _check_readable(engine: Engine, root: str, checkpoint: Checkpoint) -> None:
    read_checkpoint_state(engine, checkpoint).require(root)
    needed = {_name(sidecar.path) for sidecar in read_sidecars(engine, checkpoint)}
    if missing := needed - {_name(file.path) for file in _list_sidecars(engine, root)} if needed else set():
        raise CorruptTableError(
            f"the checkpoint lacks its sidecar {min(missing)}: write a new checkpoint", path=checkpoint.files[0].path
        )


def _unused_sidecars(engine: Engine, root: str, first_version: int, before: int) -> list[str]:
    """Sidecars last modified before `before` that no checkpoint from `first_version` on references."""
    old = [file.path for file in _list_sidecars(engine, root) if file.modification_time < before]
    if not old:
        return []
    used = set()
    for file in engine.storage.list_from(log_path(root), version_name(first_version)):
        version = parse_version(file.path)
        if version is not None and is_checkpoint(file.path):
            used |= {_name(sidecar.path) for sidecar in read_sidecars(engine, Checkpoint(version, (file,)))}
    return [path for path in old if _name(path) not in used]


def _list_sidecars(engine: Engine, root: str) -> Iterable[FileStatus]:
    return engine.storage.list_from(f"{log_path(root)}/_sidecars", "")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


_log = logging.getLogger(__name__)


def finish_commit(engine: Engine, committed: Committed, read: Snapshot | None = None) -> None:
    """Write the version's checksum and, at the table's interval, a checkpoint; then delete expired log files. `read` is
    the transaction's base snapshot, which saves rereading the log."""
    root, version = committed.definition.root, committed.version
    try:
        if (checksum := _checksum(engine, committed, read)) is not None:
            write_checksum(engine, root, version, checksum)
        if version and version % CHECKPOINT_INTERVAL.of(committed.definition.metadata.configuration) == 0:
            snapshot = Table.for_path(engine, root).latest_snapshot() if read is None else read.refresh()
            write_checkpoint(engine, snapshot)
            clean_up_log(engine, snapshot)
    except Exception as error:  # raising would make callers repeat a finished commit
        _log.warning("version %d is committed, but maintenance after it failed: %s", version, error, exc_info=True)


def _checksum(engine: Engine, committed: Committed, read: Snapshot | None) -> Checksum | None:
    definition = committed.definition
    return next_checksum(
        _previous_checksum(engine, committed, read),
        committed.version,
        committed.adds,
        committed.removes,
        protocol=definition.protocol,
        metadata=definition.metadata,
        transactions=committed.applications.values(),
        domains=committed.domains.values(),
        txn_id=committed.info.get("txnId"),
        in_commit_timestamp=committed.info.get("inCommitTimestamp"),
    )


def _previous_checksum(engine: Engine, committed: Committed, read: Snapshot | None) -> Checksum | None:
    """The previous version's checksum; None if a file is re-added, which the totals would count twice."""
    if not committed.removes and any(not add.data_change for add in committed.adds):
        return None
    if read is not None and read.version == committed.version - 1:
        return read.checksum
    path = checksum_path(committed.definition.root, committed.version - 1)
    return read_checksum(engine, path) if committed.version else None
