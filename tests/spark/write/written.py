"""What a write has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakeport

Rows = list[dict[str, Any]]


def rows(path: str, order: str = "id") -> Rows:
    found: Rows = lakeport.scan(path).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row[order])


def data_files(path: str) -> set[str]:
    return {file.name for file in Path(path).rglob("*.parquet") if "_delta_log" not in file.parts}
