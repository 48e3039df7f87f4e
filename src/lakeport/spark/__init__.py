"""Delta tables and shared tables in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeport.spark.session import session

if TYPE_CHECKING:
    from lakeport.spark.loading import explain, load

__all__ = ["explain", "load", "session"]


def __getattr__(name: str) -> Any:
    """Import `explain` and `load` lazily: Spark's Python workers import this package but need neither."""
    if name not in ("explain", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakeport.spark import loading

    return getattr(loading, name)
