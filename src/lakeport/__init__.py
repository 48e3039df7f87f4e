"""Lakeport shares, reads and converts Delta tables.

    import lakeport
    orders = lakeport.scan("s3://bucket/orders")
    orders.select("id", "amount").where("amount > 100 AND day = '2026-01-01'").at(version=12).to_arrow()
    lakeport.connect("config.share").shares()
    lakeport.scan("config.share#sales.eu.orders").to_pandas()

Every error that Lakeport raises on purpose is a `LakeportError`; `lakeport.errors` has the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.connection import Connection, connect
from lakeport.errors import LakeportError
from lakeport.frame import Changes, Frame, scan
from lakeport.kernel.expressions import col, lit
from lakeport.version import __version__

if TYPE_CHECKING:
    from lakeport.client.sync import sync_table as sync

__all__ = ["Changes", "Connection", "Frame", "LakeportError", "__version__", "col", "connect", "lit", "scan", "sync"]


def __getattr__(name: str) -> Any:
    """Import `sync` lazily: reading a local table should not pay for the client's memory."""
    if name != "sync":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakeport.client.sync import sync_table

    return sync_table
