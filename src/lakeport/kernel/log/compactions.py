"""Trust only compactions with at most one action per file, as the protocol demands.

With several, the newest is unknown because writers have used either order. Then the commits are read instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import REMOVE
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log.commits import read_batches
from lakeport.kernel.log.keys import keys_of
from lakeport.kernel.log.segment import Commit

_ONCE = ("protocol", "metaData")
_FIELDS = [
    pa.field("add", REMOVE.type),
    REMOVE,
    *(pa.field(name, pa.struct([("id", pa.string())])) for name in _ONCE),
]


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
    for found in read_batches(engine, root, [file], _FIELDS):
        keys += [keys_of(found[name], root) for name in ("add", "remove")]
        for name in _ONCE:
            counts[name] += len(found[name])
    touched = pa.chunked_array(keys, pa.string())
    return len(touched.unique()) == len(touched) and all(count <= 1 for count in counts.values())
