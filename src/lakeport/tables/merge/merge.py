"""`merge`: update, delete and insert rows of a table from a source.

One pass finds the affected rows, another writes them. Unaffected files are not touched. A merge that changes no target
row is an append.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.definition import parse_size
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import schema_from_arrow
from lakeport.kernel.transaction import Transaction
from lakeport.tables.input.assignments import check_assignments
from lakeport.tables.input.rows import to_reader
from lakeport.tables.merge.clauses import BoundMerge, Clause, ClauseKind, Clauses, MergeDefinition
from lakeport.tables.merge.in_memory import in_memory_changes
from lakeport.tables.merge.planning import MergeChanges
from lakeport.tables.merge.sides import Side
from lakeport.tables.merge.source import drained, fit_batches, join_source, source_schema, take_until
from lakeport.tables.merge.spilled import spilled_changes
from lakeport.tables.operation import Result, StorageOptions, begin_unless_done, open_snapshot
from lakeport.tables.rows.changes import ChangeCounts, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.search import format_condition
from lakeport.tables.write.append import add_missing_columns
from lakeport.workers import ThreadWorkers, Workers, open_workers
from lakeport.workers.memory import default_memory_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_MEMORY_DIVISOR = 8
"""A source larger than the memory limit divided by this is spilled: lookups and their results take memory too."""
_MAX_SOURCE_BYTES = (1 << 31) - 1
"""The largest source in memory: no column is then too long for Arrow."""


class MergeRun:
    """One execution of a merge."""

    def __init__(self, transaction: Transaction, merge: BoundMerge, workers: Workers, memory_limit: int) -> None:
        """`merge` has none of the source's rows yet."""
        self._transaction, self._merge, self._workers = transaction, merge, workers
        self._memory_limit = memory_limit

    def run(self, batches: Iterator[pa.RecordBatch]) -> Result:
        """Raises the errors of `Merge.execute`."""
        transaction, merge = self._transaction, self._merge
        most = min(self._memory_limit // _IN_MEMORY_DIVISOR, _MAX_SOURCE_BYTES)
        taken, are_all = take_until(batches, None if self._workers.here is None else most)
        if are_all:
            source = join_source(taken, merge.source.schema)
            return self._execute(in_memory_changes(transaction, merge.over(source), self._workers), self._workers)
        workers = ThreadWorkers(transaction.engine, memory=self._memory_limit)
        rest = chain(drained(taken), batches)
        return self._execute(spilled_changes(transaction, merge, workers.here, rest, self._memory_limit), workers)

    def _execute(self, found: AbstractContextManager[MergeChanges], workers: Workers) -> Result:
        with found as changes:
            if changes.files:
                self._transaction.check_rows_may_change()
            metrics = partial(self._metrics, changes)
            return execute(self._transaction, RowChanges(changes.files, changes.inserts, metrics=metrics), workers)

    def _metrics(self, changes: MergeChanges, counts: ChangeCounts) -> dict[str, int]:
        """The metrics, under Spark's names."""
        is_update = self._merge.is_update
        matched = np.arange(len(is_update)) < len(self._merge.matched)

        def rows_in(clauses: npt.NDArray[np.bool_]) -> int:
            return int(changes.rows_of_clauses[clauses].sum())

        return {
            "numSourceRows": changes.source_rows,
            "numTargetRowsInserted": counts.inserted_rows,
            "numTargetRowsUpdated": rows_in(is_update),
            "numTargetRowsMatchedUpdated": rows_in(is_update & matched),
            "numTargetRowsNotMatchedBySourceUpdated": rows_in(is_update & ~matched),
            "numTargetRowsDeleted": rows_in(~is_update),
            "numTargetRowsMatchedDeleted": rows_in(~is_update & matched),
            "numTargetRowsNotMatchedBySourceDeleted": rows_in(~is_update & ~matched),
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
    memory_limit: int | str | None = None,
) -> Merge:
    """Merge a source into a table: add clauses, then call `execute`.

        tables.merge("orders", changes, "target.id = source.id")
              .when_matched_delete("source.deleted")
              .when_matched_update_all()
              .when_not_matched_insert_all()
              .execute()

    `on` is the match condition; columns need an alias only if both sides have them. The source is anything that
    `append` accepts, and is consumed once; the table is read file by file. With `merge_schema`, `…_all` adds source
    columns that the table lacks.

    `memory_limit` is a number of bytes or a size such as "2 GB"; by default, half of the memory that this process may
    take. A source that is too large for it is put into temporary files, in the directory that `TMPDIR` names.

    `application` makes the merge idempotent, as for `append`. With a `spark` session, its tasks find matches and write
    changed files, with the same result; each task holds the source in memory, as does this process, which writes new
    rows, so `memory_limit` has no effect."""
    limit = default_memory_limit() if memory_limit is None else _parse_limit(memory_limit)
    return Merge(
        target, source, on, source_alias, target_alias, merge_schema, application, storage_options, engine, spark, limit
    )


def _parse_limit(given: Any) -> int:
    with suppress(ValueError):
        if isinstance(given, int | str) and not isinstance(given, bool):
            return parse_size(str(given))
    raise ValueError(f"memory_limit takes a number of bytes or a size such as '2 GB', not {given!r}")


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
    memory_limit: int = field(default_factory=default_memory_limit)
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
        transaction = begin_unless_done(snapshot, "MERGE", self.application)
        if transaction is None:
            return Result(snapshot.version)
        reader = to_reader(self.source, snapshot.schema)
        schema = source_schema(reader.schema)
        if self.merge_schema and any(clause.takes_all for clause in self.clauses):
            add_missing_columns(transaction, schema)
        transaction.parameters |= {"predicate": [format_condition(self.on)], **self.clauses.describe()}
        definition = MergeDefinition(
            Side(self.target_alias, snapshot.schema),
            Side(self.source_alias, schema_from_arrow(schema)),
            transaction.schema,
            transaction.started,
            self.merge_schema,
            self.on,
            self.clauses,
        )
        merge = definition.bind(snapshot.engine, join_source([], schema))
        workers = open_workers(snapshot.engine, self.spark)
        return MergeRun(transaction, merge, workers, self.memory_limit).run(fit_batches(reader, schema))

    def _with(self, kind: ClauseKind, clause: Clause) -> Merge:
        return replace(self, clauses=self.clauses.added(kind, clause))


def _copied(given: Values) -> Values:
    check_assignments(given)
    return dict(given)
