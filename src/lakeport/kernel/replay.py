"""Action reconciliation: from the files of a log segment to the files that are alive.

Newest first, the first action on a file decides: an add makes it live, a remove does not. The key of a file is its
path and its deletion vector. What the commits say is kept in memory as columns (`Tail`); a checkpoint is streamed,
less what the commits after it replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import DELETION_VECTOR, REMOVE
from lakeport.kernel.checkpoint import read_checkpoint_adds
from lakeport.kernel.columns import make_batch
from lakeport.kernel.engine import AS_STORED, Engine, FileStatus
from lakeport.kernel.log import Checkpoint, LogSegment
from lakeport.kernel.partitions import partition_struct
from lakeport.kernel.paths import ABSOLUTE, resolve_path
from lakeport.kernel.statistics import conform_parsed

_CACHE_LIMIT = 256 << 20
"""The files of a checkpoint are kept in memory up to this many bytes, so that a second scan need not read it again."""


@dataclass(frozen=True)
class FileColumns:
    """Which columns of the live files are wanted."""

    partitions: tuple[str, ...] = ()
    """Physical names of the partition columns."""
    stats: bool = False
    stats_parsed: pa.DataType | None = None
    """The part of a checkpoint's `stats_parsed` to read."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of batches of live files."""
        fields = [
            pa.field("path", pa.string()),
            pa.field("partitionValues", pa.struct([pa.field(name, pa.string()) for name in self.partitions])),
            pa.field("size", pa.int64()),
            pa.field("modificationTime", pa.int64()),
            pa.field("deletionVector", DELETION_VECTOR),
            pa.field("baseRowId", pa.int64()),
            pa.field("defaultRowCommitVersion", pa.int64()),
        ]
        fields += [pa.field("stats", pa.string())] if self.stats else []
        fields += [pa.field("stats_parsed", self.stats_parsed)] if self.stats_parsed is not None else []
        return pa.schema(fields)

    @property
    def json_add(self) -> pa.DataType:
        """The type of `add` in JSON, where partition values are an object."""
        dropped = {"stats_parsed"} if self.partitions else {"stats_parsed", "partitionValues"}
        return pa.struct([f for f in self.schema if f.name not in dropped])

    @property
    def parquet_add(self) -> pa.DataType:
        """The type of `add` in Parquet, where partition values are a map."""
        fields = []
        for field in self.schema:
            if field.name == "partitionValues":
                fields += [pa.field(field.name, pa.map_(pa.string(), pa.string()))] if self.partitions else []
            elif field.name == "stats_parsed":
                fields.append(field.with_metadata({AS_STORED: b"true"}))  # a bad statistic is an unknown one
            else:
                fields.append(field)
        return pa.struct(fields)


