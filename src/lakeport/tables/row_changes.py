"""Changes to rows inside of files: rows are deleted, updated and inserted, and the change data feed learns of it.

    with RowChanges(transaction, updates=True) as changes:
        changes.take(FileChange(file, replaced=positions))      # these rows go …
        changes.update(before, after)                           # … and come back in another form
        changes.take(FileChange(other, deleted=positions))
        changes.insert(rows)
        transaction.metrics |= changes.stage().metrics
        return changes.commit()

In a table with deletion vectors the files stay and rows are marked as deleted; otherwise the rows that stay are copied
into new files. A file that keeps no row is removed. If anything fails, no file stays that was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType

import msgspec
import numpy as np
import pyarrow as pa

from lakeport.engine.reading import RowReader, in_order
from lakeport.engine.writing import DataWriter
from lakeport.kernel.actions import Add
from lakeport.kernel.arrays import from_numpy, to_integers
from lakeport.kernel.deletion_vector_writer import write_deletion_vectors
from lakeport.kernel.deletion_vectors import DeletionVector, read_deletion_vector
from lakeport.kernel.input_rows import RowName, RowNames, format_row
from lakeport.kernel.partitions import constant_column
from lakeport.kernel.row_transformer import RowTransformer
from lakeport.kernel.scan_files import ROW_COMMIT_VERSION, ROW_ID, ROW_POSITION, ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.table_properties import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.write_context import CHANGE_TYPE
from lakeport.tables.operation import Result, discard, finish, has_surely_failed
from lakeport.tables.row_counts import counted_stats
from lakeport.tables.row_search import READERS, Positions


def _no_rows() -> Positions:
    return np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class FileChange:
    """Rows of a file that go, by their positions; None stands for every row that is not deleted yet."""

    file: ScanFile
    """With its log details."""
    deleted: Positions | None = field(default_factory=_no_rows)
    replaced: Positions | None = field(default_factory=_no_rows)
    """Rows that `RowChanges.update` and `RowChanges.copy` write again; disjoint from those deleted."""

    @cached_property
    def gone(self) -> Positions | None:
        if self.deleted is None or self.replaced is None:
            return None
        return np.sort(np.concatenate([self.deleted, self.replaced]))

    @cached_property
    def is_whole(self) -> bool:
        """Whether no row stays in the file."""
        return self.gone is None or len(self.gone) == self.file.num_records

    @property
    def deletes_rows(self) -> bool:
        return self.deleted is None or bool(len(self.deleted))


@dataclass(frozen=True)
class ChangeCounts:
    """What row changes came to."""

    deleted_rows: int | None = 0
    """None if the statistics of a file that was removed unread do not tell."""
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
        """All but deleted, updated and inserted rows, in the words of Spark."""
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
    """Collects what changes in rows, writes new files, and commits it all. Used by one thread."""

    def __init__(
        self, transaction: Transaction, *, updates: bool, constraints: Mapping[str, str] | None = None
    ) -> None:
        """`updates` tells whether rows may be updated, `constraints` what else must hold of new rows, by name.

        Raises `UnsupportedFeatureError` for a table that only takes appends."""
        self._transaction, self._engine = transaction, transaction.engine
        configuration = transaction.metadata.configuration
        transaction.check_rows_may_change()
        self.uses_vectors = _uses_vectors(transaction)
        """Whether rows are marked as deleted, not copied away from."""
        self._feed = ENABLE_CHANGE_DATA_FEED.of(configuration)
        self._imaged = self._feed and updates
        """Whether change files tell all that this commit changes: what it adds and removes would tell of rows that are
        merely copied, and of updates as if they were something else."""
        self._changes: list[FileChange] = []
        self._vector_files: set[str] = set()
        self._stack = ExitStack()
        self._stack.push(self._remove_vectors)
        context = transaction.write_context(keep_row_ids=updates or not self.uses_vectors)
        self._strict = msgspec.structs.replace(context, constraints={**context.constraints, **(constraints or {})})
        self._rows = self._stack.enter_context(DataWriter(self._engine, context.for_moved_rows()))
        self._images = self._stack.enter_context(DataWriter(self._engine, context.for_moved_rows().for_changes()))
        self._counts = ChangeCounts()
        self._committing = False

    def __enter__(self) -> RowChanges:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._committing and not has_surely_failed(error):
            return  # committed, or nobody knows: the files may be the table's
        self._stack.__exit__(kind, error, trace)

    def _remove_vectors(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            discard(self._engine, sorted(self._vector_files))

    # What changes

    def take(self, change: FileChange) -> None:
        """Rows of a file go. Each file is told once, and before any row is inserted."""
        if change.gone is None or len(change.gone):
            self._changes.append(change)
            self._imaged |= self._feed and not self.uses_vectors and not change.is_whole

    def insert(self, rows: pa.RecordBatch, name_row: RowNames | None = None) -> pa.RecordBatch:
        """New rows, with any of the table's columns; gives them as they are written, with all of them. Messages count
        them unless they are called otherwise.

        Raises `InvalidDataError` and `ConstraintError`."""
        complete = self._inserted.checked(rows, name_row)
        self._rows.write(complete)
        self._counts = replace(self._counts, inserted_rows=self._counts.inserted_rows + rows.num_rows)
        if self._imaged:
            self._write_image(complete, "insert")
        return complete

    def update(self, before: pa.RecordBatch, after: pa.RecordBatch, name_row: RowNames | None = None) -> None:
        """Rows as they were and as they are to be, one by one. `after` has those columns of the table that are not to
        be filled in; in a table that tracks rows both have `_row_id`. Messages show rows as they were unless they are
        called otherwise. Raises what `insert` raises."""
        complete = self._updated.checked(_as_updated(after), name_row or _by_values(before))
        self._rows.write(complete)
        self._counts = replace(self._counts, updated_rows=self._counts.updated_rows + after.num_rows)
        if self._imaged:
            self._write_image(before, "update_preimage")
            self._write_image(complete, "update_postimage")

    def copy(self, rows: pa.RecordBatch) -> None:
        """Rows of a replaced file that stay as they are; in a table that tracks rows they have `_row_id` and
        `_row_commit_version`."""
        self._rows.write(_without(rows, ROW_POSITION.name))
        self._counts = replace(self._counts, copied_rows=self._counts.copied_rows + rows.num_rows)

    def stage(self) -> ChangeCounts:
        """Writes everything to the end, once, and hands it to the transaction."""
        transaction = self._transaction
        changes = [self._counted(change) for change in self._changes] if self.uses_vectors else self._changes
        for deleted, kept in in_order(self._to_read(changes), self._split, READERS):
            if self._imaged:
                self._write_image(deleted, "delete")
            if not self.uses_vectors:
                self.copy(kept)
        added, images = self._rows.finish(), self._images.finish()
        marked = [change for change in changes if self.uses_vectors and not change.is_whole]
        removed = [change.file for change in changes if change.is_whole or not self.uses_vectors]
        transaction.remove_files(removed)
        self._set_vectors(marked)
        transaction.add_files(added)
        transaction.add_changes(images)
        self._counts = replace(self._count(changes, removed, added, marked), change_files=len(images))
        return self._counts

    def commit(self) -> Result:
        """Commits what is staged, if that is anything."""
        self._committing = True
        return finish(self._transaction)

    # How it is written

    # Made for the first new row: where rows only go, no constraint needs to be understood.

    @cached_property
    def _inserted(self) -> RowTransformer:
        """Fits and checks rows that are new to the table: they bring no row ids."""
        return RowTransformer(self._engine, self._strict.without_row_ids())

    @cached_property
    def _updated(self) -> RowTransformer:
        """Fits and checks rows that were in the table."""
        return RowTransformer(self._engine, self._strict)

    def _to_read(self, changes: list[FileChange]) -> list[FileChange]:
        """The files of which rows are needed, to be copied or for their images."""
        copies, imaged = not self.uses_vectors, self._imaged
        return [c for c in changes if (copies and not c.is_whole) or (imaged and c.deletes_rows)]

    @cached_property
    def _reader(self) -> RowReader:
        return row_reader(_snapshot_of(self._transaction))

    def _split(self, change: FileChange) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """The rows of a file that are deleted, and those that stay."""
        for batch in self._reader.read(self._engine, change.file):
            deleted, others = split_rows(batch, change.deleted)
            yield deleted, split_rows(others, change.replaced)[1]

    def _write_image(self, rows: pa.RecordBatch, change_type: str) -> None:
        if rows.num_rows:
            kind = constant_column(change_type, pa.string(), rows.num_rows)
            self._images.write(_own_columns(rows).append_column(CHANGE_TYPE.name, kind))

    def _counted(self, change: FileChange) -> FileChange:
        """The same with a file whose statistics have `numRecords`, as the protocol asks of one with a vector."""
        if change.gone is None:
            return change
        stats = counted_stats(self._engine, change.file)
        return replace(change, file=msgspec.structs.replace(change.file, stats=stats))

    def _set_vectors(self, changes: list[FileChange]) -> None:
        storage, root = self._engine.storage, self._transaction.root
        with ThreadPoolExecutor(READERS) as pool:
            written = write_deletion_vectors(storage, root, pool.map(self._united, changes))
        self._vector_files = {descriptor.location(root) or "" for descriptor in written if descriptor}
        for change, descriptor in zip(changes, written, strict=True):
            assert descriptor is not None, "a file that changes loses a row"
            self._transaction.set_deletion_vector(change.file, descriptor)

    def _united(self, change: FileChange) -> Positions:
        """All deleted rows of a file, those from before included."""
        gone, before = change.gone, change.file.deletion_vector
        assert gone is not None
        if before is None:
            return gone
        known = read_deletion_vector(before, self._transaction.root, self._engine.storage).positions
        return np.union1d(known, gone)

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


def _uses_vectors(transaction: Transaction) -> bool:
    supported = "deletionVectors" in (transaction.protocol.writer_features or ())
    return supported and ENABLE_DELETION_VECTORS.of(transaction.metadata.configuration)


def _snapshot_of(transaction: Transaction) -> Snapshot:
    assert transaction.snapshot is not None, "a new table has no rows to change"
    return transaction.snapshot
