"""Locates a Delta table and its mirror."""

from __future__ import annotations

import os
from typing import Any

from lakeport.errors import ConversionError
from lakeport.iceberg.table.metadata import DELTA_LOCATION, DELTA_TABLE_ID, mirrored_version
from lakeport.iceberg.targets.target import PathTarget, Published, Target
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import parse_target
from lakeport.kernel.snapshot import Snapshot, Table

_FOLDER = "_iceberg"
"""In the Delta table's directory: VACUUM ignores folders that start with `_`. A mirror in a catalog has its own folder,
named after the table there: `clean` of one mirror must not find files of another."""


def open_place(
    engine: Engine,
    target: str,
    out: str | None = None,
    catalog: Any = None,
    table: str | None = None,
) -> tuple[Table, Target]:
    """The Delta table, and the location of its mirror; takes the arguments of `convert`. Raises `ValueError`."""
    source = Table.for_path(engine, _without_links(engine.storage.resolve(parse_target(target))))
    if (catalog is None) != (table is None):
        raise ValueError("give a catalog together with the name of the table in it, or neither")
    location = f"{source.root}/{_default_folder(table)}" if out is None else parse_target(out)
    if table is None:
        return source, PathTarget(engine, location)
    from lakeport.iceberg.targets.catalog import CatalogTarget, open_catalog

    return source, CatalogTarget(engine, location, open_catalog(catalog), table)


def _without_links(root: str) -> str:
    """A mirror identifies its table and files by path: each must have only one."""
    return root if "://" in root else os.path.realpath(root)


def _default_folder(table: str | None) -> str:
    if table is not None and "/" in table:
        raise ValueError(f"give a directory for the mirror: no folder can be named after the table {table!r}")
    return _FOLDER if table is None else f"{_FOLDER}-{table}"


def check_mirror(base: Published, latest: Snapshot) -> bool:
    """Whether the published table mirrors a Delta table at this location; False if it mirrors this table at a former
    one.

    Raises `ConversionError` if it is neither."""
    properties = base.metadata.get("properties", {})
    if mirrored_version(base.metadata) is None:
        raise ConversionError(
            f"there is an Iceberg table that Lakeport did not make: give another directory [{base.path}]",
            reason="no mirror",
        )
    same_place: bool = properties.get(DELTA_LOCATION) == latest.root
    same_table = properties.get(DELTA_TABLE_ID) == latest.metadata.id
    if not same_place and not same_table:
        raise ConversionError(
            f"there is the mirror of another table, {properties.get(DELTA_LOCATION)}: give another directory "
            f"[{base.path}]",
            reason="another table",
        )
    return same_place
