"""Execute row changes: write files, deletion vectors and change files, and commit.

A file without remaining rows is removed. In other files, rows are marked as deleted if the table has deletion vectors;
otherwise the remaining rows are copied into new files. If anything fails, no written file is left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property, partial
from typing import TypeVar

import msgspec

from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED, ENABLE_DELETION_VECTORS, TARGET_FILE_SIZE
from lakeport.kernel.deletion_vectors import read_deletion_vector, union, write_deletion_vectors
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.write import WriteContext
from lakeport.tables.compaction import finish_write
from lakeport.tables.operation import Result, discard, snapshot_of
from lakeport.tables.rows.changes import ChangeCounts, FileChange, RowChanges
from lakeport.tables.rows.column_editing import ColumnEditing
from lakeport.tables.rows.edited_file import CannotEditError
from lakeport.tables.rows.output import Copied, Deleted, Kept, Positions, RowChange, RowOutput, WrittenRows, split_rows
from lakeport.tables.rows.search import count_rows
from lakeport.tables.rows.shrinking import Shrinking
from lakeport.workers import ThreadWorkers, Workers, Workplace
from lakeport.workers.copying import RowCopier, can_copy
from lakeport.workers.memory import release_memory
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader, is_remote

_T = TypeVar("_T")
_BATCH_ROWS = 1 << 15
_BATCHES_TO_RELEASE = 16
_OUTPUT_DIVISOR = 4
"""The share of limited memory in which rows wait to be written."""
_OPEN_COST = 1 << 20
"""The cost of opening a file, in bytes that could be read in the same time."""


def execute(transaction: Transaction, changes: RowChanges, workers: Workers | None = None) -> Result:
    """Make the changes in one commit, or none if there are none. `workers` rewrite files; threads by default.

    Raises `InvalidDataError` and `ConstraintError` for new rows that the table rejects, and `CommitConflictError`."""
    made = changes.written.paths(transaction.root)
    try:
        counts = _Execution(transaction, workers or ThreadWorkers(transaction.engine), made).stage(changes)
        transaction.metrics |= changes.metrics(counts)
    except BaseException:
        discard(transaction.engine, made)
        raise
    return finish_write(transaction, made, workers)


def uses_vectors(transaction: Transaction) -> bool:
    """Whether deleted rows are marked in deletion vectors; otherwise, files are rewritten without them."""
    supported = transaction.protocol.has_reader_feature("deletionVectors")
    return supported and ENABLE_DELETION_VECTORS.of(transaction.metadata.configuration)


class _Way(Enum):
    """How a file loses rows."""

    REMOVE = auto()
    """Remove the file: no other row is left."""
    MARK = auto()
    """Mark them in a deletion vector."""
    COPY = auto()
    """Copy the others to a new file."""


def _way(change: FileChange, vectors: bool) -> _Way:
    if change.is_whole:
        return _Way.REMOVE
    return _Way.MARK if vectors else _Way.COPY


@dataclass(frozen=True)
class _Execution:
    transaction: Transaction
    workers: Workers
    made: list[str]
    """The paths of all files written so far."""

    def stage(self, changes: RowChanges) -> ChangeCounts:
        """Write everything and hand it to the transaction."""
        transaction, vectors = self.transaction, uses_vectors(self.transaction)
        files = [change for change in changes.files if change.deletes_rows or change.updates_rows]
        files = self._counted(files) if vectors else files
        written = self._write(changes, files, self._rewrite(changes, files, vectors))
        marked = [change for change in files if _way(change, vectors) is _Way.MARK]
        removed = [change.file for change in files if _way(change, vectors) is not _Way.MARK]
        transaction.remove_files(removed)
        self._mark(marked)
        transaction.add_files(written.files)
        transaction.add_changes(written.images)
        return _count(files, removed, marked, written)

    def _counted(self, files: list[FileChange]) -> list[FileChange]:
        """The changes, with `numRecords` in every file's statistics: the protocol requires it with deletion vectors."""
        unknown = [
            change.file for change in files if not change.is_whole and decode_num_records(change.file.stats) is None
        ]
        counted = {file.path: file for file in self.workers.map(count_rows, unknown)}
        return [replace(change, file=counted.get(change.file.path, change.file)) for change in files]

    def _rewrite(self, changes: RowChanges, files: list[FileChange], vectors: bool) -> _Rewrite:
        moves_rows = any(change.updates_rows or _way(change, vectors) is _Way.COPY for change in files)
        context = self.transaction.write_context(keep_row_ids=moves_rows)
        strict = msgspec.structs.replace(context, constraints={**context.constraints, **changes.constraints})
        # Change files, if present, must describe the whole commit: its adds and removes would also show rows that were
        # only copied, and would misrepresent updates.
        feed = ENABLE_CHANGE_DATA_FEED.of(self.transaction.metadata.configuration)
        imaged = (feed and moves_rows) or bool(changes.written.images)
        snapshot = snapshot_of(self.transaction)
        updates = [change.update for change in files if change.update is not None]
        editing = ColumnEditing.plan(snapshot, strict, updates[0]) if updates and not imaged else None
        return _Rewrite(row_reader(snapshot), strict, vectors, imaged, editing)

    def _write(self, changes: RowChanges, files: list[FileChange], rewrite: _Rewrite) -> WrittenRows:
        to_read = [change for change in files if rewrite.reads(change)]
        here = self.workers.here
        with rewrite.output(here or Workplace(self.transaction.engine)) as output:
            for rows in _released(here, changes.inserts):
                output.write(rows)
            if here is not None:
                rewrite.write(here, to_read, output)
                by_tasks = WrittenRows()
            else:
                by_tasks = self._distribute(rewrite, to_read)
            written = output.finish()
        self.made.extend(written.paths(self.transaction.root))
        return changes.written + by_tasks + written

    def _distribute(self, rewrite: _Rewrite, files: list[FileChange]) -> WrittenRows:
        transaction, root = self.transaction, self.transaction.root

        def undo(written: WrittenRows) -> None:
            discard(transaction.engine, written.paths(root))

        # Keep a partition's files together, so that fewer tasks write to it.
        most = TARGET_FILE_SIZE.of(transaction.metadata.configuration)
        groups = self.workers.groups(sorted(files, key=_partition), _weight, most)
        written = sum(self.workers.map(rewrite, groups, undo=undo), WrittenRows())
        self.made.extend(written.paths(root))
        return written

    def _mark(self, changes: list[FileChange]) -> None:
        """Set deletion vectors."""
        transaction, root = self.transaction, self.transaction.root
        united = self.workers.map(partial(_united, root), [c for c in changes if c.file.deletion_vector is not None])
        vectors = (change.gone if change.file.deletion_vector is None else next(united) for change in changes)
        written = write_deletion_vectors(transaction.engine.storage, root, vectors)
        self.made.extend({descriptor.location(root) or "" for descriptor in written if descriptor})
        for change, descriptor in zip(changes, written, strict=True):
            assert descriptor is not None, "a file that changes loses a row"
            transaction.set_deletion_vector(change.file, descriptor)


