"""Names in the paths of URLs."""

from __future__ import annotations

from urllib.parse import quote

from lakeport.sharing.names import TableName


def segment(name: str) -> str:
    """A name as one segment of a path. Raises `ValueError` for what cannot be one."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a name")
    return quote(name, safe="")


def table_path(table: TableName) -> str:
    return f"shares/{segment(table.share)}/schemas/{segment(table.schema)}/tables/{segment(table.table)}"
