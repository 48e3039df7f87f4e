"""Run a merge: one pass finds the affected rows, another writes them.

Unaffected files are not touched. A merge that changes no target row is an append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import ROW_POSITION
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.tables.merge.clauses import BoundMerge, choose
from lakeport.tables.merge.matching import target_filter
from lakeport.tables.merge.search import AffectedFiles, AffectedRows, SearchTask
from lakeport.tables.merge.sides import Pairs, RowNumbers
from lakeport.tables.merge.source import SharedMerge, shared_merge
from lakeport.tables.operation import Result, snapshot_of
from lakeport.tables.rows.changes import ChangeCounts, FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.output import Inserted, Updated
from lakeport.workers import Workers
from lakeport.workers.reading import RowReader

_INSERTED_ROWS = 1 << 16
"""Source rows processed at a time."""


class MergeRun:
    """One execution of a merge."""

    def __init__(self, transaction: Transaction, merge: BoundMerge, workers: Workers) -> None:
        self._transaction, self._merge, self._workers = transaction, merge, workers
        self._clauses = merge.on_target
        self._is_update = np.array([clause.action == "update" for clause in self._clauses], np.bool_)

    def run(self) -> Result:
        """Raises the errors of `Merge.execute`."""
        with shared_merge(self._merge, self._workers, self._transaction.root) as merge:
            found, is_matched = self._search(merge)
            changes = self._changes(merge, found, np.flatnonzero(~is_matched))
            return execute(self._transaction, changes, self._workers)

    # Search

    def _search(self, merge: SharedMerge) -> tuple[AffectedFiles, npt.NDArray[np.bool_]]:
        """The affected files, and a mask of the source rows that have a match."""
        reader, files = self._plan_search()
        most = TARGET_FILE_SIZE.of(self._transaction.metadata.configuration)
        groups = self._workers.groups(files, lambda file: file.size, most)
        found: AffectedFiles = []
        is_matched = np.zeros(self._merge.source.num_rows, np.bool_)
        for part in self._workers.map(SearchTask(merge, reader), groups):
            found += part.found
            is_matched[part.source_rows] = True
        return found, is_matched

    def _plan_search(self) -> tuple[RowReader, list[ScanFile]]:
        """A reader for the target rows that may be affected, with the columns that the conditions use; and the
        files."""
        snapshot, matcher, sides = snapshot_of(self._transaction), self._merge.matcher, self._merge.sides
        builder = snapshot.scan_builder().with_log_details().with_row_position()
        known = None if self._merge.not_matched_by_source else target_filter(sides, matcher)
        builder = builder if known is None else builder.with_filter(known)
        conditions = [clause.condition for clause in self._clauses if clause.condition is not None]
        names = sides.target.names_in(matcher.condition.on_target)
        names = tuple(dict.fromkeys([*names, *(name for each in conditions for name in each.target_names)]))
        scan = builder.with_read_schema(snapshot.schema.select((name,) for name in names)).build()
        # The filter only skips files and row groups; matching decides about rows.
        reader = RowReader(scan.scan_state, scan.scan_state.arrow_schema, None, scan.physical_filter)
        return reader, self._transaction.plan(scan)

    # Changes

    def _changes(self, merge: SharedMerge, found: AffectedFiles, unmatched: RowNumbers) -> RowChanges:
        if found:
            self._transaction.check_rows_may_change()
        return RowChanges(
            [self._file_change(merge, file, rows) for file, rows in found],
            inserts=self._inserted(unmatched),
            metrics=partial(self._metrics, found),
        )

    def _file_change(self, merge: SharedMerge, file: ScanFile, found: AffectedRows) -> FileChange:
        is_update = self._is_update[found.clauses]
        deleted, updated = (found.rows[mask].astype(np.uint64) for mask in (~is_update, is_update))
        return FileChange(file, deleted, updated, _UpdateRows(merge, found) if len(updated) else None)

    def _inserted(self, unmatched: RowNumbers) -> Iterator[Inserted]:
        """The new rows for source rows without a match."""
        for start in range(0, len(unmatched), _INSERTED_ROWS):
            pairs = Pairs(None, self._merge.source, None, unmatched[start : start + _INSERTED_ROWS])
            chosen = choose(self._merge.not_matched, pairs)
            for number, clause in enumerate(self._merge.not_matched):
                if len(rows := np.flatnonzero(chosen == number)):
                    inserting = pairs.take(rows)
                    yield Inserted(clause.inserted(inserting), inserting.name_row)

    def _metrics(self, found: AffectedFiles, counts: ChangeCounts) -> dict[str, int]:
        """The metrics, under Spark's names."""
        totals = np.zeros(len(self._clauses), np.int64)
        for _, rows in found:
            totals += np.bincount(rows.clauses, minlength=len(self._clauses))
        matched = np.arange(len(self._clauses)) < len(self._merge.matched)

        def rows_in(clauses: npt.NDArray[np.bool_]) -> int:
            return int(totals[clauses].sum())

        return {
            "numSourceRows": self._merge.source.num_rows,
            "numTargetRowsInserted": counts.inserted_rows,
            "numTargetRowsUpdated": rows_in(self._is_update),
            "numTargetRowsMatchedUpdated": rows_in(self._is_update & matched),
            "numTargetRowsNotMatchedBySourceUpdated": rows_in(self._is_update & ~matched),
            "numTargetRowsDeleted": rows_in(~self._is_update),
            "numTargetRowsMatchedDeleted": rows_in(~self._is_update & matched),
            "numTargetRowsNotMatchedBySourceDeleted": rows_in(~self._is_update & ~matched),
            "numTargetRowsCopied": counts.copied_rows,
            "numOutputRows": counts.inserted_rows + counts.updated_rows + counts.copied_rows,
            "numTargetFilesAdded": counts.added_files,
            "numTargetFilesRemoved": counts.removed_files,
            "numTargetBytesAdded": counts.added_bytes,
            "numTargetBytesRemoved": counts.removed_bytes,
            "numTargetChangeFilesAdded": counts.change_files,
            "numTargetDeletionVectorsAdded": counts.vectors_added,
            "numTargetDeletionVectorsUpdated": counts.vectors_updated,
            "numTargetDeletionVectorsRemoved": counts.vectors_removed,
        }


@dataclass(frozen=True)
class _UpdateRows:
    """Applies the update clauses to rows of a file."""

    merge: SharedMerge
    found: AffectedRows

    def open(self, engine: Engine) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        return partial(self._updated, self.merge.open(engine))

    def _updated(self, merge: BoundMerge, rows: pa.RecordBatch) -> Iterator[Updated]:
        found = self.found.take(np.searchsorted(self.found.rows, to_integers(rows.column(ROW_POSITION.name))))
        for number, clause in enumerate(merge.on_target):
            chosen = np.flatnonzero(found.clauses == number)
            if len(chosen):
                before = rows.take(from_numpy(chosen))
                pairs = Pairs(before, merge.source, None, found.source_rows[chosen])
                name_row = pairs.name_row if number < len(merge.matched) else None
                yield Updated(before, clause.updated(before, pairs), name_row)
