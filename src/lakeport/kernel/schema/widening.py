"""The type changes allowed by Delta's type widening."""

from __future__ import annotations

from lakeport.kernel.schema.types import PrimitiveType

_WIDER_INTEGERS = {"byte": 0, "short": 1, "integer": 2, "long": 3}


def widens(before: str, after: str) -> bool:
    """Whether type widening allows this change of a primitive type."""
    if before == after:
        return True
    if before in _WIDER_INTEGERS and after in _WIDER_INTEGERS:
        return _WIDER_INTEGERS[before] < _WIDER_INTEGERS[after]
    if after == "double":
        return before in ("float", "byte", "short", "integer")
    if after == "timestamp_ntz":
        return before == "date"
    if target := PrimitiveType(after).decimal:
        integers = {"byte": (10, 0), "short": (10, 0), "integer": (10, 0), "long": (20, 0)}
        source = integers.get(before) or PrimitiveType(before).decimal
        return source is not None and target[0] - source[0] >= target[1] - source[1] >= 0
    return False
