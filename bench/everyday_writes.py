"""Everyday changes of tables by Lakeport and deltalake, each to a linked copy. See `everyday_jobs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.everyday_jobs import Job
from bench.targets import Changed, linked_copy, source_of

Change = Callable[[str, Any], Any]
"""Changes the table at a path, by the rows of a source if it takes one."""

_ONE_PERCENT = "l_partkey % 100 = 7"
_ONE_ORDER = "l_orderkey = 1000"
_KEYS = " AND ".join(f"target.{name} = source.{name}" for name in ("l_orderkey", "l_linenumber"))
_TAKE_ROWS = ("append", "merge")


def lakeport_change(task: str) -> Change:
    from lakeport import tables

    def merge(target: str, rows: Any) -> Any:
        matched = tables.merge(target, rows, _KEYS).when_matched_update_all()
        return matched.when_not_matched_insert_all().execute()

    changes: dict[str, Change] = {
        "append": tables.append,
        "optimize": lambda target, _: tables.optimize(target),
        "delete": lambda target, _: tables.delete(target, _ONE_PERCENT),
        "delete_one": lambda target, _: tables.delete(target, "c0 = 1"),
        "delete_order": lambda target, _: tables.delete(target, _ONE_ORDER),
        "update": lambda target, _: tables.update(target, {"l_tax": "0.5"}, _ONE_PERCENT),
        "merge": merge,
    }
    return changes[task]


def deltalake_change(task: str) -> Change:
    from deltalake import DeltaTable, WriterProperties, write_deltalake

    snappy = WriterProperties(compression="SNAPPY")  # as Lakeport, and as deltalake itself in other operations

    def merge(target: str, rows: Any) -> Any:
        merger = DeltaTable(target).merge(rows, _KEYS, source_alias="source", target_alias="target")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    changes: dict[str, Change] = {
        "append": lambda target, rows: write_deltalake(target, rows, mode="append"),
        "optimize": lambda target, _: DeltaTable(target).optimize.compact(writer_properties=snappy),
        "delete": lambda target, _: DeltaTable(target).delete(_ONE_PERCENT, writer_properties=snappy),
        "delete_one": lambda target, _: DeltaTable(target).delete("c0 = 1"),
        "delete_order": lambda target, _: DeltaTable(target).delete(_ONE_ORDER, writer_properties=snappy),
        "update": lambda target, _: DeltaTable(target).update(updates={"l_tax": "0.5"}, predicate=_ONE_PERCENT),
        "merge": merge,
    }
    return changes[task]


TOOLS = {"lakeport": lakeport_change, "deltalake": deltalake_change}


def changing(tool: str, task: str, path: str) -> Callable[[], Changed]:
    """The rows are in memory before the clock starts."""
    import pyarrow.parquet as pq

    change, target = TOOLS[tool](task), linked_copy(path, tool)
    rows = pq.read_table(source_of(path, task)) if task in _TAKE_ROWS else None

    def work() -> Changed:
        change(str(target), rows)
        return Changed(target)

    return work


TASKS = ("append", "optimize", "delete", "delete_one", "delete_order", "update", "merge")
JOBS: dict[str, Job] = {f"{tool}_{task}_lines": partial(changing, tool, task) for tool in TOOLS for task in TASKS}
