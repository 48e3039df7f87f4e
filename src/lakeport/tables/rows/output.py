"""Write the rows of changed files into new ones: fit, check, write, and record them in the change data feed.

A `RowRewrite` computes the changes to a file's rows. It is picklable: in other processes, each task has its own output
and files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import constant_column
from lakeport.kernel.deletion_vectors import DeletionVector
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import CHANGE_TYPE, ROW_COMMIT_VERSION, ROW_ID, ROW_POSITION
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.kernel.write import RowName, RowNames, RowTransformer, WriteContext, format_row
from lakeport.workers import Workplace
from lakeport.workers.reading import RowReader, in_order
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
class Deleted:
    """Rows to delete."""

    rows: pa.RecordBatch


RowChange = Updated | Copied | Deleted


class HasFile(Protocol):
    @property
    def file(self) -> ScanFile: ...


T = TypeVar("T", bound=HasFile)
T_contra = TypeVar("T_contra", bound=HasFile, contravariant=True)


class RowRewrite(Protocol[T_contra]):
    """Computes the changes to files' rows; picklable."""

    def open(self, engine: Engine) -> Callable[[T_contra], Iterator[RowChange]]:
        """A function called once per file, from several threads."""


@dataclass(frozen=True)
class WrittenRows:
    """Files written by an output, not yet referenced."""

    files: list[Add]
    images: list[Add]
    """Files of the change data feed."""
    inserted_rows: int
    updated_rows: int
    copied_rows: int


class RowOutput:
    """Write rows. Not thread-safe. Exiting with an exception removes the written files."""

    def __init__(self, engine: Engine, context: WriteContext, *, imaged: bool) -> None:
        """`context` has the constraints on new rows."""
        self._engine, self._context, self.imaged = engine, context, imaged
        """Whether to write separate files for the change data feed."""
        moved = context.for_moved_rows()
        self._stack = ExitStack()
        self._rows = self._stack.enter_context(DataWriter(engine, moved))
        self._images = self._stack.enter_context(DataWriter(engine, moved.for_changes()))
        self._inserted_rows = self._updated_rows = self._copied_rows = 0

    def __enter__(self) -> RowOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write_all(self, place: Workplace, rewrite: RowRewrite[T], items: Iterable[T]) -> None:
        """Compute and write the changes to files' rows. Raises `InvalidDataError` and `ConstraintError`."""
        for change in in_order(items, rewrite.open(place.engine), place.threads):
            place.check()
            self.write(change)

    def write(self, change: RowChange) -> None:
        """Raises `InvalidDataError` and `ConstraintError`."""
        match change:
            case Updated(before, after, name_row):
                self._update(before, after, name_row)
            case Copied(rows):
                self._rows.write(_without(rows, ROW_POSITION.name))
                self._copied_rows += rows.num_rows
            case Deleted(rows):
                self._write_image(rows, "delete")

    def insert(self, rows: pa.RecordBatch, name_row: RowNames | None = None) -> pa.RecordBatch:
        """Insert rows with any of the table's columns; return them as written, with all columns. Messages number the
        rows unless `name_row` is given.

        Raises `InvalidDataError` and `ConstraintError`."""
        complete = self._inserted.checked(rows, name_row)
        self._rows.write(complete)
        self._inserted_rows += rows.num_rows
        self._write_image(complete, "insert")
        return complete

    def _update(self, before: pa.RecordBatch, after: pa.RecordBatch, name_row: RowNames | None) -> None:
        complete = self._updated.checked(_as_updated(after), name_row or _by_values(before))
        self._rows.write(complete)
        self._updated_rows += after.num_rows
        self._write_image(before, "update_preimage")
        self._write_image(complete, "update_postimage")

    def finish(self) -> WrittenRows:
        """Finish all writes."""
        files, images = self._rows.finish(), self._images.finish()
        return WrittenRows(files, images, self._inserted_rows, self._updated_rows, self._copied_rows)

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
        if self.imaged and rows.num_rows:
            kind = constant_column(change_type, pa.string(), rows.num_rows)
            self._images.write(_own_columns(rows).append_column(CHANGE_TYPE.name, kind))


@dataclass(frozen=True)
class RewriteTask(Generic[T]):
    """A task: rewrite files with its own output. If it fails, no file is left behind."""

    rewrite: RowRewrite[T]
    context: WriteContext
    imaged: bool

    def __call__(self, place: Workplace, items: Sequence[T]) -> WrittenRows:
        with RowOutput(place.engine, self.context, imaged=self.imaged) as output:
            output.write_all(place, self.rewrite, items)
            return output.finish()


class Split(HasFile, Protocol):
    """Positions of rows to remove from a file; None means every row not yet deleted."""

    @property
    def deleted(self) -> Positions | None: ...
    @property
    def replaced(self) -> Positions | None: ...


@dataclass(frozen=True)
class SplitRows:
    """The deleted rows of files, if `imaged`, and the remaining ones, if `copies`."""

    reader: RowReader
    imaged: bool
    copies: bool

    def open(self, engine: Engine) -> Callable[[Split], Iterator[RowChange]]:
        def split(change: Split) -> Iterator[RowChange]:
            for batch in self.reader.read(engine, change.file):
                deleted, others = split_rows(batch, change.deleted)
                if self.imaged:
                    yield Deleted(deleted)
                if self.copies:
                    yield Copied(split_rows(others, change.replaced)[1])

        return split


def row_reader(snapshot: Snapshot) -> RowReader:
    """Read whole rows of a snapshot: columns, positions, and row tracking columns if the table has them."""
    builder = snapshot.scan_builder().with_row_position()
    return RowReader.for_scan((builder.with_row_tracking() if snapshot.tracks_rows else builder).build())


def split_rows(rows: pa.RecordBatch, positions: Positions | None) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows at the positions (None: all), and the others."""
    if positions is None or not len(positions):
        none = rows.slice(0, 0)
        return (rows, none) if positions is None else (none, rows)
    others = DeletionVector(positions).selection(to_integers(rows.column(ROW_POSITION.name)))
    return rows.filter(from_numpy(~others)), rows.filter(from_numpy(others))


def _as_updated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the last-changed versions: this commit sets them."""
    return _without(rows, ROW_POSITION.name, ROW_COMMIT_VERSION.name)


def _by_values(rows: pa.RecordBatch) -> RowNames:
    """Name rows of the table by value: users cannot know their numbers."""
    plain = _own_columns(rows)
    return lambda row: RowName(f"the row with {format_row(plain, row, plain.schema.names)}")


def _own_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with only the table's columns."""
    return _without(rows, ROW_POSITION.name, ROW_ID.name, ROW_COMMIT_VERSION.name)


def _without(rows: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name not in names])