@dataclass(frozen=True)
class _Rewrite:
    """Writes the changed rows of files. As a task, it writes files of its own, and deletes them if it fails."""

    reader: RowReader
    context: WriteContext
    vectors: bool
    imaged: bool
    """Whether to write change files."""
    editing: ColumnEditing | None = None
    """For files of which some columns are set."""

    def __call__(self, place: Workplace, files: Sequence[FileChange]) -> WrittenRows:
        with self.output(place) as output:
            self.write(place, files, output)
            return output.finish()

    def output(self, place: Workplace) -> RowOutput:
        memory = place.memory and place.memory // _OUTPUT_DIVISOR
        return RowOutput(place.engine, self.context, imaged=self.imaged, memory=memory)

    def write(self, place: Workplace, files: Iterable[FileChange], output: RowOutput) -> None:
        changes = list(files)
        rows_of, threads = partial(self._changed, place, output), self._readers(place, changes)
        rows = in_order(changes, rows_of, threads, lambda change: self.reader.weight(change.file))
        with closing(rows):  # on an error, threads that write files must stop before these are deleted
            for change in _released(place, rows):
                place.check()
                output.write(change)

    def _readers(self, place: Workplace, files: Sequence[FileChange]) -> int:
        """The number of files to read at once: each of them holds batches, so not more than keep the cores busy. Rows
        to copy are read faster than they are written."""
        if any(is_remote(change.file) for change in files):
            return place.threads
        return max(1, place.threads // 2 if all(map(self._streams, files)) else place.threads - 1)

    def reads(self, change: FileChange) -> bool:
        """Whether rows of the file are needed."""
        copies = _way(change, self.vectors) is _Way.COPY
        return copies or change.updates_rows or (self.imaged and change.deletes_rows)

    def _streams(self, change: FileChange) -> bool:
        """Whether rows are only read here, as they are stored."""
        return self._only_copies(change) and not self._shrinks(change)

    def _only_copies(self, change: FileChange) -> bool:
        """Whether the file's other rows are all that is needed of it, as they are stored."""
        return not change.updates_rows and not self.imaged and self._can_copy

    @cached_property
    def _can_copy(self) -> bool:
        return can_copy(self.context)

    def _changed(self, place: Workplace, output: RowOutput, change: FileChange) -> Iterator[RowChange]:
        try:
            yield from self._way_to_edit(change).run(place, change, output)
        except CannotEditError:
            yield from self._rows(place.engine, change)

    def _way_to_edit(self, change: FileChange) -> ColumnEditing | Shrinking:
        """Raises `CannotEditError`."""
        if self._shrinks(change):
            return self._shrinking
        if self.editing is None or not self._rewrites(change) or not self.editing.is_candidate(change):
            raise CannotEditError
        return self.editing

    @cached_property
    def _shrinking(self) -> Shrinking:
        return Shrinking(self.context)

    def _shrinks(self, change: FileChange) -> bool:
        return self._only_copies(change) and self._shrinking.is_candidate(change)

    def _rewrites(self, change: FileChange) -> bool:
        """Whether a file is replaced by one with all of its rows."""
        return change.updates_rows and _way(change, self.vectors) is not _Way.MARK

    def _rows(self, engine: Engine, change: FileChange) -> Iterator[RowChange]:
        if self._only_copies(change):
            yield from map(Kept, RowCopier(self.context).read(engine, change.file, change.gone))
            return
        update = None if change.update is None else change.update.open(engine, self.context.schema)
        copies = _way(change, self.vectors) is _Way.COPY
        for batch in self.reader.read(engine, change.file, batch_size=_BATCH_ROWS):
            deleted, others = split_rows(batch, change.deleted)
            updated, remaining = split_rows(others, change.updated)
            if self.imaged:
                yield Deleted(deleted)
            if updated.num_rows:
                assert update is not None, "updated rows have new values"
                yield from update(updated)
            if copies:
                yield Copied(remaining)


def _released(place: Workplace | None, rows: Iterable[_T]) -> Iterator[_T]:
    """The same rows. If memory is limited, free memory is given back to the system from time to time."""
    for number, each in enumerate(rows):
        yield each
        if place is not None and place.memory is not None and number % _BATCHES_TO_RELEASE == _BATCHES_TO_RELEASE - 1:
            release_memory()


def row_reader(snapshot: Snapshot) -> RowReader:
    """Read whole rows of a snapshot: columns, positions, and row tracking columns if the table has them."""
    builder = snapshot.scan_builder().with_row_position()
    return RowReader.for_scan((builder.with_row_tracking() if snapshot.tracks_rows else builder).build())


def _united(root: str, place: Workplace, change: FileChange) -> Positions:
    """A task: all deleted rows of a file, including earlier ones."""
    before = change.file.deletion_vector
    assert before is not None
    return union(read_deletion_vector(before, root, place.engine.storage).positions, change.gone)


def _partition(change: FileChange) -> list[tuple[str, str]]:
    return sorted((name, value or "") for name, value in change.file.partition_values.items())


def _weight(change: FileChange) -> int:
    return change.file.size + _OPEN_COST


def _count(
    files: list[FileChange], removed: list[ScanFile], marked: list[FileChange], written: WrittenRows
) -> ChangeCounts:
    deleted = [c.file.num_records if c.deleted is None else len(c.deleted) for c in files]
    renewed = sum(change.file.deletion_vector is not None for change in marked)
    return ChangeCounts(
        deleted_rows=None if None in deleted else sum(count or 0 for count in deleted),
        updated_rows=written.updated_rows,
        inserted_rows=written.inserted_rows,
        copied_rows=written.copied_rows,
        removed_files=len(removed),
        removed_bytes=sum(file.size for file in removed),
        added_files=len(written.files),
        added_bytes=sum(add.size for add in written.files),
        change_files=len(written.images),
        vectors_added=len(marked) - renewed,
        vectors_updated=renewed,
        vectors_removed=sum(file.deletion_vector is not None for file in removed),
    )
