"""Properties and constraints of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial

import pyarrow as pa

from lakeport.errors import ConstraintError
from lakeport.kernel.actions import Add
from lakeport.kernel.definition import (
    CONSTRAINT_PREFIX,
    ENABLE_ROW_TRACKING,
    TableDefinition,
    check_removable,
    constraints_in,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, bind, columns_in, parse_expression, replace_now
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction, update_table
from lakeport.kernel.values import to_mask
from lakeport.kernel.write import format_cell
from lakeport.tables.input.schema import check_sql, check_text
from lakeport.tables.operation import Result, StorageOptions, finish, open_snapshot, snapshot_of
from lakeport.tables.rows.search import counted
from lakeport.workers.ordered import map_ordered
from lakeport.workers.reading import RowReader

_THREADS = 8


def set_properties(
    target: str,
    properties: Mapping[str, str],
    *,
    storage_options: StorageOptions = None,
    engine: Engine | None = None,
) -> Result:
    """Set table properties. Those that enable a feature upgrade the protocol: deletion vectors, column mapping, change
    data feed, type widening … Row tracking assigns ids to all existing rows in the same commit.

    Raises `ValueError` for an unknown property or value, and `UnsupportedFeatureError` for a feature that this version
    cannot write."""
    _refuse_constraints(properties, "add_constraint")
    transaction = update_table(open_snapshot(target, engine, storage_options), "SET TBLPROPERTIES")
    before = transaction.definition
    transaction.definition = before.with_properties(properties)
    if _tracks_rows(transaction.definition) and not _tracks_rows(before):
        transaction.add_files(_adds_with_counts(transaction), data_change=False)
    transaction.parameters |= {"properties": dict(properties)}
    return finish(transaction)


def unset_properties(
    target: str, names: Iterable[str], *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Remove table properties; the features they enabled stay in the protocol, unused.

    Raises `ValueError` for a property that the table lacks or needs."""
    gone = [names] if isinstance(names, str) else list(names)
    _refuse_constraints(gone, "drop_constraint")
    transaction = update_table(open_snapshot(target, engine, storage_options), "UNSET TBLPROPERTIES")
    check_removable(gone, transaction.metadata.configuration)
    transaction.definition = transaction.definition.with_properties({}, unset=gone)
    transaction.parameters |= {"properties": gone, "ifExists": "false"}
    return finish(transaction)


def _refuse_constraints(names: Iterable[str], instead: str) -> None:
    if found := sorted(name for name in names if name.startswith(CONSTRAINT_PREFIX)):
        raise ValueError(f"{found[0]} is a constraint: use {instead}")


def _tracks_rows(definition: TableDefinition) -> bool:
    return ENABLE_ROW_TRACKING.of(definition.metadata.configuration)


def _adds_with_counts(transaction: Transaction) -> list[Add]:
    """The table's files without row ids, unchanged except for added row counts."""
    files = transaction.plan(snapshot_of(transaction).scan_builder().with_log_details().build())

    def add(file: ScanFile) -> Add:
        return counted(transaction.engine, file).to_add(transaction.root, data_change=False)

    return list(map_ordered(add, (file for file in files if file.base_row_id is None), _THREADS, "count"))


def add_constraint(
    target: str, name: str, sql: str, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Add a condition that every row must satisfy; names are case-insensitive. Checks existing rows first.

    Raises `ConstraintError` with a row that violates it, and `CommitConflictError` if rows were added meanwhile."""
    check_text(name, "the name of a constraint")
    check_sql(sql, "the condition of a constraint")
    snapshot = open_snapshot(target, engine, storage_options)
    transaction = update_table(snapshot, "ADD CONSTRAINT")
    known = constraints_in(snapshot.properties)
    if name.lower() in {constraint.lower() for constraint in known}:
        raise ValueError(f"the table already has a constraint {name!r}: drop it first")
    if not name.strip():
        raise ValueError("a constraint needs a name")
    _check_rows(snapshot, transaction, name, sql)
    transaction.definition = transaction.definition.with_properties({f"{CONSTRAINT_PREFIX}{name.lower()}": sql})
    transaction.parameters |= {"name": name, "expr": sql}
    return finish(transaction)


def drop_constraint(
    target: str, name: str, *, storage_options: StorageOptions = None, engine: Engine | None = None
) -> Result:
    """Remove a constraint. Raises `ValueError` if the table does not have it."""
    check_text(name, "the name of a constraint")
    transaction = update_table(open_snapshot(target, engine, storage_options), "DROP CONSTRAINT")
    known = constraints_in(transaction.metadata.configuration)
    found = [constraint for constraint in known if constraint.lower() == name.lower()]
    if not found:
        raise ValueError(f"the table has no constraint {name!r}; it has {', '.join(sorted(known)) or 'none'}")
    unset = [f"{CONSTRAINT_PREFIX}{constraint}" for constraint in found]
    transaction.definition = transaction.definition.with_properties({}, unset=unset)
    transaction.parameters |= {"constraint": name, "expr": known[found[0]]}
    return finish(transaction)


def _check_rows(snapshot: Snapshot, transaction: Transaction, name: str, sql: str) -> None:
    """Raises `ConstraintError` if a row of the table violates a condition."""
    condition = bind(replace_now(parse_expression(sql), snapshot.engine.now()), snapshot.schema)
    paths = [column.path for column in columns_in(condition)]
    scan = snapshot.scan_builder().with_read_schema(snapshot.schema.select(paths)).build()
    check = partial(_first_failure, scan, condition)
    with closing(map_ordered(check, transaction.plan(scan), _THREADS, "check")) as failures:
        found = next((failure for failure in failures if failure is not None), None)
    if found is not None:
        raise ConstraintError(_violation(name, sql, found), constraint=name)


def _violation(name: str, sql: str, row: str) -> str:
    if not row:
        return f"the constraint {name!r} ({sql}) names no column and is not true: no row can satisfy it"
    return f"a row of the table violates the new constraint {name!r} ({sql}): {row}; change such rows first"


def _first_failure(scan: Scan, condition: Expression, file: ScanFile) -> str | None:
    """The first row of a file that violates the condition, formatted for a message: empty without columns."""
    engine, schema = scan.snapshot.engine, scan.scan_state.arrow_schema
    select = engine.expressions.predicate_evaluator(schema, condition)
    for batch in RowReader.for_scan(scan).read(engine, file):
        holds = to_mask(select(batch, None))
        if not holds.all():
            return _format_row(batch, int((~holds).argmax()))
    return None


def _format_row(batch: pa.RecordBatch, row: int) -> str:
    cells = (f"{field.name} = {format_cell(batch.column(index)[row])}" for index, field in enumerate(batch.schema))
    return ", ".join(cells)
