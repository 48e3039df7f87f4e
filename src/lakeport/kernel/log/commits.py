"""One commit as the change data feed needs it, read in a single pass without the rest of the table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError, VersionNotFoundError
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log.replay import FileColumns
from lakeport.kernel.log.state import STATE_FIELDS, TableState
from lakeport.kernel.log.times import CommitTimes
from lakeport.kernel.values import TRUE

_COMMIT_INFO = pa.field("commitInfo", pa.struct([("inCommitTimestamp", pa.int64())]))


@dataclass(frozen=True)
class CommitChanges:
    """The file actions that changed rows, in columns for `to_file_batch`, and the commit's other actions. Cdc files,
    if any, cover all changes made by the adds and removes."""

    version: int
    timestamp: int
    adds: list[pa.StructArray]
    removes: list[pa.StructArray]
    cdc: list[pa.StructArray]
    state: TableState


def read_commit_changes(engine: Engine, times: CommitTimes, version: int, columns: FileColumns) -> CommitChanges:
    """Read a commit file in one pass. Raises `CorruptTableError` if it is invalid."""
    file = times.listing.commits[version]
    plain = FileColumns(row_tracking=columns.row_tracking, stats=columns.stats).add_type
    action = pa.struct([*plain, pa.field("dataChange", pa.bool_())])
    kinds = ("add", "remove", "cdc")
    schema = pa.schema([*(pa.field(kind, action) for kind in kinds), *STATE_FIELDS, _COMMIT_INFO])
    found: dict[str, list[pa.StructArray]] = {kind: [] for kind in kinds}
    state = TableState()
    info: dict[str, int] = {}
    for batch in engine.json.read_json_files([file], schema):
        state.add_older(batch, file.path)
        for kind in kinds:
            if len(actions := _present(batch.column(kind), file)):
                found[kind].append(actions)
        for stamp in batch.column("commitInfo").field("inCommitTimestamp").drop_null().to_pylist():
            info.setdefault("inCommitTimestamp", stamp)
    adds, removes = (_that_change(found[kind]) for kind in ("add", "remove"))
    return CommitChanges(version, times.of(version, info), adds, removes, found["cdc"], state)


def check_commits_are_there(times: CommitTimes, start: int, end: int, root: str) -> None:
    """Raises `VersionNotFoundError` if a commit of the range has been cleaned up."""
    if missing := [v for v in range(start, end + 1) if v not in times.listing.commits]:
        earliest = missing[-1] + 1 if missing[-1] < end else None
        known = "no later one of the range" if earliest is None else f"those from version {earliest} on"
        raise VersionNotFoundError(
            f"the changes of version {missing[0]} are gone: its commit file has been cleaned up; of the table's log "
            f"there are {known} [{root}]",
            version=missing[0],
            earliest=earliest,
            latest=end,
        )


def _present(column: pa.StructArray, file: FileStatus) -> pa.StructArray:
    kept = column.drop_null() if column.null_count else column
    if kept.field("path").null_count:
        raise CorruptTableError("a file action of the commit has no path", path=file.path)
    return kept


def _that_change(columns: list[pa.StructArray]) -> list[pa.StructArray]:
    """Drop actions that only rearrange rows or add information about them."""
    kept = (actions.filter(pc.coalesce(actions.field("dataChange"), TRUE)) for actions in columns)
    return [actions for actions in kept if len(actions)]
