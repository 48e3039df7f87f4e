"""The rows of tables, in forms that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import lakeport

Row = dict[str, Any]
Rows: TypeAlias = pa.Table | lakeport.Frame | lakeport.Changes | Path | str
"""Rows in memory, a view of a table or of its changes, or a table by its path."""


def arrow(rows: Rows, version: int | None = None) -> pa.Table:
    """The rows in memory; those of a path at a version, or at the latest."""
    if isinstance(rows, Path | str):
        frame = lakeport.scan(str(rows))
        return (frame if version is None else frame.at(version=version)).to_arrow()
    return rows if isinstance(rows, pa.Table) else rows.to_arrow()


def ids(rows: Rows, version: int | None = None) -> list[Any]:
    """The values of the column `id`, sorted."""
    return sorted(arrow(rows, version)["id"].to_pylist())


def rows_of(rows: Rows, version: int | None = None) -> list[Row]:
    """The rows in an order of their own."""
    return sorted(arrow(rows, version).to_pylist(), key=repr)


def texts_of(rows: Rows, version: int | None = None) -> list[str]:
    """The rows as text, so that NaN equals NaN, in an order of their own."""
    return list(map(repr, rows_of(rows, version)))


def canonical(rows: Rows) -> list[str]:
    """The rows as text, in an order of their own, whatever the order of the columns is."""
    return sorted(counted(arrow(rows).to_pylist()).elements())


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often there is each row, whatever the order of its columns is."""
    return Counter(repr(sorted(row.items())) for row in rows)
