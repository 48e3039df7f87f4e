"""The columns of file actions: their types in the log, and batches of files made from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakeport.kernel.actions import DELETION_VECTOR, TEXT_MAP
from lakeport.kernel.data_files import compact_partitions, conform_parsed, partition_struct
from lakeport.kernel.engine import AS_STORED
from lakeport.kernel.log.keys import decode_paths
from lakeport.kernel.values import own_copy

_LOG_DETAILS = [pa.field("tags", TEXT_MAP), pa.field("clusteringProvider", pa.string()), pa.field("uri", pa.string())]
_DATA_CHANGE = pa.field("dataChange", pa.bool_())


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
