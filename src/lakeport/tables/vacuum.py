"""`vacuum`: deletes files that no version within the retention needs."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakeport.errors import CommitConflictError
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.post_commit import finish_commit
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.table_properties import DELETED_FILE_RETENTION, parse_interval
from lakeport.kernel.transaction import update_table
from lakeport.kernel.vacuum_files import find_unneeded, needed_files
from lakeport.tables.operation import Progress, Result, StorageOptions, open_snapshot

_HOUR = 3_600_000
_MILLISECOND = timedelta(milliseconds=1)
_BATCH = 1000
_THREADS = 8


@dataclass(frozen=True)
class VacuumResult(Result):
    """What can be deleted, or, if `deleted`, is."""

    files: tuple[str, ...] = ()
    """Plain paths from the table's root, sorted."""
    bytes: int = 0
    deleted: bool = False


def vacuum(
    target: str,
    *,
    retention: timedelta | str | float | None = None,
    dry_run: bool = True,
    enforce_retention: bool = True,
    progress: Progress | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> VacuumResult:
    """Finds data files, deletion vectors and change data under the table's root that no version needs which was the
    latest within `retention` (text such as `"7 days"`, a timedelta, or a number of hours; the table's
    `delta.deletedFileRetentionDuration`, a week by default). With `dry_run=False` deletes them, and records start and
    end in the table's history. Older versions cannot be read then, nor restored.

    Nothing is touched that is younger than the retention, lies outside of the root, or is not the table's data: names
    that start with `_` or `.`, and other tables below the root. Raises `ValueError` for a retention that is shorter
    than the table's, unless `enforce_retention` is false: readers of older versions, and writers that are at work,
    may need what is deleted then. `progress` is told the number of files."""
    snapshot = open_snapshot(target, engine, storage_options)
    update_table(snapshot, "VACUUM START")  # what the table asks of writers holds for vacuum too
    least = DELETED_FILE_RETENTION.of(snapshot.properties)
    kept = least if retention is None else _milliseconds(retention)
    if enforce_retention and kept < least:
        raise ValueError(
            f"the retention of {_hours(kept)} is shorter than the table's {_hours(least)} "
            "(delta.deletedFileRetentionDuration): readers of older versions and writers at work may need the files; "
            "if there are none, pass enforce_retention=False"
        )
    since = snapshot.engine.now() - kept
    found = find_unneeded(
        snapshot, snapshot.engine.storage.list_all(snapshot.root), needed_files(snapshot, since), since
    )
    if dry_run:
        return _result(snapshot, snapshot.version, found, deleted=False)
    parameters = {"retentionCheckEnabled": enforce_retention, "defaultRetentionMillis": least}
    parameters |= {} if retention is None else {"specifiedRetentionMillis": kept}
    started = _start(snapshot, parameters, found)
    if started.version > snapshot.version + 1:  # others have committed since; a restore may need old files again
        found = find_unneeded(started, found, needed_files(started, since), since)
    return _result(snapshot, _delete(started, found, progress), found, deleted=True)


def _milliseconds(retention: timedelta | str | float) -> int:
    try:
        match retention:
            case str():
                return parse_interval(retention)
            case timedelta() if retention >= timedelta(0):
                return retention // _MILLISECOND
            case int() | float() if retention >= 0:
                return int(retention * _HOUR)
    except (ValueError, OverflowError):
        pass
    raise ValueError(
        f"a retention is an interval such as '7 days' or '12 hours', a timedelta or a number of hours, and not "
        f"negative; it is not {retention!r}"
    )


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / _HOUR:g} hours"


def _result(snapshot: Snapshot, version: int, found: list[FileStatus], *, deleted: bool) -> VacuumResult:
    paths = tuple(sorted(file.path.removeprefix(f"{snapshot.root}/") for file in found))
    size = sum(file.size for file in found)
    names = ("numDeletedFiles", "numDeletedBytes") if deleted else ("numFilesToDelete", "sizeOfDataToDelete")
    return VacuumResult(version, dict(zip(names, (len(found), size), strict=True)), paths, size, deleted)


def _start(snapshot: Snapshot, parameters: Mapping[str, Any], found: list[FileStatus]) -> Snapshot:
    """The version that tells of the start."""
    metrics = {"numFilesToDelete": len(found), "sizeOfDataToDelete": sum(file.size for file in found)}
    _record(snapshot, "VACUUM START", parameters, metrics)
    return snapshot.refresh()


def _delete(snapshot: Snapshot, found: list[FileStatus], progress: Progress | None) -> int:
    """The version that tells of the end."""
    done = 0
    try:
        batches = [[file.path for file in found[start : start + _BATCH]] for start in range(0, len(found), _BATCH)]
        with ThreadPoolExecutor(_THREADS, "lakeport-vacuum") as pool:
            for batch, _ in zip(batches, pool.map(snapshot.engine.storage.delete, batches), strict=True):
                done += len(batch)
                if progress is not None:
                    progress(done, len(found))
    except BaseException:
        _record(snapshot, "VACUUM END", {"status": "FAILED"}, {"numDeletedFiles": done})
        raise
    return _record(snapshot, "VACUUM END", {"status": "COMPLETED"}, {"numDeletedFiles": done})


def _record(snapshot: Snapshot, operation: str, parameters: Mapping[str, Any], metrics: Mapping[str, int]) -> int:
    """A version that only tells what is done. It goes on top of whatever others commit."""
    while True:
        transaction = update_table(snapshot, operation)
        transaction.parameters |= parameters
        transaction.metrics |= metrics
        try:
            committed = transaction.commit()
        except CommitConflictError:
            snapshot = snapshot.refresh()
            continue
        finish_commit(snapshot.engine, committed, snapshot)
        return committed.version
