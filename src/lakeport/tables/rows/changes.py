"""Changes to rows within files: delete, update and insert rows, and record them in the change data feed.

    with RowChanges(transaction, updates=True) as changes:
        changes.take(FileChange(file, replaced=positions))      # remove these rows …
        changes.update(before, after)                           # … and write their new values
        changes.take(FileChange(other, deleted=positions))
        changes.insert(rows)
        transaction.metrics |= changes.stage().metrics
        return changes.commit()

With deletion vectors, files stay and rows are marked as deleted; otherwise the remaining rows are copied into new
files. A file without remaining rows is removed. If anything fails, no written file is left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import TracebackType

import msgspec
import numpy as np
import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS, TARGET_FILE_SIZE
from lakeport.kernel.deletion_vectors import read_deletion_vector, union, write_deletion_vectors
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.write import RowNames
from lakeport.tables.operation import Result, discard, finish, has_surely_failed
from lakeport.tables.rows.output import (
    Copied,
    HasFile,
    Positions,
    RewriteTask,
    RowOutput,
    RowRewrite,
    SplitRows,
    T,
    Updated,
    WrittenRows,
    row_reader,
)
from lakeport.tables.rows.search import count_rows
from lakeport.workers import ThreadWorkers, Workers, Workplace

_OPEN_COST = 1 << 20
"""The cost of opening a file, as the bytes that could be read meanwhile."""


def _no_rows() -> Positions:
    return np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class FileChange:
    """Positions of rows to remove from a file; None means every row not yet deleted."""

    file: ScanFile
    """With its log details."""
    deleted: Positions | None = field(default_factory=_no_rows)
    replaced: Positions | None = field(default_factory=_no_rows)
    """Rows that `RowChanges.update` and `RowChanges.copy` rewrite; disjoint from `deleted`."""

    @cached_property
    def gone(self) -> Positions | None:
        if self.deleted is None or self.replaced is None:
            return None
        return np.sort(np.concatenate([self.deleted, self.replaced]))

    @cached_property
    def is_whole(self) -> bool:
        """Whether no row remains in the file."""
        return self.gone is None or len(self.gone) == self.file.num_records

    @property
    def deletes_rows(self) -> bool:
        return self.deleted is None or bool(len(self.deleted))


@dataclass(frozen=True)
class ChangeCounts:
    """The totals of row changes."""

    deleted_rows: int | None = 0
    """None if a file was removed unread and its statistics lack the count."""
    updated_rows: int = 0
    inserted_rows: int = 0
    copied_rows: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    added_files: int = 0
    added_bytes: int = 0
    change_files: int = 0
    vectors_added: int = 0
    vectors_updated: int = 0
    vectors_removed: int = 0

    @property
    def metrics(self) -> dict[str, int]:
        """Everything except deleted, updated and inserted rows, under Spark's names."""
        return {
            "numCopiedRows": self.copied_rows,
            "numRemovedFiles": self.removed_files,
            "numRemovedBytes": self.removed_bytes,
            "numAddedFiles": self.added_files,
            "numAddedBytes": self.added_bytes,
            "numAddedChangeFiles": self.change_files,
            "numDeletionVectorsAdded": self.vectors_added,
            "numDeletionVectorsUpdated": self.vectors_updated,
            "numDeletionVectorsRemoved": self.vectors_removed,
        }


