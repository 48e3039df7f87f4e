"""Action reconciliation: from a log segment to its live files.

Reading newest first, the first action on a file wins: an add makes it live, a remove does not. A file's key is its
path and deletion vector. Commits are kept in memory as columns (`Commits`); a checkpoint is streamed, without the
files that later commits replace. Checkpoints may be classic, multi-part or V2 (JSON or Parquet, with or without
sidecars); their content shows which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import REMOVE, SIDECAR, STATE_FIELDS, Metadata, Protocol, TableState
from lakeport.kernel.engine import Engine, FileSplit, FileStatus
from lakeport.kernel.lazy import lazy_property
from lakeport.kernel.log.checksum import Checksum, read_checksum
from lakeport.kernel.log.commits import read_batches
from lakeport.kernel.log.files import (
    FileColumns,
    compact_adds,
    file_batch,
    file_keys,
    first_occurrences,
    keys_of,
    to_file_batch,
)
from lakeport.kernel.log.segment import Checkpoint, Commit, LogSegment
from lakeport.kernel.paths import is_within, resolve_path
from lakeport.kernel.values import from_numpy

_CACHE_LIMIT = 256 << 20
"""Checkpoint files are cached in memory up to this many bytes, so that a second scan need not reread them."""
_ONCE = ("protocol", "metaData")
_COMPACTED_FIELDS = [
    pa.field("add", REMOVE.type),
    REMOVE,
    *(pa.field(name, pa.struct([("id", pa.string())])) for name in _ONCE),
]


@dataclass(frozen=True)
class Commits:
    """The result of a run of commits: live files that it added, keys of all files that it touched, other actions."""

    adds: tuple[pa.RecordBatch, ...]
    keys: pa.ChunkedArray
    state: TableState

    def over(self, older: Commits) -> Commits:
        """Combine this run with an older one."""
        kept = tuple(batch for batch in map(self.mask, older.adds) if batch.num_rows)
        keys = pa.chunked_array([*self.keys.chunks, *older.keys.chunks], pa.string())
        return Commits(self.adds + kept, keys, self.state.over(older.state))

    def mask(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop files from an older batch that this run replaces or removes."""
        if not len(self.keys):
            return batch
        replaced = pc.is_in(file_keys(batch.column("path"), batch.column("deletionVector")), value_set=self.keys)
        return batch if not replaced.true_count else batch.filter(pc.invert(replaced))


