"""`ChangeFile` and `ChangeState`: serialisable values with everything a worker needs to read changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakeport.kernel.data_files import constant_column, make_batch
from lakeport.kernel.deletion_vectors import DeletionVector, DeletionVectorDescriptor
from lakeport.kernel.engine import ROW_INDEX, Engine, FileStatus
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.scan import FilteredBatch, ScanFile, ScanState, living_rows, logical_batch, read_vector
from lakeport.kernel.schema import CHANGE_COLUMNS, CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, arrow_field
from lakeport.kernel.values import Portable, from_numpy, scalar_of, to_integers

INSERT, DELETE = "insert", "delete"

_STORED_CHANGE_TYPE = pa.field(CHANGE_TYPE.name, pa.string(), nullable=False)
"""The column in cdc files; its name is the same in every column mapping mode."""


class ChangeFile(Portable, frozen=True, kw_only=True):
    """A file of rows that a commit changed."""

    file: ScanFile
    change_type: str | None
    """The change type of all its rows; None for a cdc file, which stores it per row."""
    commit_version: int
    commit_timestamp: int
    """Milliseconds since the epoch."""
    deleted_in: DeletionVectorDescriptor | None = None
    """Set if the commit replaced the file's deletion vector: the changes are the rows deleted by this vector but not by
    the file's own."""

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def status(self) -> FileStatus:
        return self.file.status

    @property
    def num_records(self) -> int | None:
        """The number of changes in the file, if its statistics are known."""
        return self.file.num_records if self.deleted_in is None else None


def paths_of(file: ScanFile | ChangeFile) -> Iterator[str]:
    """Absolute paths of the data file and its deletion vector files."""
    scanned = file.file if isinstance(file, ChangeFile) else file
    yield scanned.path
    for vector in (scanned.deletion_vector, file.deleted_in if isinstance(file, ChangeFile) else None):
        if vector is not None and vector.storage_type == "p":
            yield resolve_path("", vector.path_or_inline_dv)


class ChangeState(Portable, frozen=True, kw_only=True, dict=True):
    """The state shared by all change files of a read."""

    table: ScanState
    """How to read the table's columns."""
    change_columns: tuple[str, ...] = CHANGE_COLUMNS.names
    """The subset of `CHANGE_COLUMNS` to return, after the table's columns."""

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        extra = [arrow_field(f) for f in CHANGE_COLUMNS if f.name in self.change_columns]
        return pa.schema([*self.table.arrow_schema, *extra])

    def physical_schema(self, change: ChangeFile) -> pa.Schema:
        """The schema to read from a change file: pass it to the Parquet handler."""
        fields = list(self.table.physical_schema(change.file))
        if change.deleted_in is not None and change.file.deletion_vector is None:
            fields.append(ROW_INDEX)
        if self._reads_change_type(change):
            fields.append(_STORED_CHANGE_TYPE)
        return pa.schema(fields)

    def complete(self, change: ChangeFile, rows: pa.RecordBatch, physical: pa.RecordBatch) -> pa.RecordBatch:
        """Add the change columns to the table's rows; `physical` holds the source rows."""
        columns: dict[str, pa.Array] = dict(zip(rows.schema.names, rows.columns, strict=True))
        length = rows.num_rows
        if self._reads_change_type(change):
            columns[CHANGE_TYPE.name] = physical.column(CHANGE_TYPE.name)
        else:
            columns[CHANGE_TYPE.name] = constant_column(change.change_type, pa.string(), length)
        columns[COMMIT_VERSION.name] = constant_column(change.commit_version, pa.int64(), length)
        columns[COMMIT_TIMESTAMP.name] = timestamps(change.commit_timestamp, length)
        return make_batch([columns[name] for name in self.arrow_schema.names], self.arrow_schema, length)

    def _reads_change_type(self, change: ChangeFile) -> bool:
        return change.change_type is None and CHANGE_TYPE.name in self.change_columns


def timestamps(milliseconds: int, length: int) -> pa.Array:
    """A column that repeats one commit time."""
    return pa.repeat(scalar_of(milliseconds * 1000, pa.int64()), length).view(pa.timestamp("us", "UTC"))


def transform_change_data(
    engine: Engine, state: ChangeState, change: ChangeFile, batches: Iterable[pa.RecordBatch]
) -> Iterator[FilteredBatch]:
    """The changes in a file. `batches` come from the Parquet handler, read with `state.physical_schema(change)`; they
    are not consumed if the file has no changes. Raises `CorruptTableError` for a bad deletion vector."""
    file, root = change.file, state.table.table_root
    own = read_vector(engine, root, file.deletion_vector)
    changed = None if change.deleted_in is None else _difference(read_vector(engine, root, change.deleted_in), own)
    if changed is not None and not changed.cardinality:
        return
    for physical in batches:
        selection = living_rows(own, physical) if changed is None else _deleted_rows(changed, physical)
        rows = logical_batch(state.table, file, physical)
        yield FilteredBatch(state.complete(change, rows, physical), selection)


def _difference(vector: DeletionVector | None, less: DeletionVector | None) -> DeletionVector | None:
    if vector is None or less is None:
        return vector
    return DeletionVector(np.setdiff1d(vector.positions, less.positions, assume_unique=True))


def _deleted_rows(vector: DeletionVector, batch: pa.RecordBatch) -> pa.BooleanArray:
    return from_numpy(~vector.selection(to_integers(batch.column(ROW_INDEX.name))))
