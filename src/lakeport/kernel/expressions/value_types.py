"""Types of values, by Spark's ANSI rules: literals, arithmetic, casts and assignment."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions.literals import INTEGER_BITS
from lakeport.kernel.schema import VOID, DataType, PrimitiveType, same_shape
from lakeport.kernel.values import FarDate, FarTime

BOOLEAN, STRING = PrimitiveType("boolean"), PrimitiveType("string")
DATE, TIMESTAMP, TIMESTAMP_NTZ = PrimitiveType("date"), PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz")
BINARY, INTEGER, LONG = PrimitiveType("binary"), PrimitiveType("integer"), PrimitiveType("long")
FLOAT, DOUBLE = PrimitiveType("float"), PrimitiveType("double")

FLOATS = frozenset({FLOAT, DOUBLE})
MOMENTS = (DATE, TIMESTAMP_NTZ, TIMESTAMP)
"""Each can represent the values of those before it."""

_CAST_TARGETS = (*INTEGER_BITS, "float", "double", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
_MOST_DIGITS = 38
_LEAST_SCALE = 6
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}

Digits = tuple[int, int]
"""Precision and scale of a decimal."""


def parse_type_name(name: str) -> PrimitiveType:
    """Parse a protocol type name. Raises `InvalidFilterError`."""
    data_type = PrimitiveType(name)
    precision, scale = data_type.decimal or (1, 0)
    if (data_type.decimal is None and name not in _CAST_TARGETS) or not 0 <= scale <= precision <= _MOST_DIGITS:
        raise InvalidFilterError(f"unknown type {name} to cast to; use one of {', '.join(_CAST_TARGETS)} and decimal")
    return decimal_of(precision, scale) if data_type.decimal else data_type


def decimal_of(precision: int, scale: int) -> PrimitiveType:
    return PrimitiveType(f"decimal({precision},{scale})")


def is_integer(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name in INTEGER_BITS


def is_number(data_type: DataType) -> bool:
    return digits_of(data_type) is not None or data_type in FLOATS


def digits_of(data_type: DataType) -> Digits | None:
    """Precision and scale of the decimal that holds every value of the type; None for inexact types."""
    if not isinstance(data_type, PrimitiveType):
        return None
    if data_type.name in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[data_type.name], 0
    return data_type.decimal


def literal_type(value: Any) -> PrimitiveType:
    """The type of a literal without context. Raises `InvalidFilterError`."""
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int() if -(2**63) <= value < 2**63:
            return INTEGER if -(2**31) <= value < 2**31 else LONG
        case int() | Decimal():
            return _decimal_literal_type(Decimal(value))
        case float():
            return DOUBLE
        case str():
            return STRING
        case bytes():
            return BINARY
        case datetime() | FarTime():
            return TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP
        case date() | FarDate():
            return DATE
    raise InvalidFilterError(f"{value!r} cannot be a literal: Delta has no type for it")


def _decimal_literal_type(value: Decimal) -> PrimitiveType:
    precision, scale = literal_digits(value)
    if precision > _MOST_DIGITS:
        raise InvalidFilterError(f"{value} has more than {_MOST_DIGITS} digits; write it with an exponent, as a double")
    return decimal_of(precision, scale)


def literal_digits(value: int | Decimal) -> Digits:
    """The narrowest decimal that holds the number."""
    number = Decimal(value)
    if not number.is_finite():
        raise InvalidFilterError(f"{value} cannot be a decimal")
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + max(0, int(exponent)), scale), scale


def arithmetic_types(
    op: str, left: DataType, right: DataType
) -> tuple[PrimitiveType, PrimitiveType, PrimitiveType] | None:
    """The types to convert both operands to, and the result type; None if there is no such operation."""
    left, right = _instead_of_void(left, right), _instead_of_void(right, left)
    if not (is_number(left) and is_number(right)):
        return None
    if left in FLOATS or right in FLOATS:
        shared = FLOAT if left == right == FLOAT and op != "/" else DOUBLE
        return None if op == "div" else (shared, shared, shared)
    if is_integer(left) and is_integer(right):
        shared = {"/": DOUBLE, "div": LONG}.get(op) or _wider(left, right)
        return shared, shared, shared
    a, b = digits_of(left), digits_of(right)
    assert a is not None
    assert b is not None
    return decimal_of(*a), decimal_of(*b), LONG if op == "div" else decimal_of(*decimal_result(op, a, b))


def _instead_of_void(data_type: DataType, other: DataType) -> DataType:
    if data_type != VOID:
        return data_type
    return DOUBLE if other == VOID else other


def _wider(left: DataType, right: DataType) -> PrimitiveType:
    names = list(INTEGER_BITS)
    assert isinstance(left, PrimitiveType)
    assert isinstance(right, PrimitiveType)
    return max(left, right, key=lambda data_type: names.index(data_type.name))


def decimal_result(op: str, left: Digits, right: Digits) -> Digits:
    """Precision and scale of the result; beyond 38 digits, decimal places are dropped first, down to 6."""
    (p1, s1), (p2, s2) = left, right
    whole, scale = max(p1 - s1, p2 - s2), max(s1, s2)
    match op:
        case "*":
            return _bounded(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_LEAST_SCALE, s1 + p2 + 1)
            return _bounded(p1 - s1 + s2 + scale, scale)
        case "%":
            return _bounded(min(p1 - s1, p2 - s2) + scale, scale)
    return _bounded(whole + scale + 1, scale)


def _bounded(precision: int, scale: int) -> Digits:
    if precision <= _MOST_DIGITS:
        return precision, scale
    return _MOST_DIGITS, max(_MOST_DIGITS - (precision - scale), min(scale, _LEAST_SCALE))


def rounded_digits(digits: Digits, places: int) -> Digits:
    """Digits of a decimal rounded to `places` decimal places: it may need one more digit before the point."""
    precision, scale = digits
    whole = precision - scale + 1
    if places < 0:
        return min(max(whole, 1 - places), _MOST_DIGITS), 0
    kept = min(scale, places)
    return min(whole + kept, _MOST_DIGITS), kept


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The narrowest type that holds the values of both, for CASE branches; None if there is none."""
    if left == VOID or same_shape(left, right):
        return right
    if right == VOID:
        return left
    if left in MOMENTS and right in MOMENTS:
        return max(left, right, key=MOMENTS.index)
    if not (is_number(left) and is_number(right)):
        return None
    if left in FLOATS or right in FLOATS:
        return DOUBLE
    if is_integer(left) and is_integer(right):
        return _wider(left, right)
    return _common_decimal(digits_of(left) or (0, 0), digits_of(right) or (0, 0))


def _common_decimal(left: Digits, right: Digits) -> PrimitiveType:
    whole, scale = max(left[0] - left[1], right[0] - right[1]), max(left[1], right[1])
    precision = min(whole + scale, _MOST_DIGITS)
    return decimal_of(precision, max(0, precision - whole) if whole + scale > _MOST_DIGITS else scale)


def is_assignable(source: DataType, target: DataType) -> bool:
    """Whether a value can be stored as `target` without a CAST: Spark's store assignment, ANSI policy."""
    if source == VOID or same_shape(source, target):
        return True
    if is_number(source) and is_number(target):
        return True
    if source in MOMENTS and target in MOMENTS:
        return True
    return target == STRING and _is_plain(source)


def is_castable(source: DataType, target: DataType) -> bool:
    """Whether CAST supports the conversion; individual values may still not fit."""
    if is_assignable(source, target):
        return True
    if source == STRING:
        return _is_plain(target)
    both = (source, target)
    if BOOLEAN in both:
        return is_number(source) or is_number(target)
    return TIMESTAMP in both and (is_integer(source) or is_integer(target))


def _is_plain(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name != "variant"
