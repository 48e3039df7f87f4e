"""Where a mirror is published: a directory or a catalog.

May import `table`.
"""

from __future__ import annotations

import os
from typing import Any

from lakeport.iceberg.targets.target import PathTarget, Target
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import parse_target
from lakeport.kernel.snapshot import Table
from lakeport.locations import is_url

_FOLDER = "_iceberg"
"""In the Delta table's directory: VACUUM ignores folders that start with `_`. A mirror in a catalog has its own folder,
named after the table there: `clean` of one mirror must not find files of another."""


def open_mirror(
    engine: Engine,
    target: str,
    out: str | None = None,
    catalog: Any = None,
    table: str | None = None,
) -> tuple[Table, Target]:
    """The Delta table, and the location of its mirror; takes the arguments of `convert`. Raises `ValueError`."""
    source = Table.for_path(engine, _without_links(engine.storage.resolve(parse_target(target))))
    if (catalog is None) != (table is None):
        raise ValueError("pass both a catalog and the name of the table in it, or neither")
    location = f"{source.root}/{_default_folder(table)}" if out is None else parse_target(out)
    if table is None:
        return source, PathTarget(engine, location)
    from lakeport.iceberg.targets.catalog import CatalogTarget, open_catalog

    return source, CatalogTarget(engine, location, open_catalog(catalog), table)


def _without_links(root: str) -> str:
    """A mirror identifies its table and files by path: each must have only one."""
    return root if is_url(root) else os.path.realpath(root)


def _default_folder(table: str | None) -> str:
    if table is not None and "/" in table:
        raise ValueError(f"pass a directory for the mirror: no folder can be named after the table {table!r}")
    return _FOLDER if table is None else f"{_FOLDER}-{table}"
