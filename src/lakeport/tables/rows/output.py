"""Rows of changed files on their way into new ones: fitted, checked, written, and told to the change data feed.

What becomes of the rows of a file is worked out by a `RowRewrite`, a value that can be sent to other processes: where
these do the work, each task has an output, and so files, of its own.
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
"""Positions of rows in a file, strictly ascending."""


@dataclass(frozen=True, eq=False)
class Updated:
    """Rows as they were and as they are to be, one by one. `after` has those columns of the table that are not to be
    filled in; in a table that tracks rows both have `_row_id`."""

    before: pa.RecordBatch
    after: pa.RecordBatch
    name_row: RowNames | None = None
    """What messages call them; by default, by what they were."""


@dataclass(frozen=True, eq=False)
class Copied:
    """Rows that stay as they are; in a table that tracks rows they have `_row_id` and `_row_commit_version`."""

    rows: pa.RecordBatch


@dataclass(frozen=True, eq=False)
class Deleted:
    """Rows that go."""

    rows: pa.RecordBatch


RowChange = Updated | Copied | Deleted


class HasFile(Protocol):
    @property
    def file(self) -> ScanFile: ...


T = TypeVar("T", bound=HasFile)
T_contra = TypeVar("T_contra", bound=HasFile, contravariant=True)


class RowRewrite(Protocol[T_contra]):
    """What becomes of the rows of files; it can be pickled."""

    def open(self, engine: Engine) -> Callable[[T_contra], Iterator[RowChange]]:
        """For one file after the other, by several threads at once."""


@dataclass(frozen=True)
class WrittenRows:
    """What an output has written; nothing refers to it yet."""

    files: list[Add]
    images: list[Add]
    """Files of the change data feed."""
    inserted_rows: int
    updated_rows: int
    copied_rows: int


class RowOutput:
    """Writes rows. Used by one thread. Leaving it by an exception removes what was written."""

    def __init__(self, engine: Engine, context: WriteContext, *, imaged: bool) -> None:
        """`context` has the constraints that new rows are checked against."""
        self._engine, self._context, self.imaged = engine, context, imaged
        """Whether the change data feed gets files of its own."""
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
        """What becomes of the rows of files. Raises `InvalidDataError` and `ConstraintError`."""
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
        """New rows, with any of the table's columns; gives them as they are written, with all of them. Messages count
        them unless they are called otherwise.

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
        """Everything, written to the end."""
        files, images = self._rows.finish(), self._images.finish()
        return WrittenRows(files, images, self._inserted_rows, self._updated_rows, self._copied_rows)

    # Made for the first new row: where rows only go, no constraint needs to be understood.

    @cached_property
    def _inserted(self) -> RowTransformer:
        """Fits and checks rows that are new to the table: they bring no row ids."""
        return RowTransformer(self._engine, self._context.without_row_ids())

    @cached_property
    def _updated(self) -> RowTransformer:
        """Fits and checks rows that were in the table."""
        return RowTransformer(self._engine, self._context)

    def _write_image(self, rows: pa.RecordBatch, change_type: str) -> None:
        if self.imaged and rows.num_rows:
            kind = constant_column(change_type, pa.string(), rows.num_rows)
            self._images.write(_own_columns(rows).append_column(CHANGE_TYPE.name, kind))


@dataclass(frozen=True)
class RewriteTask(Generic[T]):
    """A task: rewrites files with an output of its own. If it fails, no file stays."""

    rewrite: RowRewrite[T]
    context: WriteContext
    imaged: bool

    def __call__(self, place: Workplace, items: Sequence[T]) -> WrittenRows:
        with RowOutput(place.engine, self.context, imaged=self.imaged) as output:
            output.write_all(place, self.rewrite, items)
            return output.finish()


class Split(HasFile, Protocol):
    """Rows of a file that go, by their positions; None stands for every row that is not deleted yet."""

    @property
    def deleted(self) -> Positions | None: ...
    @property
    def replaced(self) -> Positions | None: ...


@dataclass(frozen=True)
class SplitRows:
    """The rows of files that are deleted, if `imaged`, and, if `copies`, those that stay."""

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
    """Reads whole rows of a snapshot: the table's columns, their positions, and what tracks them if it does."""
    builder = snapshot.scan_builder().with_row_position()
    return RowReader.for_scan((builder.with_row_tracking() if snapshot.tracks_rows else builder).build())


def split_rows(rows: pa.RecordBatch, positions: Positions | None) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows of a file at the positions, or all of them; and the others."""
    if positions is None or not len(positions):
        none = rows.slice(0, 0)
        return (rows, none) if positions is None else (none, rows)
    others = DeletionVector(positions).selection(to_integers(rows.column(ROW_POSITION.name)))
    return rows.filter(from_numpy(~others)), rows.filter(from_numpy(others))


def _as_updated(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Without the versions in which the rows were changed last: that is now this commit's."""
    return _without(rows, ROW_POSITION.name, ROW_COMMIT_VERSION.name)


def _by_values(rows: pa.RecordBatch) -> RowNames:
    """Rows of the table have no number that a person could know."""
    plain = _own_columns(rows)
    return lambda row: RowName(f"the row with {format_row(plain, row, plain.schema.names)}")


def _own_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of the table with its columns only."""
    return _without(rows, ROW_POSITION.name, ROW_ID.name, ROW_COMMIT_VERSION.name)


def _without(rows: pa.RecordBatch, *names: str) -> pa.RecordBatch:
    return rows.select([name for name in rows.schema.names if name not in names])
