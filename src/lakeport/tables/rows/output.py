"""Write new, updated and copied rows into files: fit, check, write, and record them in the change data feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import constant_column
from lakeport.kernel.deletion_vectors import DeletionVector
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import CHANGE_TYPE, ROW_COMMIT_VERSION, ROW_ID, ROW_POSITION
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.kernel.write import PhysicalBatch, RowName, RowNames, RowTransformer, WriteContext, format_row
from lakeport.tables.operation import discard, paths_of
from lakeport.workers.writing import DataWriter

Positions = npt.NDArray[np.uint64]
"""Row positions in a file, strictly ascending."""


@dataclass(frozen=True, eq=False)
class Updated:
    """Rows before and after an update, one to one. `after` has the table's columns except those to be filled in; if the
    table tracks rows, both have `_row_id`."""

    before: pa.RecordBatch
    after: pa.RecordBatch
    name_row: RowNames | None = None
    """Names for the rows in messages; by default, their old values."""


@dataclass(frozen=True, eq=False)
class Copied:
    """Rows kept unchanged; if the table tracks rows, with `_row_id` and `_row_commit_version`."""

    rows: pa.RecordBatch


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows kept unchanged, as a `RowCopier` reads them."""

    rows: PhysicalBatch


@dataclass(frozen=True, eq=False)
class Deleted:
    """Rows to delete."""

    rows: pa.RecordBatch


@dataclass(frozen=True, eq=False)
class Inserted:
    """Rows new to the table, with any of its columns."""

    rows: pa.RecordBatch
    name_row: RowNames | None = None
    """Names for the rows in messages; by default, their numbers."""


@dataclass(frozen=True, eq=False)
class Edited:
    """Part of a file that is written anew, to a path that `new_file` gave; the last part has the action."""

    file: Add | None = None
    updated_rows: int = 0
    copied_rows: int = 0


RowChange = Updated | Copied | Kept | Deleted | Inserted | Edited


@dataclass(frozen=True)
class WrittenRows:
    """Files of rows, not yet in the table."""

    files: Sequence[Add] = ()
    images: Sequence[Add] = ()
    """Files of the change data feed."""
    inserted_rows: int = 0
    updated_rows: int = 0
    copied_rows: int = 0

    def __add__(self, other: WrittenRows) -> WrittenRows:
        return WrittenRows(
            [*self.files, *other.files],
            [*self.images, *other.images],
            self.inserted_rows + other.inserted_rows,
            self.updated_rows + other.updated_rows,
            self.copied_rows + other.copied_rows,
        )

    def paths(self, root: str) -> list[str]:
        return paths_of(root, [*self.files, *self.images])


class RowOutput:
    """Write rows. Not thread-safe. Exiting with an exception removes the written files."""

    def __init__(self, engine: Engine, context: WriteContext, *, imaged: bool, memory: int | None = None) -> None:
        """`context` has the constraints on new rows; `imaged` says whether to write change files; `memory` is a number
        of bytes that it may take."""
        self._engine, self._context, self._imaged = engine, context, imaged
        moved = context.for_moved_rows()
        self._stack = ExitStack()
        self._rows = self._stack.enter_context(DataWriter(engine, moved, memory=memory))
        self._images = self._stack.enter_context(DataWriter(engine, moved.for_changes(), memory=memory))
        self._inserted_rows = self._updated_rows = self._copied_rows = 0
        self._edited: list[Add] = []
        self._new_paths: list[str] = []

    def __enter__(self) -> RowOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if kind is not None:
            discard(self._engine, self._new_paths)

    def new_file(self, partition_values: Mapping[str, str | None]) -> str:
        """A path for a file in a partition, which is deleted if this output fails. Thread-safe."""
        path = f"{self._context.table_root}/{self._context.new_file(partition_values)}"
        self._new_paths.append(path)
        return path

    def write(self, change: RowChange) -> None:
        """Raises `InvalidDataError` and `ConstraintError`."""
        match change:
            case Updated(before, after, name_row):
                self._update(before, after, name_row)
            case Copied(rows):
                self._rows.write(_without(rows, ROW_POSITION.name))
                self._copied_rows += rows.num_rows
            case Kept(part):
                self._rows.write_physical(part)
                self._copied_rows += part.data.num_rows
            case Edited(file, updated_rows, copied_rows):
                self._edited += [] if file is None else [file]
                self._updated_rows += updated_rows
                self._copied_rows += copied_rows
            case Deleted(rows):
                self._write_image(rows, "delete")
            case Inserted(rows, name_row):
                self._insert(rows, name_row)

    def _insert(self, rows: pa.RecordBatch, name_row: RowNames | None) -> None:
        complete = self._inserted.checked(rows, name_row)
        self._rows.write(complete)
        self._inserted_rows += rows.num_rows
        self._write_image(complete, "insert")

    def _update(self, before: pa.RecordBatch, after: pa.RecordBatch, name_row: RowNames | None) -> None:
        complete = self._updated.checked(as_updated(after), name_row or by_values(before))
        self._rows.write(complete)
        self._updated_rows += after.num_rows
        self._write_image(before, "update_preimage")
        self._write_image(complete, "update_postimage")

    def finish(self) -> WrittenRows:
        """Finish all writes."""
        files, images = self._rows.finish(), self._images.finish()
        return WrittenRows([*files, *self._edited], images, self._inserted_rows, self._updated_rows, self._copied_rows)

    # Lazy: a pure delete need not understand the constraints.

    @cached_property
    def _inserted(self) -> RowTransformer:
        """Fits and checks rows new to the table, which have no row ids."""
        return RowTransformer(self._engine, self._context.without_row_ids())

    @cached_property
    def _updated(self) -> RowTransformer:
        """Fits and checks rows already in the table."""
        return RowTransformer(self._engine, self._context)

    def _write_image(self, rows: pa.RecordBatch, change_type: str) -> None:
        if self._imaged and rows.num_rows:
            kind = constant_column(change_type, pa.string(), rows.num_rows)
            self._images.write(_own_columns(rows).append_column(CHANGE_TYPE.name, kind))


def split_rows(rows: pa.RecordBatch, positions: Positions | None) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows at the positions (None: all), and the others."""
    if positions is None or not len(positions):
        none = rows.slice(0, 0)
        return (rows, none) if positions is None else (none, rows)
    others = DeletionVector(positions).selection(to_integers(rows.column(ROW_POSITION.name)))
    return rows.filter(from_numpy(~others)), rows.filter(from_numpy(others))


def as_updated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the last-changed versions: this commit sets them."""
    return _without(rows, ROW_POSITION.name, ROW_COMMIT_VERSION.name)


def by_values(rows: pa.RecordBatch) -> RowNames:
    """Name rows of the table by value: users cannot know their numbers."""
    plain = _own_columns(rows)
    return lambda row: RowName(f"the row with {format_row(plain, row, plain.schema.names)}")


def _own_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with only the table's columns."""
    return _without(rows, ROW_POSITION.name, ROW_ID.name, ROW_COMMIT_VERSION.name)


def _without(rows: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name not in names])
