"""`merge`: update, delete and insert rows of a table from a source.

One pass finds the affected rows, another writes them. Unaffected files are not touched. A merge that changes no target
row is an append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import ROW_POSITION, schema_from_arrow
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.tables.input.assignments import check_assignments
from lakeport.tables.input.rows import to_reader
from lakeport.tables.merge.clauses import BoundMerge, Clause, ClauseKind, Clauses, MergeDefinition, choose
from lakeport.tables.merge.matching import target_filter
from lakeport.tables.merge.search import AffectedFiles, AffectedRows, SearchTask
from lakeport.tables.merge.sides import Pairs, RowNumbers, Side
from lakeport.tables.merge.source import SharedMerge, load_source, shared_merge
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot, snapshot_of
from lakeport.tables.rows.changes import ChangeCounts, FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.output import Inserted, Updated
from lakeport.tables.rows.search import format_condition
from lakeport.tables.write.append import add_missing_columns
from lakeport.workers import Workers, open_workers
from lakeport.workers.reading import RowReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


Values = Mapping[str, Any]
"""SQL text, an expression or a plain Python value for each column, as for `update`; pass literal text as
`lakeport.lit("text")`."""
Condition = str | Expression


def merge(
    target: str,
    source: Any,
    on: Condition,
    *,
    source_alias: str = "source",
    target_alias: str = "target",
    merge_schema: bool = False,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> Merge:
    """Merge a source into a table: add clauses, then call `execute`.

        tables.merge("orders", changes, "target.id = source.id")
              .when_matched_delete("source.deleted")
              .when_matched_update_all()
              .when_not_matched_insert_all()
              .execute()

    `on` is the match condition; columns need an alias only if both sides have them. The source is anything that
    `append` accepts and is held in memory; the table is read file by file. With `merge_schema`, `…_all` adds source
    columns that the table lacks.

    `application` makes the merge idempotent, as for `append`. With a `spark` session, its tasks find matches and write
    changed files, with the same result; each task holds the source in memory, as does this process, which writes new
    rows."""
    return Merge(
        target, source, on, source_alias, target_alias, merge_schema, application, storage_options, engine, spark
    )


@dataclass(frozen=True, eq=False)
class Merge:
    """A merge to execute; methods that add a clause return a new one.

    For each row, the first clause whose condition holds applies; only the last of a kind may have no condition. Rows
    without an applicable clause stay unchanged."""

    target: str
    source: Any
    on: Condition
    source_alias: str = "source"
    target_alias: str = "target"
    merge_schema: bool = False
    application: tuple[str, int] | None = None
    storage_options: StorageOptions = None
    engine: Engine | None = None
    spark: SparkSession | None = None
    clauses: Clauses = field(default_factory=Clauses)

    def when_matched_update(self, set: Values, condition: Condition | None = None) -> Merge:
        """Set columns in table rows with a match; values may use both sides."""
        return self._with("matched", Clause("update", condition, _copied(set)))

    def when_matched_update_all(self, condition: Condition | None = None) -> Merge:
        """Set every column from the source."""
        return self._with("matched", Clause("update", condition))

    def when_matched_delete(self, condition: Condition | None = None) -> Merge:
        """Delete table rows with a match."""
        return self._with("matched", Clause("delete", condition))

    def when_not_matched_insert(self, values: Values, condition: Condition | None = None) -> Merge:
        """Insert source rows without a match. Columns without a value get their default."""
        return self._with("not_matched", Clause("insert", condition, _copied(values)))

    def when_not_matched_insert_all(self, condition: Condition | None = None) -> Merge:
        """Insert source rows without a match, unchanged."""
        return self._with("not_matched", Clause("insert", condition))

    def when_not_matched_by_source_update(self, set: Values, condition: Condition | None = None) -> Merge:
        """Set columns in table rows without a match."""
        return self._with("not_matched_by_source", Clause("update", condition, _copied(set)))

    def when_not_matched_by_source_delete(self, condition: Condition | None = None) -> Merge:
        """Delete table rows without a match."""
        return self._with("not_matched_by_source", Clause("delete", condition))

    def execute(self) -> Result:
        """Run the merge in one commit.

        Raises `InvalidFilterError` and `UnknownColumnError` for invalid expressions, `InvalidDataError` if several
        source rows would change the same table row (except to delete it unconditionally), `ConstraintError` for rows
        that the table rejects, and `CommitConflictError`."""
        if not any(self.clauses):
            raise ValueError("the merge has no clauses: add one, such as when_not_matched_insert_all()")
        snapshot = open_snapshot(self.target, self.engine, self.storage_options)
        transaction = begin(snapshot, "MERGE", self.application)
        if transaction is None:
            return Result(snapshot.version)
        source = load_source(to_reader(self.source, snapshot.schema))
        if self.merge_schema and any(clause.takes_all for clause in self.clauses):
            add_missing_columns(transaction, source.schema)
        transaction.parameters |= {"predicate": [format_condition(self.on)], **self.clauses.describe()}
        definition = MergeDefinition(
            Side(self.target_alias, snapshot.schema),
            Side(self.source_alias, schema_from_arrow(source.schema)),
            transaction.schema,
            transaction.started,
            self.merge_schema,
            self.on,
            self.clauses,
        )
        merge = definition.bind(snapshot.engine, source)
        return MergeRun(transaction, merge, open_workers(snapshot.engine, self.spark)).run()

    def _with(self, kind: ClauseKind, clause: Clause) -> Merge:
        return replace(self, clauses=self.clauses.added(kind, clause))


def _copied(given: Values) -> Values:
    check_assignments(given)
    return dict(given)
