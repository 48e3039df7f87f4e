"""`merge`: update, delete and insert rows of a table from a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import schema_from_arrow
from lakeport.tables.input.assignments import check_assignments
from lakeport.tables.input.rows import to_reader
from lakeport.tables.merge.clauses import Clause, ClauseKind, Clauses, MergeDefinition
from lakeport.tables.merge.run import MergeRun
from lakeport.tables.merge.sides import Side
from lakeport.tables.merge.source import load_source
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot
from lakeport.tables.rows.search import format_condition
from lakeport.tables.write.append import add_missing_columns
from lakeport.workers import open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
