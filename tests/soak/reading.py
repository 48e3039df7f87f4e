"""All rows of a table, by our reader and by deltalake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import lakeport

Row = tuple[Any, ...]


def rows_by_lakeport(target: str, options: Mapping[str, Any] | None, *columns: str) -> list[Row]:
    return _sorted(lakeport.scan(target, storage_options=options).select(*columns).to_arrow())


def rows_by_deltalake(target: str, options: Mapping[str, Any] | None, *columns: str) -> list[Row]:
    known = {name: str(value).lower() if isinstance(value, bool) else value for name, value in (options or {}).items()}
    table = DeltaTable(target, storage_options=known or None)
    read = QueryBuilder().register("t", table).execute(f"SELECT {', '.join(columns)} FROM t")
    return _sorted(pa.table(read))


def _sorted(table: pa.Table) -> list[Row]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
