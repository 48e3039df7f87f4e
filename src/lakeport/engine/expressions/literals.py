"""Convert Python literals to Arrow scalars, and check whether they are exact values of an Arrow type."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakeport.errors import UnsupportedExpressionError
from lakeport.kernel.values import EXACT, FarDate, FarTime, null_of, own_scalar, scalar_of

MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

_TEXTS = (pa.string(), pa.large_string())
_BINARIES = (pa.binary(), pa.large_binary())


def own_literal(value: Any) -> pa.Scalar:
    """A literal in its own type (`kernel.expressions.value_types.literal_type`)."""
    try:
        fitting = next((t for t in (pa.int32(), pa.int64()) if fits(value, t)), None)
        return own_scalar(value) if fitting is None else scalar_of(value, fitting)
    except TypeError as error:
        raise UnsupportedExpressionError(f"this engine cannot use {value!r} as a literal: {error}") from error


def fitting_scalar(value: Any, data_type: pa.DataType) -> pa.Scalar | None:
    """The literal as an exact value of this type; None if it is not one."""
    if value is None:
        return null_of(data_type)
    return scalar_of(value, data_type) if fits(value, data_type) else None


def fits(value: Any, data_type: pa.DataType) -> bool:
    """Whether a non-null literal is a value of the type, without rounding or parsing."""
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
        case datetime() | FarTime():
            return bool(data_type == (LOCAL if value.tzinfo is None else MOMENT))
        case date() | FarDate():
            return bool(types.is_date32(data_type))
    return False


def _is_single(value: float) -> bool:
    """Whether a double is also a single; NaN is, though it does not equal itself."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0] == value or value != value
    except OverflowError:
        return False


def _fits_decimal(value: Decimal, data_type: pa.DataType) -> bool:
    if not value.is_finite() or value.adjusted() >= data_type.precision - data_type.scale:
        return not value and value.is_finite()
    return value == value.quantize(Decimal(1).scaleb(-data_type.scale), context=EXACT)
