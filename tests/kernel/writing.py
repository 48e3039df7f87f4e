"""Tables that are written by transactions, for the tests of the write path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakeport.kernel.actions import Add
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import Committed, Transaction, create_table, update_table
from lakeport.testing.builder import read
from lakeport.workers.writing import write_rows

Rows = Mapping[str, Sequence[Any]] | pa.Table


def new_table(
    engine: Engine,
    root: str,
    schema: StructType,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    rows: Rows | None = None,
) -> Snapshot:
    transaction = create_table(engine, root, schema, partition_by, properties)
    if rows is not None:
        add(transaction, rows)
    transaction.commit()
    return latest(engine, root)


def latest(engine: Engine, root: str) -> Snapshot:
    return Table.for_path(engine, root).latest_snapshot()


def data_files(transaction: Transaction, rows: Rows) -> list[Add]:
    table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
    return write_rows(transaction.engine, transaction.write_context(), table.to_batches())


def add(transaction: Transaction, rows: Rows) -> Transaction:
    """Stages rows."""
    transaction.add_files(data_files(transaction, rows))
    return transaction


def append(snapshot: Snapshot, rows: Rows) -> Committed:
    return add(update_table(snapshot, "WRITE"), rows).commit()


def removing(snapshot: Snapshot, where: Expression | None = None) -> Transaction:
    """A transaction that has read the files which the filter selects, and removes them."""
    transaction = update_table(snapshot, "DELETE")
    builder = snapshot.scan_builder().with_log_details()
    scan = (builder if where is None else builder.with_filter(where)).build()
    transaction.remove_files(transaction.plan(scan))
    return transaction


def actions_of(engine: Engine, root: str, version: int) -> list[dict[str, Any]]:
    """The lines of a commit."""
    text = engine.storage.read(f"{root}/_delta_log/{version:020d}.json").decode()
    return [json.loads(line) for line in text.splitlines()]


def only(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if kind in action]


def values(snapshot: Snapshot, column: str = "id") -> list[Any]:
    return sorted(read(snapshot).column(column).to_pylist())
