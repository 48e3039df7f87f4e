"""`history` and `checkpoint`: the table's log."""

from __future__ import annotations

from lakeport.kernel.engine import Engine
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.maintenance import write_checkpoint
from lakeport.kernel.transaction import update_table
from lakeport.tables.operation import Result, StorageOptions, open_snapshot


def history(
    target: str,
    limit: int | None = None,
    *,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> list[CommitInfo]:
    """The table's commits, newest first, at most `limit`, as far back as the log goes."""
    if limit is not None and limit < 0:
        raise ValueError(f"a limit must be 0 or more, not {limit}")
    return list(open_snapshot(target, engine, storage_options).history(limit))


def checkpoint(target: str, *, storage_options: StorageOptions = None, engine: Engine | None = None) -> Result:
    """Write a checkpoint of the latest version if it has none, so that readers can skip the commits before it."""
    snapshot = open_snapshot(target, engine, storage_options)
    update_table(snapshot, "CHECKPOINT")  # only a client that can write the table knows what belongs in a checkpoint
    write_checkpoint(snapshot.engine, snapshot)
    return Result(snapshot.version)