@dataclass(frozen=True)
class Tail:
    """What a run of commits says: the files that it adds and keeps, and the keys of all that it touches."""

    adds: tuple[pa.RecordBatch, ...]
    keys: pa.ChunkedArray

    def over(self, older: Tail) -> Tail:
        """This run of commits after an older one."""
        kept = tuple(batch for batch in map(self.mask, older.adds) if batch.num_rows)
        return Tail(self.adds + kept, pa.chunked_array([*self.keys.chunks, *older.keys.chunks], pa.string()))

    def mask(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """An older batch of files without those that this run replaces or removes."""
        if not len(self.keys):
            return batch
        replaced = pc.is_in(_keys(batch.column("path"), batch.column("deletionVector")), value_set=self.keys)
        return batch if not replaced.true_count else batch.filter(pc.invert(replaced))


class CheckpointFiles:
    """The files of a checkpoint, kept in memory if they are few."""

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
        for add in read_checkpoint_adds(self._engine, self.checkpoint, columns.json_add, columns.parquet_add):
            batch = _file_batch(add, columns, self._root)
            size += batch.nbytes
            if size <= _CACHE_LIMIT:
                kept.append(batch)
            else:
                kept.clear()
            yield batch
        if size <= _CACHE_LIMIT:
            self._cache = {columns: kept}


class FileReplay:
    """The live files of one version of a table, read when they are first asked for."""

    def __init__(
        self,
        engine: Engine,
        root: str,
        segment: LogSegment,
        partitions: tuple[str, ...],
        older: FileReplay | None = None,
    ) -> None:
        """`older` is the replay of an earlier version with the same partition columns: what it read is reused."""
        self._engine, self._root, self._segment = engine, root, segment
        self._partitions = partitions
        self._tail: Tail | None = None
        self._older = older if older is not None and older._tail is not None else None
        if older is not None and older._base is not None and older._base.checkpoint == segment.checkpoint:
            self._base: CheckpointFiles | None = older._base
        else:
            self._base = None if segment.checkpoint is None else CheckpointFiles(engine, root, segment.checkpoint)

    def batches(self, columns: FileColumns) -> Iterator[pa.RecordBatch]:
        """Batches of `columns.schema` with a row for each live file. Reads log files only."""
        tail = self.tail()
        for batch in tail.adds:
            yield _select(batch, columns.schema)
        if self._base is not None:
            yield from (batch for batch in map(tail.mask, self._base.batches(columns)) if batch.num_rows)

    def tail(self) -> Tail:
        if self._tail is None:
            known = self._older._segment.version if self._older else -1
            files = [c.file for c in reversed(self._segment.commits) if c.first > known]
            tail = read_tail(self._engine, self._root, files, FileColumns(self._partitions, stats=True))
            if self._older:
                tail = tail.over(self._older.tail())
            self._tail, self._older = tail, None
        return self._tail


def read_tail(engine: Engine, root: str, newest_first: list[FileStatus], columns: FileColumns) -> Tail:
    """Replays commits."""
    schema = pa.schema([pa.field("add", columns.json_add), REMOVE])
    batches: list[pa.RecordBatch] = []
    keys: list[pa.Array] = []  # of adds and of removes, by turns
    for batch in engine.json.read_json_files(newest_first, schema):
        adds = _present(batch.column("add"), newest_first)
        removes = _present(batch.column("remove"), newest_first)
        files = _file_batch(adds, columns, root)
        batches.append(_compact(files))
        keys.append(_keys(files.column("path"), files.column("deletionVector")))
        keys.append(_keys(_decode_paths(removes.field("path"), root), removes.field("deletionVector")))
    live = _first_occurrences(keys)
    kept = tuple(
        batch if mask.all() else batch.filter(pa.array(mask))
        for batch, mask in zip(batches, live[::2], strict=True)
        if mask.any()
    )
    return Tail(kept, pa.chunked_array([k for k in keys if len(k)], pa.string()))


def _present(column: pa.StructArray, files: list[FileStatus]) -> pa.StructArray:
    kept = column.drop_null() if column.null_count else column
    if kept.field("path").null_count:
        raise CorruptTableError("a file action has no path", path=files[0].path.rpartition("/")[0])
    return kept


def _first_occurrences(keys: list[pa.Array]) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """For each key, whether it is the first of its kind. Only keys whose hashes coincide are compared."""
    lengths = [len(part) for part in keys]
    hashes = np.empty(sum(lengths), dtype=np.int64)
    start = 0
    for part in keys:
        hashes[start : start + len(part)] = np.fromiter(map(hash, part.to_pylist()), np.int64, len(part))
        start += len(part)
    first = np.ones(len(hashes), dtype=np.bool_)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        flat = pa.chunked_array(keys, pa.string())
        candidates = np.flatnonzero(np.isin(hashes, repeated))
        seen: set[str] = set()
        for row, key in zip(candidates.tolist(), flat.take(pa.array(candidates)).to_pylist(), strict=True):
            first[row] = key not in seen
            seen.add(key)
    return np.split(first, np.cumsum(lengths)[:-1]) if lengths else []


def _file_batch(add: pa.StructArray, columns: FileColumns, root: str) -> pa.RecordBatch:
    """A batch of `columns.schema` from a column of adds."""
    schema = columns.schema
    arrays: list[pa.Array] = []
    names = [f.name for f in add.type]
    for field in schema:
        if field.name not in names:
            arrays.append(
                _no_partitions(len(add)) if field.name == "partitionValues" else pa.nulls(len(add), field.type)
            )
            continue
        array = add.field(field.name)
        if field.name == "path":
            array = _decode_paths(array, root)
        elif field.name == "partitionValues" and pa.types.is_map(array.type):
            array = partition_struct(array, list(columns.partitions))
        elif field.name == "stats_parsed":
            array = conform_parsed(array, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _no_partitions(length: int) -> pa.StructArray:
    return pa.Array.from_buffers(pa.struct([]), length, [None])


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with columns that are all null in no memory at all; `_select` restores their type."""
    arrays = [pa.nulls(len(c)) if len(c) and c.null_count == len(c) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _select(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        array = batch.column(index) if index >= 0 else None
        if array is None or (pa.types.is_null(array.type) and not pa.types.is_null(field.type)):
            array = pa.nulls(len(batch), field.type)
        arrays.append(array)
    return make_batch(arrays, schema, len(batch))


def _keys(paths: pa.Array, deletion_vectors: pa.Array) -> pa.Array:
    """The key of each file: its path and, behind a NUL, the unique id of its deletion vector."""
    if deletion_vectors.null_count == len(deletion_vectors):
        return paths
    offsets = pc.binary_join_element_wise("@", deletion_vectors.field("offset").cast(pa.string()), "")
    unique_ids = pc.binary_join_element_wise(
        deletion_vectors.field("storageType"), deletion_vectors.field("pathOrInlineDv"), pc.coalesce(offsets, ""), ""
    )
    with_vector = pc.binary_join_element_wise(paths, unique_ids, "\0")
    return pc.if_else(deletion_vectors.is_valid(), pc.coalesce(with_vector, paths), paths)


def _decode_paths(paths: pa.Array, root: str) -> pa.Array:
    """Paths as plain text: absolute, or relative to the table's root. Most need no decoding, and cost nothing."""
    encoded = pc.match_substring_regex(paths, f"%|{ABSOLUTE.pattern}")
    if not encoded.true_count:
        return paths
    decoded = [_plain_path(path, root) for path in paths.filter(encoded).to_pylist()]
    return pc.replace_with_mask(paths, encoded, pa.scalar(decoded, pa.list_(pa.string())).values)


def _plain_path(path: str, root: str) -> str:
    whole = resolve_path(root, path)
    relative = whole.removeprefix(f"{root}/")
    return whole if ABSOLUTE.match(relative) else relative
