"""Small tables to look after, and what tests ask about them."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.engine import ComposedEngine, engine_over
from lakeport.engine.clock import system_clock
from lakeport.engine.storage.storage import Storage

DAY = 86_400_000


def numbers(start: int, count: int, **columns: Any) -> pa.Table:
    """Rows with an `id`; further columns repeat a value."""
    ids = list(range(start, start + count))
    return pa.table({"id": pa.array(ids, pa.int64()), **{name: [value] * count for name, value in columns.items()}})


def table_of(path: Path, files: int, *properties: Mapping[str, str], rows: int = 10) -> str:
    """A table of so many files with so many rows each, whose ids count from 0."""
    target = str(path / "a table")
    tables.create(target, numbers(0, rows), properties=dict(ChainMap(*map(dict, properties))))
    for start in range(rows, files * rows, rows):
        tables.append(target, numbers(start, rows))
    return target


def changed_rows(target: str, version: int) -> list[tuple[int, str]]:
    """Ids and kinds of what a version changed."""
    found = lakeport.scan(target).changes(version, version).to_arrow().to_pylist()
    return sorted((row["id"], row["_change_type"]) for row in found)


def data_files(target: str) -> set[str]:
    """The files on the disk, but for the log, by their paths from the table."""
    root = Path(target)
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {path for path in found if not path.startswith("_delta_log/")}


def live_files(target: str) -> set[str]:
    return {os.path.relpath(file.path, target) for file in lakeport.scan(target).files()}


def later(milliseconds: int) -> ComposedEngine:
    """An engine whose clock is ahead."""
    return engine_over(Storage(), lambda: system_clock() + milliseconds)
