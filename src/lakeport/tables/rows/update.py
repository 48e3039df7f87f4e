"""`update`: set columns in rows of tables."""

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
    """Set columns in the rows that satisfy the condition, or in all rows.

    `set` maps columns to SQL text, an expression or a plain Python value (a list or dict for nested types). Strings are
    SQL: pass literal text as `lakeport.lit("text")`. `a.b` sets a struct field. Values are computed from the old rows;
    a number that the column cannot hold exactly must be rounded or cast. Generated columns are recomputed; one that is
    set must match its expression. `spark` is as for `delete`.

    Raises `InvalidFilterError` and `UnknownColumnError` for invalid expressions, `InvalidDataError` and
    `ConstraintError` for values that the table rejects, and `CommitConflictError`."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin(snapshot, "UPDATE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    given = parse_assignments(snapshot.schema, set, transaction.started)
    Assignments.bind(snapshot.engine, snapshot.schema, given)  # fail early on invalid expressions
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
    """Take updated rows from their files; without deletion vectors, take whole files."""
    for found in matches:
        changes.take(FileChange(found.file, replaced=found.positions if changes.uses_vectors else None))
        yield found


@dataclass(frozen=True)
class _UpdateRows:
    """The found rows with new values; with `copies`, the other rows of their files too."""

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
