"""Which commits of other writers contradict a transaction, and which it is simply put on top of."""

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CommitConflictError, CorruptTableError
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.schema import PrimitiveType, StructField
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction, create_table, replace_table, update_table
from tests.builder import struct
from tests.kernel.writing import actions_of, add, append, latest, new_table, only, removing, values

ROOT = "memory://table"
SCHEMA = struct(id="long", day="string")
SERIALIZABLE = {"delta.isolationLevel": "Serializable"}

Begin = Callable[[Snapshot], Transaction]


def two_days(properties: dict[str, str] | None = None) -> Snapshot:
    """Ids 1 and 2 on day a, 3 and 4 on day b: two files."""
    rows = {"id": [1, 2, 3, 4], "day": ["a", "a", "b", "b"]}
    return new_table(memory_engine(), ROOT, SCHEMA, ["day"], properties, rows)


def appending(*ids: int, day: str = "a") -> Begin:
    return lambda snapshot: add(update_table(snapshot, "WRITE"), {"id": list(ids), "day": [day] * len(ids)})


def deleting(where: Expression | None = None) -> Begin:
    return lambda snapshot: removing(snapshot, where)


def reading_and_adding(where: Expression | None, *ids: int, day: str = "c") -> Begin:
    """What an INSERT … SELECT from the table itself does."""

    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "WRITE")
        builder = snapshot.scan_builder()
        transaction.plan((builder if where is None else builder.with_filter(where)).build())
        return add(transaction, {"id": list(ids), "day": [day] * len(ids)})

    return begin


def rearranging(where: Expression) -> Begin:
    """What OPTIMIZE does: the same rows in other files."""

    def begin(snapshot: Snapshot) -> Transaction:
        transaction = update_table(snapshot, "OPTIMIZE")
        files = transaction.plan(snapshot.scan_builder().with_log_details().with_filter(where).build())
        transaction.remove_files(files, data_change=False)
        context = [f for f in files]
        transaction.add_files([transaction.existing_add(f, data_change=False, stats=f.stats) for f in context])
        transaction._staged.adds = [_renamed(a) for a in transaction._staged.adds]
        return transaction

    return begin


def _renamed(action: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(action, path=f"new-{action.path.replace('/', '-')}")
