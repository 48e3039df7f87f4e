"""Python values as Arrow values, without `pa.scalar` and `pa.array`.

Both import pandas where it is installed, which costs 0.15 s and 40 MB before the first row is read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakeport.errors import UnsupportedExpressionError

MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

_TEXTS = (pa.string(), pa.large_string())
_BINARIES = (pa.binary(), pa.large_binary())
_CODES = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
    pa.date32(): "i",
    MOMENT: "q",
    LOCAL: "q",
}
_EPOCH = datetime(1970, 1, 1)
_WIDE = Context(prec=100)


def null(data_type: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, data_type)[0]


def own_scalar(value: Any) -> pa.Scalar:
    """A literal in the type of its own. Raises `UnsupportedExpressionError` for what has none."""
    return null(pa.null()) if value is None else array_of([value], _own_type(value))[0]


def _own_type(value: Any) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int() if value.bit_length() < 64:
            return pa.int64()
        case int():
            return _decimal_type(Decimal(value))
        case float():
            return pa.float64()
        case Decimal() if value.is_finite():
            return _decimal_type(value)
        case str():
            return pa.string()
        case bytes():
            return pa.binary()
        case datetime():
            return LOCAL if value.tzinfo is None else MOMENT
        case date():
            return pa.date32()
    raise UnsupportedExpressionError(f"this engine cannot use {value!r} as a literal")


def _decimal_type(value: Decimal) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > 76:
        raise UnsupportedExpressionError(f"a literal of {precision} digits is too long for this engine")
    return decimal_type(precision, scale)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The narrower of Arrow's decimals that has the digits."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def fitting_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar | None:
    """The literal as a value of exactly this type; None if it is no such value."""
    if value is None:
        return null(data_type)
    return array_of([value], data_type)[0] if fits(value, data_type) else None


def fits(value: Any, data_type: pa.DataType) -> bool:
    """Whether a literal other than null is a value of the type: nothing is rounded, and nothing is parsed."""
    match value:
        case bool():
            return bool(types.is_boolean(data_type))
        case int():
            magnitude = value if value >= 0 else ~value
            return bool(types.is_signed_integer(data_type)) and magnitude.bit_length() < data_type.bit_width
        case float():
            return data_type == pa.float64() or (data_type == pa.float32() and _is_single(value))
        case Decimal():
            return bool(types.is_decimal(data_type)) and _fits_decimal(value, data_type)
        case str():
            return data_type in _TEXTS
        case bytes():
            return data_type in _BINARIES
        case datetime():
            return bool(data_type == (LOCAL if value.tzinfo is None else MOMENT))
        case date():
            return bool(types.is_date32(data_type))
    return False


def _is_single(value: float) -> bool:
    """Whether a double is also a single; NaN is, though it is not equal to itself."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0] == value or value != value
    except OverflowError:
        return False


def _fits_decimal(value: Decimal, data_type: pa.DataType) -> bool:
    if not value.is_finite() or value.adjusted() >= data_type.precision - data_type.scale:
        return not value and value.is_finite()
    return value == value.quantize(Decimal(1).scaleb(-data_type.scale), context=_WIDE)


def array_of(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """An array of values that fit the type; no nulls."""
    if types.is_boolean(data_type):
        bits = sum(1 << i for i, value in enumerate(values) if value)
        return _array(data_type, len(values), bits.to_bytes(len(values) // 8 + 1, "little"))
    if types.is_decimal(data_type):
        width, scale = data_type.bit_width // 8, data_type.scale
        unscaled = (int(Decimal(value).scaleb(scale, _WIDE)) for value in values)
        return _array(data_type, len(values), b"".join(i.to_bytes(width, "little", signed=True) for i in unscaled))
    if data_type in _TEXTS or data_type in _BINARIES:
        return _text_array(data_type, [value.encode() if isinstance(value, str) else value for value in values])
    packed = struct.pack(f"<{len(values)}{_CODES[data_type]}", *map(_stored, values))
    return _array(data_type, len(values), packed)


def _stored(value: Any) -> int | float:
    """The number that Arrow keeps for it."""
    match value:
        case datetime():
            naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return (naive - _EPOCH) // timedelta(microseconds=1)
        case date():
            return value.toordinal() - _EPOCH.toordinal()
        case int() | float():
            return value
    raise TypeError(f"no number stands for {value!r}")


def _text_array(data_type: pa.DataType, values: list[bytes]) -> pa.Array:
    code = "q" if types.is_large_string(data_type) or types.is_large_binary(data_type) else "i"
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value))
    return _array(data_type, len(values), struct.pack(f"<{len(offsets)}{code}", *offsets), b"".join(values))


def _array(data_type: pa.DataType, length: int, *buffers: bytes) -> pa.Array:
    return pa.Array.from_buffers(data_type, length, [None, *map(pa.py_buffer, buffers)])
