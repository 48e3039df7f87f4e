"""`update`: other values into rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lakeport.engine.reading import RowReader, in_order
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.snapshot import Snapshot
from lakeport.tables.assignments import Assignments, parse_assignments
from lakeport.tables.delete import format_predicate
from lakeport.tables.operation import Result, StorageOptions, begin, open_snapshot
from lakeport.tables.row_changes import FileChange, RowChanges, row_reader, split_rows
from lakeport.tables.row_search import READERS, FoundRows, find_rows, parse_condition


def update(
    target: str,
    set: Mapping[str, Any],
    where: str | Expression | None = None,
    *,
    application: tuple[str, int] | None = None,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Gives columns other values in the rows for which the condition holds, in all rows without one.

    `set` has SQL text, an expression or a plain Python value for each column, a list or a dict for a nested one; a
    string is SQL text, so text itself is given as `lakeport.lit("text")`. `a.b` sets one field of a struct. Values are
    computed from the rows as they were; a number that the column cannot hold as it is must be rounded or cast.
    Generated columns follow; one that is set must agree with its expression.

    Raises `InvalidFilterError` and `UnknownColumnError` for what cannot be computed, `InvalidDataError` and
    `ConstraintError` for a value that the table does not take, and `CommitConflictError`."""
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = begin(snapshot, "UPDATE", application)
    if transaction is None:
        return Result(snapshot.version)
    condition = parse_condition(where, transaction.started)
    given = parse_assignments(snapshot.schema, set, transaction.started)
    assignments = Assignments.bind(snapshot.engine, snapshot.schema, given)
    transaction.parameters["predicate"] = format_predicate(where)
    with RowChanges(transaction, updates=True) as changes:
        matches = _taken(changes, find_rows(transaction, snapshot, condition))
        for rows in in_order(matches, partial(_updated, snapshot, row_reader(snapshot), assignments), READERS):
            changes.update(rows.before, rows.after)
            if not changes.uses_vectors:
                changes.copy(rows.others)
        counts = changes.stage()
        transaction.metrics |= {"numUpdatedRows": counts.updated_rows, **counts.metrics}
        return changes.commit()


def _taken(changes: RowChanges, matches: Iterable[FoundRows]) -> Iterator[FoundRows]:
    """Rows that are updated go from where they are; without deletion vectors, so do their neighbours."""
    for found in matches:
        changes.take(FileChange(found.file, replaced=found.positions if changes.uses_vectors else None))
        yield found


@dataclass(frozen=True, eq=False)
class _Updated:
    before: pa.RecordBatch
    after: pa.RecordBatch
    others: pa.RecordBatch


def _updated(snapshot: Snapshot, reader: RowReader, assignments: Assignments, found: FoundRows) -> Iterator[_Updated]:
    for batch in reader.read(snapshot.engine, found.file):
        before, others = split_rows(batch, found.positions)
        yield _Updated(before, assignments(before), others)
