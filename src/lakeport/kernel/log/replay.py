"""Action reconciliation: from a log segment to its live files.

Reading newest first, the first action on a file wins: an add makes it live, a remove does not. A file's key is its
path and deletion vector. Commits are kept in memory as columns (`Commits`); a checkpoint is streamed, without the
files that later commits replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.actions import DELETION_VECTOR, REMOVE, Metadata, Protocol
from lakeport.kernel.data_files import compact_partitions, conform_parsed, partition_struct
from lakeport.kernel.engine import AS_STORED, Engine, FileStatus
from lakeport.kernel.lazy import lazy_property
from lakeport.kernel.log.checkpoint import read_checkpoint_adds
from lakeport.kernel.log.compactions import commit_files
from lakeport.kernel.log.keys import decode_paths, file_keys, first_occurrences, present_actions
from lakeport.kernel.log.segment import Checkpoint, LogSegment
from lakeport.kernel.log.state import STATE_FIELDS, TableState, read_checkpoint_state
from lakeport.kernel.values import from_numpy, own_copy

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_LOG_DETAILS = [pa.field("tags", _TEXT_MAP), pa.field("clusteringProvider", pa.string()), pa.field("uri", pa.string())]
_CACHE_LIMIT = 256 << 20
"""Checkpoint files are cached in memory up to this many bytes, so that a second scan need not reread them."""


@dataclass(frozen=True)
class FileColumns:
    """The columns of live files to read."""

    partitions: tuple[str, ...] = ()
    """Physical names of the partition columns."""
    row_tracking: bool = False
    stats: bool = False
    stats_parsed: pa.DataType | None = None
    """The part of a checkpoint's `stats_parsed` to read."""
    log_details: bool = False
    """Include fields that only writers need: tags, clustering provider, and `uri`, the path as written in the log."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of batches of live files."""
        fields = [
            pa.field("path", pa.string()),
            pa.field("partitionValues", pa.struct([pa.field(name, pa.string()) for name in self.partitions])),
            pa.field("size", pa.int64()),
            pa.field("modificationTime", pa.int64()),
            pa.field("deletionVector", DELETION_VECTOR),
        ]
        if self.row_tracking:
            fields += [pa.field("baseRowId", pa.int64()), pa.field("defaultRowCommitVersion", pa.int64())]
        fields += [pa.field("stats", pa.string())] if self.stats else []
        fields += [pa.field("stats_parsed", self.stats_parsed)] if self.stats_parsed is not None else []
        return pa.schema(fields + (_LOG_DETAILS if self.log_details else []))

    @property
    def add_type(self) -> pa.DataType:
        """The type of `add` to request from an engine."""
        fields = []
        for field in self.schema:
            if field.name == "uri":
                continue
            if field.name == "partitionValues":
                fields.append(pa.field(field.name, _TEXT_MAP))
            elif field.name == "stats_parsed":
                fields.append(field.with_metadata({AS_STORED: b"true"}))  # a bad statistic is unknown
            else:
                fields.append(field)
        return pa.struct(fields)


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
        """The protocol and metadata. Reads the checkpoint only if the commits lack either."""
        state = self.commits.state
        return (state if state.protocol and state.metadata else self.state).require(self._root)

    def live_files(self, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Batches of `columns.schema`, one row per live file. Reads log files only."""
        for batch in self.commits.adds:
            yield _file_batch(batch, columns)
        if self._base is not None:
            yield from (batch for batch in map(self.commits.mask, self._base.batches(columns)) if batch.num_rows)


def read_commits(engine: Engine, root: str, newest_first: list[FileStatus]) -> Commits:
    """Replay commit files in one pass."""
    add = FileColumns(row_tracking=True, stats=True, log_details=True).add_type
    schema = pa.schema([pa.field("add", add), REMOVE, *STATE_FIELDS])
    state = TableState()
    batches: list[pa.RecordBatch] = []
    keys: list[pa.Array] = []  # adds and removes alternate
    for batch in engine.json.read_json_files(newest_first, schema):
        state.add_older(batch, newest_first[0].path)
        adds, removes = (present_actions(batch.column(name), root) for name in ("add", "remove"))
        batches.append(_compact(adds, root))
        keys.append(file_keys(batches[-1].column("path"), adds.field("deletionVector")))
        keys.append(file_keys(decode_paths(removes.field("path"), root), removes.field("deletionVector")))
    live = first_occurrences(keys)
    kept = tuple(
        batch if mask.all() else batch.filter(from_numpy(mask))
        for batch, mask in zip(batches, live[::2], strict=True)
        if mask.any()
    )
    return Commits(kept, pa.chunked_array([k for k in keys if len(k)], pa.string()), state)


def _compact(add: pa.StructArray, root: str) -> pa.RecordBatch:
    """Compact a column of adds into a small batch: all-null columns take no memory, repeated partition values are
    stored once. Undone by `_file_batch`."""
    arrays = []
    files = _decoded(pa.RecordBatch.from_struct_array(add), root)
    for field, array in zip(files.schema, files.columns, strict=True):
        if len(array) and array.null_count == len(array):
            array = pa.nulls(len(array))
        elif field.name == "partitionValues":
            array = compact_partitions(array)
        else:
            array = own_copy(array)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=files.schema.names)


def _decoded(files: pa.RecordBatch, root: str) -> pa.RecordBatch:
    """Decode the paths of adds; if any needed decoding, keep the original paths as `uri`."""
    uris = files.column("path")
    paths = decode_paths(uris, root)
    return files if paths is uris else files.set_column(0, "path", paths).append_column("uri", uris)


def to_file_batch(actions: pa.StructArray, columns: FileColumns, root: str) -> pa.RecordBatch:
    """Convert actions read as (a part of) `columns.add_type` to a batch of `columns.schema`."""
    return _file_batch(_decoded(pa.RecordBatch.from_struct_array(actions), root), columns)


def _file_batch(files: pa.RecordBatch, columns: FileColumns) -> pa.RecordBatch:
    """Convert columns of adds, from JSON or Parquet, to a batch of `columns.schema`."""
    schema = columns.schema
    arrays: list[pa.Array] = []
    for field in schema:
        index = files.schema.get_field_index(field.name)
        array = files.column(index) if index >= 0 else None
        if field.name == "partitionValues":
            array = partition_struct(array, columns.partitions, len(files))
        elif field.name == "uri" and array is None:
            array = files.column("path")
        elif array is None or (pa.types.is_null(array.type) and not pa.types.is_null(field.type)):
            array = pa.nulls(len(files), field.type)
        elif field.name == "stats_parsed":
            array = conform_parsed(array, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
