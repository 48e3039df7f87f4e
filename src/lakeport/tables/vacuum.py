"""`vacuum`: delete files that no version within the retention period needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakeport.engine.storage.storage import Storage
from lakeport.errors import CommitConflictError
from lakeport.kernel.definition import DELETED_FILE_RETENTION, parse_interval
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.maintenance import find_unneeded, finish_commit, may_matter, needed_files
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import update_table
from lakeport.tables.operation import Progress, Result, StorageOptions, open_snapshot
from lakeport.workers import Workers, Workplace, open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOUR = 3_600_000
_MILLISECOND = timedelta(milliseconds=1)
_BATCH = 1000


@dataclass(frozen=True)
class VacuumResult(Result):
    """The files that can be deleted, or, if `deleted`, were."""

    files: tuple[str, ...] = ()
    """Decoded paths relative to the table's root, sorted."""
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
    spark: SparkSession | None = None,
) -> VacuumResult:
    """Find data files, deletion vectors and change data under the table's root that are not needed by any version
    current within `retention` (text such as `"7 days"`, a timedelta, or hours; default: the table's
    `delta.deletedFileRetentionDuration`, a week unless set). With `dry_run=False`, delete them and record start and end
    in the table's history. Older versions can then no longer be read or restored.

    Never touches files younger than the retention, outside the root, or not the table's data: names that start with `_`
    or `.`, and other tables below the root. Raises `ValueError` for a retention shorter than the table's, unless
    `enforce_retention` is false: readers of older versions and active writers may need the deleted files. `progress`
    receives the number of files. With a `spark` session, its tasks list directories and delete files."""
    snapshot = open_snapshot(target, engine, storage_options)
    update_table(snapshot, "VACUUM START")  # vacuum must meet the table's writer requirements too
    least = DELETED_FILE_RETENTION.of(snapshot.properties)
    kept = least if retention is None else _milliseconds(retention)
    if enforce_retention and kept < least:
        raise ValueError(
            f"the retention of {_hours(kept)} is shorter than the table's {_hours(least)} "
            "(delta.deletedFileRetentionDuration): readers of older versions and running writers may need the files; "
            "if there are none, pass enforce_retention=False"
        )
    since = snapshot.engine.now() - kept
    workers = open_workers(snapshot.engine, spark)
    listed = _list_files(workers, snapshot.engine, snapshot.root, since)
    found = find_unneeded(snapshot, listed, needed_files(snapshot, since), since)
    if dry_run:
        return _result(snapshot, snapshot.version, found, deleted=False)
    parameters = {"retentionCheckEnabled": enforce_retention, "defaultRetentionMillis": least}
    parameters |= {} if retention is None else {"specifiedRetentionMillis": kept}
    started = _start(snapshot, parameters, found)
    if started.version > snapshot.version + 1:  # others have committed since; a restore may need old files again
        found = find_unneeded(started, found, needed_files(started, since), since)
    return _result(snapshot, _delete(started, found, workers, progress), found, deleted=True)


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
        f"invalid retention {retention!r}: pass an interval such as '7 days', a timedelta, or a number of hours; none "
        "may be negative"
    )


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / _HOUR:g} hours"


def _result(snapshot: Snapshot, version: int, found: list[FileStatus], *, deleted: bool) -> VacuumResult:
    paths = tuple(sorted(file.path.removeprefix(f"{snapshot.root}/") for file in found))
    size = sum(file.size for file in found)
    names = ("numDeletedFiles", "numDeletedBytes") if deleted else ("numFilesToDelete", "sizeOfDataToDelete")
    return VacuumResult(version, dict(zip(names, (len(found), size), strict=True)), paths, size, deleted)


def _start(snapshot: Snapshot, parameters: Mapping[str, Any], found: list[FileStatus]) -> Snapshot:
    """Commit the version that records the start."""
    metrics = {"numFilesToDelete": len(found), "sizeOfDataToDelete": sum(file.size for file in found)}
    _record(snapshot, "VACUUM START", parameters, metrics)
    return snapshot.refresh()


def _list_files(workers: Workers, engine: Engine, root: str, since: int) -> Iterator[FileStatus]:
    """All files below the root that may be candidates. Other processes list one directory per task, level by level,
    because each level yields the directories of the next."""
    if workers.here is not None:
        yield from engine.storage.list_all(root)
        return
    list_directory = _ListDirectory(root, since)
    directories = [root]
    while directories:
        below: list[str] = []
        for files, found in workers.map(list_directory, directories):
            below += found
            yield from files
        directories = below


@dataclass(frozen=True)
class _ListDirectory:
    """A task: the candidate files in a directory, and its subdirectories."""

    root: str
    since: int

    def __call__(self, place: Workplace, directory: str) -> tuple[list[FileStatus], list[str]]:
        storage = place.engine.storage
        if isinstance(storage, Storage):
            files, below = storage.list_directory(directory)
        else:  # the storage can only list recursively
            files, below = list(storage.list_all(directory)), []
        return [file for file in files if may_matter(file, self.root, self.since)], below


def _delete(snapshot: Snapshot, found: list[FileStatus], workers: Workers, progress: Progress | None) -> int:
    """Delete the files; return the version that records the end."""
    done = 0
    try:
        batches = [[file.path for file in found[start : start + _BATCH]] for start in range(0, len(found), _BATCH)]
        for count in workers.map(_delete_files, batches):
            done += count
            if progress is not None:
                progress(done, len(found))
    except BaseException:
        _record(snapshot, "VACUUM END", {"status": "FAILED"}, {"numDeletedFiles": done})
        raise
    return _record(snapshot, "VACUUM END", {"status": "COMPLETED"}, {"numDeletedFiles": done})


def _delete_files(place: Workplace, paths: list[str]) -> int:
    """A task."""
    place.engine.storage.delete(paths)
    return len(paths)


def _record(snapshot: Snapshot, operation: str, parameters: Mapping[str, Any], metrics: Mapping[str, int]) -> int:
    """Commit a version that only records what was done, on top of any concurrent commits."""
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
