"""`update`: other values into rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import StructType
from lakeport.tables.input.assignments import Assignments, Path, Value, parse_assignments
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot
from lakeport.tables.rows.changes import FileChange, RowChanges
from lakeport.tables.rows.delete import format_predicate
from lakeport.tables.rows.output import Copied, RowChange, Updated, row_reader, split_rows
from lakeport.tables.rows.search import FoundRows, find_rows, parse_condition
from lakeport.workers import open_workers
from lakeport.workers.reading import RowReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def update(
    target: str,
    set: Mapping[str, Any],
    where: str | Expression | None = None,
    *,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> Result:
    """Gives columns other values in the rows for which the condition holds, in all rows without one.

    `set` has SQL text, an expression or a plain Python value for each column, a list or a dict for a nested one; a
    string is SQL text, so text itself is given as `lakeport.lit("text")`. `a.b` sets one field of a struct. Values are
    computed from the rows as they were; a number that the column cannot hold as it is must be rounded or cast.
    Generated columns follow; one that is set must agree with its expression. `spark` is as for `delete`.

    Raises `InvalidFilterError` and `UnknownColumnError` for what cannot be computed, `InvalidDataError` and
    `ConstraintError` for a value that the table does not take, and `CommitConflictError`."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin(snapshot, "UPDATE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    given = parse_assignments(snapshot.schema, set, transaction.started)
    Assignments.bind(snapshot.engine, snapshot.schema, given)  # what cannot be computed is told at once
    transaction.parameters["predicate"] = format_predicate(where)
    workers = open_workers(snapshot.engine, spark)
    with RowChanges(transaction, updates=True, workers=workers) as changes:
        matches = _taken(changes, find_rows(transaction, snapshot, condition, workers))
        copies = not changes.uses_vectors
        changes.rewrite(matches, _UpdateRows(row_reader(snapshot), snapshot.schema, given, copies))
        counts = changes.stage()
        transaction.metrics |= {"numUpdatedRows": counts.updated_rows, **counts.metrics}
        return changes.commit()


def _taken(changes: RowChanges, matches: Iterable[FoundRows]) -> Iterator[FoundRows]:
    """Rows that are updated go from where they are; without deletion vectors, so do their neighbours."""
    for found in matches:
        changes.take(FileChange(found.file, replaced=found.positions if changes.uses_vectors else None))
        yield found


@dataclass(frozen=True)
class _UpdateRows:
    """The rows that are found, with their new values; with `copies`, their neighbours too."""

    reader: RowReader
    schema: StructType
    given: Mapping[Path, Value]
    copies: bool

    def open(self, engine: Engine) -> Callable[[FoundRows], Iterator[RowChange]]:
        assignments = Assignments.bind(engine, self.schema, self.given)

        def update_rows(found: FoundRows) -> Iterator[RowChange]:
            for batch in self.reader.read(engine, found.file):
                before, others = split_rows(batch, found.positions)
                yield Updated(before, assignments(before))
                if self.copies:
                    yield Copied(others)

        return update_rows
