"""Lakeport shares, reads and converts Delta tables.

    import lakeport
    orders = lakeport.scan("s3://bucket/orders")
    orders.select("id", "amount").where("amount > 100 AND day = '2026-01-01'").at(version=12).to_arrow()
    lakeport.connect("config.share").shares()
    lakeport.scan("config.share#sales.eu.orders").to_pandas()

Every error that Lakeport raises on purpose is a `LakeportError`; `lakeport.errors` has the tree. Names and packages are
imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakeport.errors import LakeportError
from lakeport.version import __version__

if TYPE_CHECKING:
    from lakeport.client.sync import sync_table as sync
    from lakeport.connection import Connection, connect
    from lakeport.frame import Changes, Frame, scan
    from lakeport.kernel.expressions import col, lit
    from lakeport.queries import sql

__all__ = [
    "Changes",
    "Connection",
    "Frame",
    "LakeportError",
    "__version__",
    "col",
    "connect",
    "lit",
    "scan",
    "sql",
    "sync",
]

_HOMES = {
    "Changes": "lakeport.frame",
    "Connection": "lakeport.connection",
    "Frame": "lakeport.frame",
    "col": "lakeport.kernel.expressions",
    "connect": "lakeport.connection",
    "lit": "lakeport.kernel.expressions",
    "scan": "lakeport.frame",
    "sql": "lakeport.queries",
    "sync": "lakeport.client.sync",
}
_PACKAGES = ("client", "engine", "frame", "iceberg", "kernel", "sharing", "spark", "tables", "testing", "workers")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), "sync_table" if name == "sync" else name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
