"""`delete`: rows out of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, format_expression
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot
from lakeport.tables.rows.changes import FileChange, RowChanges
from lakeport.tables.rows.search import find_rows, parse_condition
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
    """Deletes the rows for which the condition holds: SQL text, or an expression made with `lakeport.col`. Rows for
    which it is null stay. Without a condition every row goes.

    Where partitions decide, no data file is read; otherwise only the columns of the condition are. With a `spark`
    session its tasks read and write the files, with the same result; this process commits.
    Raises `InvalidFilterError` and `UnknownColumnError`, and `CommitConflictError` if another writer changes the same
    files meanwhile."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin(snapshot, "DELETE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    transaction.parameters["predicate"] = format_predicate(where)
    workers = open_workers(snapshot.engine, spark)
    with RowChanges(transaction, updates=False, workers=workers) as changes:
        for found in find_rows(transaction, snapshot, condition, workers):
            changes.take(FileChange(found.file, deleted=found.positions))
        counts = changes.stage()
        if counts.deleted_rows is not None:
            transaction.metrics["numDeletedRows"] = counts.deleted_rows
        transaction.metrics |= counts.metrics
        return changes.commit()


def format_predicate(where: str | Expression | None) -> Any:
    """A condition for a table's history."""
    return [] if where is None else [where if isinstance(where, str) else format_expression(where)]
