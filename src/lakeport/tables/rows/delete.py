"""`delete`: remove rows from tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.tables.operation import Result, StorageOptions, begin_unless_done, open_snapshot
from lakeport.tables.rows.changes import FileChange, RowChanges
from lakeport.tables.rows.execution import execute
from lakeport.tables.rows.search import find_rows, format_condition, parse_condition
from lakeport.workers import open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete(
    target: str,
    where: str | Expression | None = None,
    *,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
    spark: SparkSession | None = None,
) -> Result:
    """Delete the rows that satisfy a condition: SQL text, or an expression built with `lakeport.col`. Rows for which it
    is null stay. Without a condition, delete every row.

    If partition values decide, no data file is read; otherwise only the condition's columns are. With a `spark`
    session, its tasks read and write the files; this process commits.
    Raises `InvalidFilterError` and `UnknownColumnError`, and `CommitConflictError` if another writer changes the same
    files meanwhile."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin_unless_done(snapshot, "DELETE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    transaction.parameters["predicate"] = [] if where is None else [format_condition(where)]
    workers = open_workers(snapshot.engine, spark)
    found = find_rows(transaction, condition, workers)
    changes = RowChanges(
        [FileChange(file, deleted=positions) for file, positions in found],
        metrics=lambda counts: counts.deletions | counts.metrics,
    )
    return execute(transaction, changes, workers)