class RowChanges:
    """Collect row changes, write new files, and commit. Not thread-safe."""

    def __init__(
        self,
        transaction: Transaction,
        *,
        updates: bool,
        constraints: Mapping[str, str] | None = None,
        workers: Workers | None = None,
    ) -> None:
        """`updates` says whether rows may be updated; `constraints` are extra conditions on new rows, by name.
        `workers` rewrite files; threads by default.

        Raises `UnsupportedFeatureError` for an append-only table."""
        self._transaction, self._engine = transaction, transaction.engine
        self._workers = workers or ThreadWorkers(transaction.engine)
        configuration = transaction.metadata.configuration
        transaction.check_rows_may_change()
        self.uses_vectors = uses_vectors(transaction)
        """Whether rows are marked as deleted rather than copied away from."""
        self._feed = ENABLE_CHANGE_DATA_FEED.of(configuration)
        self._changes: list[FileChange] = []
        self._given: list[Add] = []
        self._given_images: list[Add] = []
        self._vector_files: set[str] = set()
        self._stack = ExitStack()
        self._stack.push(self._remove_files)
        context = transaction.write_context(keep_row_ids=updates or not self.uses_vectors)
        self._strict = msgspec.structs.replace(context, constraints={**context.constraints, **(constraints or {})})
        # Change files, if present, must describe the whole commit: its adds and removes would also show rows that were
        # only copied, and would misrepresent updates.
        imaged = self._feed and updates
        self._output = self._stack.enter_context(RowOutput(self._engine, self._strict, imaged=imaged))
        self._counts = ChangeCounts()
        self._committing = False

    def __enter__(self) -> RowChanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._committing and not has_surely_failed(error):
            return  # committed, or unknown: the files may belong to the table
        self._stack.__exit__(kind, error, trace)

    def _remove_files(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            given = [resolve_path(self._transaction.root, add.path) for add in self._given + self._given_images]
            discard(self._engine, [*sorted(self._vector_files), *given])

    # Changes

    def take(self, change: FileChange) -> None:
        """Remove rows of a file. Call once per file, before inserting any row."""
        if change.gone is None or len(change.gone):
            self._changes.append(change)
            self._output.imaged |= self._feed and not self.uses_vectors and not change.is_whole

    def insert(self, rows: pa.RecordBatch, name_row: RowNames | None = None) -> pa.RecordBatch:
        """Insert rows with any of the table's columns; return them as written, with all columns. Messages number the
        rows unless `name_row` is given.

        Raises `InvalidDataError` and `ConstraintError`."""
        return self._output.insert(rows, name_row)

    def insert_files(self, files: Sequence[Add], images: Sequence[Add]) -> None:
        """Insert files that others wrote. If a file passed to `take` may keep rows, and the table has a change data
        feed but no deletion vectors, `images` must be given too."""
        self._given += files
        self._given_images += images
        self._output.imaged |= bool(images)
        rows = sum(decode_num_records(add.stats) or 0 for add in files)
        self._counts = replace(self._counts, inserted_rows=self._counts.inserted_rows + rows)

    def update(self, before: pa.RecordBatch, after: pa.RecordBatch, name_row: RowNames | None = None) -> None:
        """Replace rows, as in `Updated`. Raises the same errors as `insert`."""
        self._output.write(Updated(before, after, name_row))

    def copy(self, rows: pa.RecordBatch) -> None:
        """Keep rows of a replaced file unchanged, as in `Copied`."""
        self._output.write(Copied(rows))

    def rewrite(self, items: Iterable[T], rewrite: RowRewrite[T]) -> None:
        """Compute the changes to files' rows and write them. Raises the same errors as `insert`."""
        place = self._workers.here
        if place is not None:
            self._output.write_all(place, rewrite, items)
            return
        # Keep a partition's files together, so that fewer tasks write to it.
        most = TARGET_FILE_SIZE.of(self._transaction.metadata.configuration)
        groups = self._workers.groups(sorted(items, key=_partition), _weight, most)
        task = RewriteTask(rewrite, self._strict, self._output.imaged)
        for written in self._workers.map(task, groups, undo=self._discard):
            self._keep(written)

    def _keep(self, written: WrittenRows) -> None:
        self._given += written.files
        self._given_images += written.images
        self._count_rows(written)

    def _discard(self, written: WrittenRows) -> None:
        added = [*written.files, *written.images]
        discard(self._engine, [resolve_path(self._transaction.root, add.path) for add in added])

    def _count_rows(self, written: WrittenRows) -> None:
        self._counts = replace(
            self._counts,
            inserted_rows=self._counts.inserted_rows + written.inserted_rows,
            updated_rows=self._counts.updated_rows + written.updated_rows,
            copied_rows=self._counts.copied_rows + written.copied_rows,
        )

    def stage(self) -> ChangeCounts:
        """Finish all writes, once, and hand the files to the transaction."""
        transaction, imaged, copies = self._transaction, self._output.imaged, not self.uses_vectors
        changes = self._counted() if self.uses_vectors else self._changes
        to_read = [c for c in changes if (copies and not c.is_whole) or (imaged and c.deletes_rows)]
        if to_read:
            self.rewrite(to_read, SplitRows(row_reader(_snapshot_of(transaction)), imaged, copies))
        written = self._output.finish()
        self._count_rows(written)
        added, images = self._given + written.files, self._given_images + written.images
        marked = [change for change in changes if self.uses_vectors and not change.is_whole]
        removed = [change.file for change in changes if change.is_whole or not self.uses_vectors]
        transaction.remove_files(removed)
        self._set_vectors(marked)
        transaction.add_files(added)
        transaction.add_changes(images)
        self._counts = replace(self._count(changes, removed, added, marked), change_files=len(images))
        return self._counts

    def commit(self) -> Result:
        """Commit what is staged, if anything."""
        self._committing = True
        return finish(self._transaction)

    # Writing

    def _counted(self) -> list[FileChange]:
        """The changes, with `numRecords` in every file's statistics: the protocol requires it with deletion vectors."""
        unknown = [c.file for c in self._changes if c.gone is not None and decode_num_records(c.file.stats) is None]
        counted = {
            file.path: msgspec.structs.replace(file, stats=stats)
            for file, stats in zip(unknown, self._workers.map(count_rows, unknown), strict=True)
        }
        return [replace(c, file=counted.get(c.file.path, c.file)) for c in self._changes] if counted else self._changes

    def _set_vectors(self, changes: list[FileChange]) -> None:
        storage, root = self._engine.storage, self._transaction.root
        worn = [change for change in changes if change.file.deletion_vector is not None]
        united = self._workers.map(partial(_united, root), worn)
        vectors = (_all_gone(change) if change.file.deletion_vector is None else next(united) for change in changes)
        written = write_deletion_vectors(storage, root, vectors)
        self._vector_files = {descriptor.location(root) or "" for descriptor in written if descriptor}
        for change, descriptor in zip(changes, written, strict=True):
            assert descriptor is not None, "a file that changes loses a row"
            self._transaction.set_deletion_vector(change.file, descriptor)

    def _count(
        self, changes: list[FileChange], removed: list[ScanFile], added: list[Add], marked: list[FileChange]
    ) -> ChangeCounts:
        deleted = [c.file.num_records if c.deleted is None else len(c.deleted) for c in changes]
        renewed = sum(change.file.deletion_vector is not None for change in marked)
        return replace(
            self._counts,
            deleted_rows=None if None in deleted else sum(count or 0 for count in deleted),
            removed_files=len(removed),
            removed_bytes=sum(file.size for file in removed),
            added_files=len(added),
            added_bytes=sum(add.size for add in added),
            vectors_added=len(marked) - renewed,
            vectors_updated=renewed,
            vectors_removed=sum(file.deletion_vector is not None for file in removed),
        )


def _united(root: str, place: Workplace, change: FileChange) -> Positions:
    """A task: all deleted rows of a file, including earlier ones."""
    before = change.file.deletion_vector
    assert before is not None
    known = read_deletion_vector(before, root, place.engine.storage).positions
    return union(known, _all_gone(change))


def _all_gone(change: FileChange) -> Positions:
    assert change.gone is not None, "a file that loses every row needs no vector"
    return change.gone


def _partition(item: HasFile) -> list[tuple[str, str]]:
    return sorted((name, value or "") for name, value in item.file.partition_values.items())


def _weight(item: HasFile) -> int:
    return item.file.size + _OPEN_COST


def uses_vectors(transaction: Transaction) -> bool:
    supported = transaction.protocol.has_reader_feature("deletionVectors")
    return supported and ENABLE_DELETION_VECTORS.of(transaction.metadata.configuration)


def _snapshot_of(transaction: Transaction) -> Snapshot:
    assert transaction.snapshot is not None, "a new table has no rows to change"
    return transaction.snapshot
