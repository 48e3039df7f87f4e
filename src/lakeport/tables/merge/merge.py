"""`merge`: rows of a source into a table, where they update, delete and insert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import schema_from_arrow
from lakeport.tables.input.assignments import check_assignments
from lakeport.tables.input.rows import to_reader
from lakeport.tables.merge.clauses import Clause, Clauses, MergeDefinition, add_clause, format_condition
from lakeport.tables.merge.run import MergeRun
from lakeport.tables.merge.sides import Side
from lakeport.tables.merge.source import load_source
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot
from lakeport.tables.write.append import add_missing_columns
from lakeport.workers import open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Values = Mapping[str, Any]
"""SQL text, an expression or a plain Python value for each column, as `update` takes them; text itself is given as
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
    """A merge of a source into a table: say what to do, then `execute` it.

        tables.merge("orders", changes, "target.id = source.id")
              .when_matched_delete("source.deleted")
              .when_matched_update_all()
              .when_not_matched_insert_all()
              .execute()

    `on` tells which rows match; columns are written with an alias, or without one where only one side has them. The
    source is whatever `append` takes, and is held in memory as a whole; the table is read file by file. With
    `merge_schema`, `…_all` adds the source's columns that the table lacks.

    `application` is a name and a number of the caller's own work: what the table has of it already is not done
    again. With a `spark` session its tasks look for matches and write the files that change, with the same result; the
    source is in the memory of each of them as it is in this process, which writes the rows that are new."""
    return Merge(
        target, source, on, source_alias, target_alias, merge_schema, application, storage_options, engine, spark
    )


@dataclass(frozen=True, eq=False)
class Merge:
    """What a merge is to do; each method that adds a clause gives a new one.

    Of the clauses for a row the first applies whose condition holds, or that has none: only the last of a kind may have
    none. A row that no clause applies to stays as it is."""

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
        """Sets columns in rows of the table that a row of the source matches; both may be used in values."""
        return self._with_matched(Clause("update", condition, _copied(set)))

    def when_matched_update_all(self, condition: Condition | None = None) -> Merge:
        """Sets every column to that of the source."""
        return self._with_matched(Clause("update", condition))

    def when_matched_delete(self, condition: Condition | None = None) -> Merge:
        """Deletes rows of the table that a row of the source matches."""
        return self._with_matched(Clause("delete", condition))

    def when_not_matched_insert(self, values: Values, condition: Condition | None = None) -> Merge:
        """Inserts rows of the source that match no row of the table. Columns without a value get their default."""
        return self._with_not_matched(Clause("insert", condition, _copied(values)))

    def when_not_matched_insert_all(self, condition: Condition | None = None) -> Merge:
        """Inserts rows of the source as they are."""
        return self._with_not_matched(Clause("insert", condition))

    def when_not_matched_by_source_update(self, set: Values, condition: Condition | None = None) -> Merge:
        """Sets columns in rows of the table that no row of the source matches."""
        return self._with_not_matched_by_source(Clause("update", condition, _copied(set)))

    def when_not_matched_by_source_delete(self, condition: Condition | None = None) -> Merge:
        """Deletes rows of the table that no row of the source matches."""
        return self._with_not_matched_by_source(Clause("delete", condition))

    def execute(self) -> Result:
        """Does it, in one commit.

        Raises `InvalidFilterError` and `UnknownColumnError` for what cannot be worked out, `InvalidDataError` if a row
        of the table would be changed by several rows of the source (to delete it, without a condition, several may),
        `ConstraintError` for a row that the table does not take, and `CommitConflictError`."""
        if not any(self.clauses):
            raise ValueError("the merge does nothing: say what to do with rows, as when_not_matched_insert_all does")
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
        return MergeRun(transaction, source, definition, open_workers(snapshot.engine, self.spark)).run()

    def _with_matched(self, clause: Clause) -> Merge:
        return self._with(matched=add_clause(self.clauses.matched, clause))

    def _with_not_matched(self, clause: Clause) -> Merge:
        return self._with(not_matched=add_clause(self.clauses.not_matched, clause))

    def _with_not_matched_by_source(self, clause: Clause) -> Merge:
        return self._with(not_matched_by_source=add_clause(self.clauses.not_matched_by_source, clause))

    def _with(self, **clauses: tuple[Clause, ...]) -> Merge:
        return replace(self, clauses=replace(self.clauses, **clauses))


def _copied(given: Values) -> Values:
    check_assignments(given)
    return dict(given)
