"""Convert physical to logical rows: partition columns, names, deletion vectors, row tracking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.data_files import constant_column, make_batch, partition_column, to_logical
from lakeport.kernel.deletion_vectors import DeletionVector, DeletionVectorDescriptor, read_deletion_vector
from lakeport.kernel.engine import ROW_INDEX, Engine
from lakeport.kernel.scan.files import FilteredBatch, ScanFile, ScanState
from lakeport.kernel.schema import ROW_COMMIT_VERSION, ROW_ID, ROW_POSITION, StructField
from lakeport.kernel.values import from_numpy, to_integers


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
