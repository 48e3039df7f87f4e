"""`restore`: make an earlier version of a table its newest one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from lakeport.errors import MissingFileError, UnsupportedFeatureError
from lakeport.kernel.definition import APPEND_ONLY, assigns_row_ids
from lakeport.kernel.engine import Engine
from lakeport.kernel.maintenance import RestorePlan, plan_restore, restored_definition
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Transaction, update_table
from lakeport.kernel.values import parse_time
from lakeport.tables.operation import Result, StorageOptions, finish, table_at
from lakeport.tables.rows.search import counted
from lakeport.workers.ordered import map_ordered

_THREADS = 32
_SHOWN = 5


def restore(
    target: str,
    *,
    version: int | None = None,
    timestamp: int | str | datetime | None = None,
    ignore_missing_files: bool = False,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Restore the table's rows, schema, partitioning and properties to a version or time (milliseconds since the epoch,
    a datetime or ISO 8601 text; UTC if it has no zone). Creates a new version: those in between stay in the history,
    and the change data feed shows the difference. Never downgrades the protocol.

    Raises `VersionNotFoundError`, and `MissingFileError` before committing anything if files of that version are
    missing; with `ignore_missing_files`, restores the rest."""
    if (version is None) == (timestamp is None):
        raise ValueError("pass either a version or a timestamp")
    if not isinstance(version, int | None):
        raise ValueError(f"{version!r} is not a version: a version is a number")
    if not isinstance(timestamp, int | str | datetime | None):
        raise ValueError(f"{timestamp!r} is not a time: pass milliseconds, a datetime or ISO 8601 text")
    table = table_at(target, engine, storage_options)
    latest = table.latest_snapshot()
    earlier = _earlier(table, version, timestamp)
    transaction = update_table(latest, "RESTORE")
    now = transaction.plan(latest.scan_builder().with_log_details().build())
    then = list(earlier.scan_builder().with_log_details().build().files())
    plan = plan_restore(now, then)
    if APPEND_ONLY.of(latest.properties) and plan.removed:
        raise UnsupportedFeatureError(
            f"the table is append-only (delta.appendOnly): its rows cannot be removed [{latest.root}]",
            features=["appendOnly"],
        )
    plan = _without_missing(earlier, plan, ignore_missing_files)
    transaction.definition = restored_definition(transaction.definition, earlier)
    transaction.restore_domains(earlier.domain_metadata)
    transaction.parameters |= {"version": version} if version is not None else {"timestamp": str(timestamp)}
    _stage(transaction, plan, now)
    return finish(transaction)


def _earlier(table: Table, version: int | None, timestamp: int | str | datetime | None) -> Snapshot:
    if version is not None:
        return table.snapshot_at_version(version)
    assert timestamp is not None
    return table.snapshot_at_timestamp(parse_time(timestamp) if isinstance(timestamp, str) else timestamp)


def _stage(transaction: Transaction, plan: RestorePlan, now: list[ScanFile]) -> None:
    needs_counts = assigns_row_ids(transaction.protocol, transaction.metadata)
    transaction.remove_files(plan.removed)
    for file in plan.restored:
        known = counted(transaction.engine, file) if needs_counts and file.base_row_id is None else file
        transaction.add_files([known.to_add(transaction.root, data_change=True)])
    removed, restored = (sum(file.size for file in files) for files in (plan.removed, plan.restored))
    transaction.metrics |= {
        "numRemovedFiles": len(plan.removed),
        "removedFilesSize": removed,
        "numRestoredFiles": len(plan.restored),
        "restoredFilesSize": restored,
        "numOfFilesAfterRestore": len(now) - len(plan.removed) + len(plan.restored),
        "tableSizeAfterRestore": sum(file.size for file in now) - removed + restored,
    }


def _without_missing(earlier: Snapshot, plan: RestorePlan, ignore: bool) -> RestorePlan:
    """The plan without missing files. Raises `MissingFileError` if there are any, unless ignored."""
    needs = [_needed_paths(file, plan, earlier.root) for file in plan.restored]
    gone = _missing(earlier.engine, set().union(*needs))
    if gone and not ignore:
        shown = ", ".join(path.removeprefix(f"{earlier.root}/") for path in gone[:_SHOWN])
        raise MissingFileError(
            f"version {earlier.version} cannot be restored: {len(gone)} of its files are gone, as after a vacuum "
            f"({shown}{', …' if len(gone) > _SHOWN else ''}); restore a later version, or pass "
            "ignore_missing_files=True to restore the rest",
            path=gone[0],
        )
    left = [file for file, paths in zip(plan.restored, needs, strict=True) if paths.isdisjoint(gone)]
    return replace(plan, restored=left)


def _needed_paths(file: ScanFile, plan: RestorePlan, root: str) -> set[str]:
    """The paths that must exist for the file to be restored, beyond what the table has now."""
    data = set() if file.path in plan.rewound else {file.path}
    location = file.deletion_vector.location(root) if file.deletion_vector else None
    return data if location is None else {*data, location}


def _missing(engine: Engine, paths: Iterable[str]) -> list[str]:
    """The files that do not exist, sorted."""
    ordered = sorted(paths)
    found = map_ordered(engine.storage.status, ordered, _THREADS, "restore")
    return [path for path, status in zip(ordered, found, strict=True) if status is None]
