"""`update`: set columns in rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, columns_in
from lakeport.kernel.schema import StructType
from lakeport.tables.input.assignments import Assignments, Path, Value, parse_assignments
from lakeport.tables.operation import Result, StorageOptions, begin_unless_done, open_snapshot
from lakeport.tables.rows.changes import FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.output import Updated
from lakeport.tables.rows.search import find_rows, format_condition, parse_condition
from lakeport.workers import open_workers

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
    transaction = begin_unless_done(snapshot, "UPDATE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    given = parse_assignments(snapshot.schema, set, transaction.started)
    Assignments.bind(snapshot.engine, snapshot.schema, given)  # fail early on invalid expressions
    transaction.parameters["predicate"] = [] if where is None else [format_condition(where)]
    workers = open_workers(snapshot.engine, spark)
    update = _SetColumns(snapshot.schema, given)
    found = find_rows(transaction, condition, workers)
    changes = RowChanges(
        [FileChange(file, updated=positions, update=update) for file, positions in found],
        metrics=lambda counts: {"numUpdatedRows": counts.updated_rows, **counts.metrics},
    )
    return execute(transaction, changes, workers)


@dataclass(frozen=True)
class _SetColumns:
    schema: StructType
    given: Mapping[Path, Value]

    @property
    def sets(self) -> frozenset[str]:
        return frozenset(path[0] for path in self.given)

    @property
    def reads(self) -> frozenset[str]:
        values = (value for value in self.given.values() if isinstance(value, Expression))
        names = {self.schema.resolve(column.path)[0].name for value in values for column in columns_in(value)}
        return frozenset(names.union(path[0] for path in self.given if len(path) > 1))

    def open(self, engine: Engine, columns: StructType) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        assignments = Assignments.bind(engine, self.schema, self.given, columns)
        return lambda rows: iter([Updated(rows, assignments(rows))])
