"""Tables, and operations on them that are done twice: by threads, and by the tasks of Spark."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.tables import Result

FILES = 6
ROWS = 10
SMALL_FILES = {"delta.targetFileSize": "3mb"}
"""With what it costs to open a file, a task takes two or three of them."""
POSITIVE = {"delta.constraints.positive": "id >= 0"}


def rows_from(start: int, count: int, value: str) -> pa.Table:
    ids = list(range(start, start + count))
    days = [date(2026, 1, 1 + number % 2) for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "v": [f"{value}{number}" for number in ids]})


def table_in(path: Path, *properties: Mapping[str, str]) -> str:
    """A table of several files in two partitions; some of their rows are deleted already."""
    target = str(path / "a_table")
    merged = {name: value for each in properties for name, value in each.items()}
    tables.create(target, rows_from(0, ROWS, "a"), partition_by=["day"], properties=merged)
    for start in range(ROWS, FILES * ROWS, ROWS):
        tables.append(target, rows_from(start, ROWS, "a"))
    tables.add_constraint(target, "positive", "id >= 0")
    tables.delete(target, "id IN (0, 11, 13)")
    return target


def copy_of(target: str, name: str = "a copy") -> str:
    return shutil.copytree(target, Path(target).parent / name).__fspath__()


def merge_into(target: str, spark: Any) -> Result:
    source = pa.concat_tables([rows_from(5, 30, "b"), rows_from(1000, 5, "c")])
    merge = tables.merge(target, source, "target.id = source.id AND target.day = source.day", spark=spark)
    merge = merge.when_matched_delete("source.id % 7 = 0").when_matched_update({"v": "concat(target.v, source.v)"})
    return (
        merge.when_not_matched_insert_all()
        .when_not_matched_by_source_update({"v": "'alone'"}, "target.id % 5 = 0")
        .execute()
    )


def operate(target: str, spark: Any) -> list[Result]:
    """What touches many files, one after the other."""
    return [
        tables.delete(target, "id % 9 = 2", spark=spark),
        tables.update(target, {"v": "concat('new ', v)"}, "id % 4 = 1", spark=spark),
        merge_into(target, spark),
        tables.optimize(target, purge=True, spark=spark),
        tables.vacuum(target, retention=0, enforce_retention=False, spark=spark),
    ]


def changes_of(target: str, version: int) -> list[tuple[Any, ...]]:
    """What a version changed, but for its time."""
    found = lakeport.scan(target).changes(version, version).to_arrow().drop_columns(["_commit_timestamp"])
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
