"""Iceberg's binary single values, used for bounds of columns and partitions.

See "Binary single-value serialization" in Iceberg's specification.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakeport.kernel.values import FarDate, FarTime, days_of, microseconds_of


def to_plain(value: Any) -> Any:
    """A value as stored: days and microseconds since the epoch, the unscaled digits of a decimal."""
    match value:
        case datetime() | FarTime():
            return microseconds_of(value)
        case date() | FarDate():
            return days_of(value)
        case Decimal():
            return unscaled(value)
    return value


def unscaled(value: Decimal) -> int:
    """A decimal's digits as one integer."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number


def encode_unscaled(number: int) -> bytes:
    """Two's complement, big-endian, in as few bytes as possible."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


_FIXED: Mapping[str, struct.Struct] = {
    "boolean": struct.Struct("<?"),
    "int": struct.Struct("<i"),
    "date": struct.Struct("<i"),
    "long": struct.Struct("<q"),
    "timestamp": struct.Struct("<q"),
    "timestamptz": struct.Struct("<q"),
    "float": struct.Struct("<f"),
    "double": struct.Struct("<d"),
}


def encode_value(value: Any, iceberg_type: str) -> bytes:
    """A plain value of a primitive type."""
    if form := _FIXED.get(iceberg_type):
        return form.pack(value)
    if iceberg_type.startswith("decimal"):
        return encode_unscaled(value)
    return value.encode() if isinstance(value, str) else bytes(value)


def decode_value(data: bytes, iceberg_type: str) -> Any:
    """The inverse; also decodes values written before their type was promoted."""
    if form := _FIXED.get(iceberg_type):
        narrower = {"<q": "<i", "<d": "<f"}.get(form.format, form.format)
        return struct.unpack(form.format if len(data) == form.size else narrower, data)[0]
    if iceberg_type.startswith("decimal"):
        return int.from_bytes(data, "big", signed=True)
    return data.decode() if iceberg_type == "string" else data
