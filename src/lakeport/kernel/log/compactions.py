"""Trust only compactions with at most one action per file, as the protocol demands.

With several, the newest is unknown because writers have used either order. Then the commits are read instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import DELETION_VECTOR
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log.keys import decode_paths, file_keys, present_actions
from lakeport.kernel.log.segment import Commit

_FILE = pa.struct([pa.field("path", pa.string()), pa.field("deletionVector", DELETION_VECTOR)])
_ONCE = ("protocol", "metaData")
_SCHEMA = pa.schema(
    [
        pa.field("add", _FILE),
        pa.field("remove", _FILE),
        *(pa.field(name, pa.struct([("id", pa.string())])) for name in _ONCE),
    ]
)


def commit_files(engine: Engine, root: str, commits: Iterable[Commit]) -> list[FileStatus]:
    """The files to replay for `commits`, in the same order (newest first). Raises `CorruptTableError` for an
    untrustworthy compaction whose commits are gone."""
    return [file for commit in commits for file in _files_of(engine, root, commit)]


def _files_of(engine: Engine, root: str, commit: Commit) -> Iterator[FileStatus]:
    if commit.first == commit.last or _is_reconciled(engine, root, commit.file):
        yield commit.file
    elif commit.replaced:
        yield from commit.replaced
    else:
        raise CorruptTableError(
            f"the compaction of versions {commit.first} to {commit.last} has several actions for one file, and the "
            "commits of these versions are gone; restore them",
            path=commit.file.path,
        )


def _is_reconciled(engine: Engine, root: str, file: FileStatus) -> bool:
    keys: list[pa.Array] = []
    counts = dict.fromkeys(_ONCE, 0)
    for batch in engine.json.read_json_files([file], _SCHEMA):
        for name in ("add", "remove"):
            actions = present_actions(batch.column(name), root)
            keys.append(file_keys(decode_paths(actions.field("path"), root), actions.field("deletionVector")))
        for name in _ONCE:
            counts[name] += batch.num_rows - batch.column(name).null_count
    touched = pa.chunked_array(keys, pa.string())
    return len(touched.unique()) == len(touched) and all(count <= 1 for count in counts.values())
