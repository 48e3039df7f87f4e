"""Files in a log: their keys (decoded path and deletion vector), the types of their columns, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import DELETION_VECTOR, TEXT_MAP
from lakeport.kernel.data_files import compact_partitions, conform_parsed, partition_struct
from lakeport.kernel.engine import AS_STORED
from lakeport.kernel.log.segment import log_path
from lakeport.kernel.paths import ABSOLUTE, resolve_path
from lakeport.kernel.values import array_of, from_numpy, own_copy, scalar_of

_AT, _EMPTY, _NUL = (scalar_of(text, pa.string()) for text in ("@", "", "\0"))
_LOG_DETAILS = [pa.field("tags", TEXT_MAP), pa.field("clusteringProvider", pa.string()), pa.field("uri", pa.string())]
_DATA_CHANGE = pa.field("dataChange", pa.bool_())


def present_actions(column: pa.StructArray, root: str) -> pa.StructArray:
    """The actions in a column of log lines. Raises `CorruptTableError` for a file action without a path."""
    kept = column.drop_null() if column.null_count else column
    if kept.type.get_field_index("path") >= 0 and kept.field("path").null_count:
        raise CorruptTableError("a file action in the log has no path", path=log_path(root))
    return kept


def file_keys(paths: pa.Array, deletion_vectors: pa.Array) -> pa.Array:
    """The key of each file: its path and, after a NUL, the unique id of its deletion vector."""
    if deletion_vectors.null_count == len(deletion_vectors):
        return paths
    offsets = pc.binary_join_element_wise(_AT, deletion_vectors.field("offset").cast(pa.string()), _EMPTY)
    unique_ids = pc.binary_join_element_wise(
        deletion_vectors.field("storageType"),
        deletion_vectors.field("pathOrInlineDv"),
        pc.coalesce(offsets, _EMPTY),
        _EMPTY,
    )
    with_vector = pc.binary_join_element_wise(paths, unique_ids, _NUL)
    return pc.if_else(deletion_vectors.is_valid(), pc.coalesce(with_vector, paths), paths)


def keys_of(actions: pa.StructArray, root: str) -> pa.Array:
    """The keys of file actions."""
    return file_keys(decode_paths(actions.field("path"), root), actions.field("deletionVector"))


def decode_paths(paths: pa.Array, root: str) -> pa.Array:
    """Paths as plain text: absolute, or relative to the table's root. Free for the many that need no decoding."""
    text = paths.buffers()[2]
    plain = text is None or not any(sign in text.to_pybytes() for sign in (b"%", b":"))
    if plain and not pc.starts_with(paths, "/").true_count:
        return paths
    encoded = pc.match_substring_regex(paths, f"%|{ABSOLUTE.pattern}")
    decoded = [_plain_path(path, root) for path in paths.filter(encoded).to_pylist()]
    return pc.replace_with_mask(paths, encoded, array_of(decoded, pa.string()))


def _plain_path(path: str, root: str) -> str:
    whole = resolve_path(root, path)
    relative = whole.removeprefix(f"{root}/")
    return whole if ABSOLUTE.match(relative) else relative


def first_occurrences(
    keys: list[pa.Array], files: list[npt.NDArray[np.int64]]
) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """For each key, whether it is the first occurrence, file by file. Compares only keys with equal hashes."""
    lengths = [len(part) for part in keys]
    hashes = np.empty(sum(lengths), dtype=np.int32)  # half a hash saves memory, and collisions are rare
    start = 0
    for part in keys:
        whole = np.fromiter(map(hash, part.to_pylist()), np.int64, len(part))
        hashes[start : start + len(part)] = whole.astype(np.int32)
        start += len(part)
    first = np.ones(len(hashes), dtype=np.bool_)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        flat = pa.chunked_array(keys, pa.string())
        candidates = np.flatnonzero(np.isin(hashes, repeated))
        candidates = candidates[np.argsort(np.concatenate(files)[candidates], kind="stable")]
        seen: set[str] = set()
        for row, key in zip(candidates.tolist(), flat.take(from_numpy(candidates)).to_pylist(), strict=True):
            first[row] = key not in seen
            seen.add(key)
    return np.split(first, np.cumsum(lengths)[:-1]) if lengths else []


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
                fields.append(pa.field(field.name, TEXT_MAP))
            elif field.name == "stats_parsed":
                fields.append(field.with_metadata({AS_STORED: b"true"}))  # a bad statistic is unknown
            else:
                fields.append(field)
        return pa.struct(fields)

    @cached_property
    def commit_type(self) -> pa.DataType:
        """The type of file actions to request from a commit: with `dataChange`, and statistics only as text."""
        return pa.struct([*(f for f in self.add_type if f.name != "stats_parsed"), _DATA_CHANGE])


def compact_adds(add: pa.StructArray, root: str) -> pa.RecordBatch:
    """Compact a column of adds into a small batch: all-null columns take no memory, repeated partition values are
    stored once. Undone by `file_batch`."""
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
    return file_batch(_decoded(pa.RecordBatch.from_struct_array(actions), root), columns)


def file_batch(files: pa.RecordBatch, columns: FileColumns) -> pa.RecordBatch:
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