class CheckpointFiles:
    """The files of a checkpoint, cached if small enough."""

    def __init__(self, engine: Engine, root: str, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._engine, self._root = engine, root
        self._cache: dict[FileColumns, list[pa.RecordBatch]] = {}

    def batches(self, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        if (cached := self._cache.get(columns)) is not None:
            yield from cached
            return
        kept: list[pa.RecordBatch] = []
        size = 0
        for add in read_checkpoint_adds(self._engine, self.checkpoint, columns.add_type):
            batch = to_file_batch(add, columns, self._root)
            size += batch.nbytes
            if size <= _CACHE_LIMIT:
                kept.append(batch)
            else:
                kept.clear()
            yield batch
        if size <= _CACHE_LIMIT:
            self._cache = {columns: kept}


class LogReplay:
    """A log segment whose files are read lazily, once each."""

    def __init__(self, engine: Engine, root: str, segment: LogSegment, older: LogReplay | None = None) -> None:
        """`older` is the replay of an earlier version, whose results are reused."""
        self.segment = segment
        self._engine, self._root, self._older = engine, root, older
        if older is not None and older._base is not None and older._base.checkpoint == segment.checkpoint:
            self._base: CheckpointFiles | None = older._base
        else:
            self._base = None if segment.checkpoint is None else CheckpointFiles(engine, root, segment.checkpoint)

    @lazy_property
    def checksum(self) -> Checksum | None:
        """The content of the version's checksum file; None if it was not listed."""
        file = self.segment.checksum
        return None if file is None else read_checksum(self._engine, file.path)

    @lazy_property
    def new_commits(self) -> Commits:
        """The commits since the older replay; all of them without one."""
        known = self._older.segment.version if self._older else -1
        commits = [commit for commit in reversed(self.segment.commits) if commit.first > known]
        return read_commits(self._engine, self._root, commit_files(self._engine, self._root, commits))

    @lazy_property
    def commits(self) -> Commits:
        """All commits of the segment. Reuses the combined commits of older replays, which other threads may be using
        concurrently."""
        merged, older = self.new_commits, self._older
        while older is not None:  # a loop, not recursion: a snapshot can be refreshed any number of times
            before = older._older  # read first: it is cleared only once `commits` is set
            known: Commits | None = older.__dict__.get("commits")
            merged = merged.over(older.new_commits if known is None else known)
            older = before if known is None else None
        self.__dict__["commits"] = merged
        self._older = None
        return merged

    @lazy_property
    def state(self) -> TableState:
        """The newest action of each kind in the whole segment."""
        if self.segment.checkpoint is None:
            return self.commits.state
        return self.commits.state.over(read_checkpoint_state(self._engine, self.segment.checkpoint))

    def protocol_and_metadata(self) -> tuple[Protocol, Metadata]:
        """The protocol and metadata: from the checksum if there is one. Otherwise reads the checkpoint only if the
        commits lack either."""
        if self.checksum is not None:
            return self.checksum.protocol, self.checksum.metadata
        state = self.commits.state
        return (state if state.protocol and state.metadata else self.state).require(self._root)

    def live_files(self, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Batches of `columns.schema`, one row per live file. Reads log files only."""
        for batch in self.commits.adds:
            yield file_batch(batch, columns)
        if self._base is not None:
            yield from (batch for batch in map(self.commits.mask, self._base.batches(columns)) if batch.num_rows)


def read_commits(engine: Engine, root: str, newest_first: list[FileStatus]) -> Commits:
    """Replay commit files in one pass."""
    add = pa.field("add", FileColumns(row_tracking=True, stats=True, log_details=True).add_type)
    state = TableState()
    batches: list[pa.RecordBatch] = []
    keys: list[pa.Array] = []  # adds and removes alternate
    files: list[npt.NDArray[np.int64]] = []
    for found in read_batches(engine, root, newest_first, [add, REMOVE], state):
        batches.append(compact_adds(found["add"], root))
        keys.append(file_keys(batches[-1].column("path"), found["add"].field("deletionVector")))
        keys.append(keys_of(found["remove"], root))
        files += [found.files["add"], found.files["remove"]]
    live = first_occurrences(keys, files)
    kept = tuple(
        batch if mask.all() else batch.filter(from_numpy(mask))
        for batch, mask in zip(batches, live[::2], strict=True)
        if mask.any()
    )
    return Commits(kept, pa.chunked_array([k for k in keys if len(k)], pa.string()), state)


def commit_files(engine: Engine, root: str, commits: Iterable[Commit]) -> list[FileStatus]:
    """The files to replay for `commits`, in the same order (newest first). Raises `CorruptTableError` for an
    untrustworthy compaction whose commits are gone.

    The protocol demands at most one action per file in a compaction. With several, the newest is unknown because
    writers have used either order: then the commits are read instead."""
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
    for found in read_batches(engine, root, [file], _COMPACTED_FIELDS):
        keys += [keys_of(found[name], root) for name in ("add", "remove")]
        for name in _ONCE:
            counts[name] += len(found[name])
    touched = pa.chunked_array(keys, pa.string())
    return len(touched.unique()) == len(touched) and all(count <= 1 for count in counts.values())


def read_checkpoint_state(engine: Engine, checkpoint: Checkpoint) -> TableState:
    """The newest action of each kind but file actions, from the checkpoint itself."""
    state = TableState()
    for batch in _read(engine, checkpoint.files, pa.schema(STATE_FIELDS)):
        state.add_older(batch, checkpoint.files)
    return state


def read_checkpoint_adds(engine: Engine, checkpoint: Checkpoint, add_type: pa.DataType) -> Iterator[pa.StructArray]:
    """The live files at the checkpoint, including those in sidecars."""
    return (add for (add,) in read_checkpoint_files(engine, checkpoint, [pa.field("add", add_type)]))


def read_checkpoint_files(
    engine: Engine, checkpoint: Checkpoint, fields: Sequence[pa.Field], batch_size: int | None = None
) -> Iterator[list[pa.StructArray]]:
    """The checkpoint's file actions, including those in sidecars: lists of one array per kind in `fields`."""
    sidecars: dict[str, FileStatus] = {}  # by path, so duplicates are read once
    for batch in _read(engine, checkpoint.files, pa.schema([*fields, SIDECAR]), batch_size):
        yield [_present(batch.column(field.name), checkpoint) for field in fields]
        sidecars |= {sidecar.path: sidecar for sidecar in _sidecars(batch, checkpoint)}
    for batch in _read(engine, list(sidecars.values()), pa.schema(fields), batch_size):
        yield [_present(batch.column(field.name), checkpoint) for field in fields]


def read_sidecars(engine: Engine, checkpoint: Checkpoint) -> list[FileStatus]:
    """The sidecars referenced by the checkpoint."""
    batches = _read(engine, checkpoint.files, pa.schema([SIDECAR]))
    return [sidecar for batch in batches for sidecar in _sidecars(batch, checkpoint)]


def _sidecars(batch: pa.RecordBatch, checkpoint: Checkpoint) -> Iterator[FileStatus]:
    """Raises `CorruptTableError` for a sidecar outside the table's `_sidecars`, where the protocol puts them."""
    directory = f"{checkpoint.files[0].path.rpartition('/')[0]}/_sidecars"
    for row in _present(batch.column("sidecar"), checkpoint).to_pylist():
        path = resolve_path(directory, row["path"])
        if not is_within(path, directory):
            raise CorruptTableError(
                f"the checkpoint names a sidecar outside the table's {directory!r}: {path!r}; it is not read. "
                "Remove the checkpoint if all commits are still there, or restore it from a backup",
                path=checkpoint.files[0].path,
            )
        yield FileStatus(path, row["sizeInBytes"] or 0, row["modificationTime"] or 0)


def _present(column: pa.StructArray, checkpoint: Checkpoint) -> pa.StructArray:
    """The rows that are actions of this kind. (Some writers fill every kind with a struct of nulls.)

    Raises `CorruptTableError` for an action without a path."""
    kept = column.drop_null() if column.null_count else column
    pathless = kept.field("path").is_null()
    if not pathless.true_count:
        return kept
    rest = kept.filter(pathless)
    if any(pa.types.is_integer(f.type) and rest.field(f.name).null_count < len(rest) for f in rest.type):
        raise CorruptTableError("a file action in the checkpoint has no path", path=checkpoint.files[0].path)
    return kept.filter(pc.invert(pathless))


def _read(
    engine: Engine, files: Sequence[FileStatus], schema: pa.Schema, batch_size: int | None = None
) -> Iterator[pa.RecordBatch]:
    for is_json, group in groupby(files, lambda file: file.path.endswith(".json")):
        if is_json:
            yield from engine.json.read_json_files(list(group), _without_parsed_statistics(schema))
        else:
            yield from engine.parquet.read_parquet_files(map(FileSplit, group), schema, batch_size=batch_size)


def _without_parsed_statistics(schema: pa.Schema) -> pa.Schema:
    """JSON holds statistics as text only."""
    fields = []
    for field in schema:
        if field.name == "add":
            field = field.with_type(pa.struct([inner for inner in field.type if inner.name != "stats_parsed"]))
        fields.append(field)
    return pa.schema(fields)
