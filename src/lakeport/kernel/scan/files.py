"""`ScanFile` and `ScanState`: serialisable values with everything a worker needs to read part of a table. And the
conversion of physical to logical rows: partition columns, names, deletion vectors, row tracking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.actions import Add, Remove, to_action
from lakeport.kernel.data_files import (
    constant_column,
    decode_num_records,
    make_batch,
    partition_column,
    physical_field,
    to_logical,
)
from lakeport.kernel.deletion_vectors import DeletionVector, DeletionVectorDescriptor, read_deletion_vector
from lakeport.kernel.engine import ROW_INDEX, Engine, FileStatus
from lakeport.kernel.paths import encode_path, whole_path
from lakeport.kernel.schema import (
    ROW_COMMIT_VERSION,
    ROW_ID,
    ROW_POSITION,
    StructField,
    StructType,
    arrow_field,
    arrow_schema,
    parse_schema,
)
from lakeport.kernel.values import Portable, from_numpy, to_integers


@dataclass(frozen=True, slots=True)
class FilteredBatch:
    """A batch and its selection; None selects all rows."""

    data: pa.RecordBatch
    selection: pa.BooleanArray | None = None

    def selected(self) -> pa.RecordBatch:
        """The selected rows."""
        return self.data if self.selection is None else self.data.filter(self.selection)


class ScanFile(Portable, frozen=True, kw_only=True):
    """A data file to read, with its log entry."""

    path: str
    """Absolute and plain, as passed to storage."""
    size: int
    modification_time: int = 0
    partition_values: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Serialised, by physical name."""
    deletion_vector: DeletionVectorDescriptor | None = None
    stats: str | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    tags: dict[str, str | None] | None = None
    clustering_provider: str | None = None
    uri: str | None = None
    """The path as written in the log. These three are set only in scans with log details."""

    @property
    def status(self) -> FileStatus:
        return FileStatus(self.path, self.size, self.modification_time)

    @property
    def num_records(self) -> int | None:
        """The number of live rows in this file, if its statistics are known."""
        records = decode_num_records(self.stats)
        if records is None or self.deletion_vector is None:
            return records
        living = records - self.deletion_vector.cardinality
        return living if living >= 0 else None

    @property
    def vector_id(self) -> str:
        """Empty without a deletion vector."""
        return "" if self.deletion_vector is None else self.deletion_vector.unique_id

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the file in a version of the table."""
        return self.path, self.vector_id

    def to_add(self, root: str, *, data_change: bool) -> Add:
        """The action that adds the file to the table at `root`. Needs log details, as does `to_remove`."""
        return Add(
            **self._shared(root),
            modification_time=self.modification_time,
            data_change=data_change,
            stats=self.stats,
            clustering_provider=self.clustering_provider,
        )

    def to_remove(self, root: str, *, data_change: bool, timestamp: int) -> Remove:
        return Remove(
            **self._shared(root), data_change=data_change, deletion_timestamp=timestamp, extended_file_metadata=True
        )

    def _shared(self, root: str) -> dict[str, Any]:
        return {
            # Other readers compare paths byte by byte.
            "path": self.uri or encode_path(self.path.removeprefix(f"{root}/")),
            "partition_values": self.partition_values,
            "size": self.size,
            "tags": self.tags,
            "deletion_vector": self.deletion_vector,
            "base_row_id": self.base_row_id,
            "default_row_commit_version": self.default_row_commit_version,
        }


def scan_files_in(batch: FilteredBatch, root: str) -> Iterator[ScanFile]:
    """The files in a batch of `Scan.scan_files`. Raises `CorruptTableError` for an invalid deletion vector."""
    for row in batch.selected().to_pylist():
        vector = row["deletionVector"]
        yield ScanFile(
            path=whole_path(row["path"], root),
            size=row["size"] or 0,
            modification_time=row["modificationTime"] or 0,
            partition_values=row["partitionValues"] or {},
            deletion_vector=None if vector is None else to_action(vector, DeletionVectorDescriptor, root),
            stats=row.get("stats"),
            base_row_id=row.get("baseRowId"),
            default_row_commit_version=row.get("defaultRowCommitVersion"),
            tags=dict(row["tags"]) if row.get("tags") else None,
            clustering_provider=row.get("clusteringProvider"),
            uri=row.get("uri"),
        )


class ScanState(Portable, frozen=True, kw_only=True, dict=True):
    """The state shared by all files of a scan."""

    table_root: str
    schema_json: str
    """The logical schema to return, including column metadata."""
    partition_columns: tuple[str, ...]
    """Logical names of the partition columns in the schema."""
    mapping_mode: str = "none"
    row_id_column: str | None = None
    row_commit_version_column: str | None = None
    """Physical names of the materialised row tracking columns, for scans that request them."""
    with_row_tracking: bool = False
    with_row_position: bool = False

    @cached_property
    def schema(self) -> StructType:
        """The logical schema of the rows, including columns outside the table's schema."""
        tracking = (ROW_ID, ROW_COMMIT_VERSION) if self.with_row_tracking else ()
        position = (ROW_POSITION,) if self.with_row_position else ()
        return StructType((*self.table_schema.fields, *tracking, *position))

    @cached_property
    def table_schema(self) -> StructType:
        return parse_schema(self.schema_json)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.schema)

    @cached_property
    def data_fields(self) -> tuple[StructField, ...]:
        """The columns stored in the data files."""
        return tuple(f for f in self.table_schema if f.name not in self.partition_columns)

    @cached_property
    def arrow_data_fields(self) -> tuple[pa.Field, ...]:
        """The same columns as Arrow fields of the logical rows."""
        return tuple(map(arrow_field, self.data_fields))

    @cached_property
    def _physical_fields(self) -> tuple[pa.Field, ...]:
        return tuple(physical_field(f, self.mapping_mode) for f in self.data_fields)

    def physical_schema(self, file: ScanFile) -> pa.Schema:
        """The schema to read from a data file: pass it to the Parquet handler."""
        fields = list(self._physical_fields)
        if self.with_row_tracking:
            for name in (self.row_id_column, self.row_commit_version_column):
                fields += [pa.field(name, pa.int64())] if name else []
        if file.deletion_vector is not None or self.with_row_tracking or self.with_row_position:
            fields.append(ROW_INDEX)
        return pa.schema(fields)


def transform_physical_data(
    engine: Engine, state: ScanState, file: ScanFile, batches: Iterable[pa.RecordBatch]
) -> Iterator[FilteredBatch]:
    """Convert a file's rows to logical rows. `batches` are any part of `file`, read by the Parquet handler with
    `state.physical_schema(file)`. Raises `CorruptTableError` for a bad deletion vector."""
    vector = read_vector(engine, state.table_root, file.deletion_vector)
    for batch in batches:
        yield FilteredBatch(logical_batch(state, file, batch), living_rows(vector, batch))


def read_vector(engine: Engine, table_root: str, descriptor: DeletionVectorDescriptor | None) -> DeletionVector | None:
    return None if descriptor is None else read_deletion_vector(descriptor, table_root, engine.storage)


def living_rows(vector: DeletionVector | None, batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """The mask of undeleted rows in a physical batch; None means all of them."""
    if vector is None:
        return None
    living = vector.selection(to_integers(batch.column(ROW_INDEX.name)))
    return None if living.all() else from_numpy(living)


def logical_batch(state: ScanState, file: ScanFile, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a physical batch of the file to logical rows, including deleted ones."""
    arrays = {}
    physical = batch.schema
    for index, field in enumerate(state.arrow_data_fields):
        arrays[field.name] = to_logical(batch.column(index), physical.field(index), field)
    for field in state.table_schema:
        if field.name in state.partition_columns:
            arrays[field.name] = _partition_column(state, file, field, batch.num_rows)
    if state.with_row_tracking:
        arrays[ROW_ID.name] = _row_ids(state, file, batch)
        arrays[ROW_COMMIT_VERSION.name] = _row_commit_versions(state, file, batch)
    if state.with_row_position:
        arrays[ROW_POSITION.name] = batch.column(ROW_INDEX.name)
    schema = state.arrow_schema
    return make_batch([arrays[name] for name in schema.names], schema, batch.num_rows)


def _partition_column(state: ScanState, file: ScanFile, field: StructField, length: int) -> pa.Array:
    name = field.physical_name(state.mapping_mode)
    return partition_column(file.partition_values.get(name), field, length, path=file.path)


def _row_ids(state: ScanState, file: ScanFile, batch: pa.RecordBatch) -> pa.Array:
    if file.base_row_id is None:
        raise CorruptTableError("the file has no baseRowId, but the table tracks rows", path=file.path)
    default = from_numpy(to_integers(batch.column(ROW_INDEX.name)) + np.int64(file.base_row_id))
    return _materialised(batch, state.row_id_column, default)


def _row_commit_versions(state: ScanState, file: ScanFile, batch: pa.RecordBatch) -> pa.Array:
    default = constant_column(file.default_row_commit_version, pa.int64(), batch.num_rows)
    return _materialised(batch, state.row_commit_version_column, default)


def _materialised(batch: pa.RecordBatch, name: str | None, default: pa.Array) -> pa.Array:
    return default if name is None else pc.coalesce(batch.column(name), default)
