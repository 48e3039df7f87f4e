"""CAST over Arrow data, as in Spark's ANSI mode: a value that does not fit is an error, never a different value.

Casting to an integer truncates; casting to a decimal rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.expressions import far_years
from lakeport.engine.expressions.literals import LOCAL, MOMENT
from lakeport.engine.expressions.nodes import Datum, by_row
from lakeport.errors import UnsupportedExpressionError
from lakeport.kernel.expressions import cast_text, round_decimal
from lakeport.kernel.schema import PrimitiveType, arrow_type
from lakeport.kernel.values import EXACT, array_of, is_number, is_text, scalar_of

Cast = Callable[[Datum], Datum]

_MILLION = scalar_of(1_000_000, pa.int64())
_EXACT_DIGITS = 15
"""Integers up to this many digits are exact doubles, as are powers of ten up to 22: their quotient is rounded once."""


def caster(source: pa.DataType, target: PrimitiveType) -> tuple[Cast, bool]:
    """The cast, and whether it succeeds for every value, except dates beyond the range of timestamps. Raises
    `UnsupportedExpressionError`."""
    goal = arrow_type(target)
    if source == goal or types.is_null(source):
        return _arrow_cast(goal), True
    if types.is_string(goal):
        return _to_text(source)
    if is_text(source):
        return (lambda datum: _parsed(datum, target, goal)), target.name == "binary"
    if types.is_decimal(goal):
        return _to_decimal(source, goal)
    if types.is_floating(goal):
        return to_float(source, goal), True
    if types.is_integer(goal):
        return _to_integer(source, goal)
    if types.is_boolean(goal) and is_number(source):
        return _to_boolean(source), True
    if types.is_timestamp(goal) and types.is_integer(source):
        return (lambda datum: pc.cast(pc.multiply_checked(pc.cast(datum, pa.int64()), _MILLION), goal)), False
    if _is_moment(source) and _is_moment(goal):
        return _arrow_cast(goal), True
    raise UnsupportedExpressionError(f"this engine cannot cast {source} to {target.name}")


def _is_moment(data_type: pa.DataType) -> bool:
    return bool(types.is_date32(data_type) or data_type in (MOMENT, LOCAL))


def _arrow_cast(goal: pa.DataType) -> Cast:
    options = pc.CastOptions.safe(goal)
    return lambda datum: pc.cast(datum, options=options)


# --- numbers -----------------------------------------------------------------------------------------------------


def _to_integer(source: pa.DataType, goal: pa.DataType) -> tuple[Cast, bool]:
    safe = _arrow_cast(goal)
    if types.is_boolean(source) or types.is_integer(source):
        return safe, types.is_boolean(source) or source.bit_width <= goal.bit_width
    if types.is_floating(source):
        return (lambda datum: safe(pc.trunc(datum))), False
    if types.is_decimal(source):
        options = pc.CastOptions(goal, allow_decimal_truncate=True)
        return (lambda datum: pc.cast(datum, options=options)), False
    if source == MOMENT:
        return (lambda datum: safe(_seconds(datum))), False
    raise UnsupportedExpressionError(f"this engine cannot cast {source} to {goal}")


def _seconds(moments: Datum) -> Datum:
    """Since the epoch; before it, fractions of a second round down too."""
    return pc.divide(pc.cast(pc.floor_temporal(moments, unit="second"), pa.int64()), _MILLION)


def _to_boolean(source: pa.DataType) -> Cast:
    if types.is_decimal(source):
        zero = scalar_of(Decimal(0), source)
        return lambda datum: pc.not_equal(datum, zero)
    return _arrow_cast(pa.bool_())


def to_float(source: pa.DataType, goal: pa.DataType) -> Cast:
    """To the nearest float or double. Arrow's own cast of a decimal may give an adjacent value."""
    nearest = pc.CastOptions.unsafe(goal)
    if types.is_boolean(source):
        return lambda datum: pc.cast(pc.cast(datum, pa.int8()), options=nearest)
    if not types.is_decimal(source) or source.scale == 0:
        return lambda datum: pc.cast(datum, options=nearest)
    if types.is_decimal128(source) and source.precision <= _EXACT_DIGITS:
        return lambda datum: pc.cast(_divided(datum), options=nearest)
    return lambda datum: pc.cast(by_row(float, pa.float64(), datum), options=nearest)


def _divided(datum: Datum) -> Datum:
    """Convert a decimal of at most `_EXACT_DIGITS` digits: divide its unscaled integer by a power of ten."""
    power = scalar_of(10.0**datum.type.scale, pa.float64())
    unscaled = datum if isinstance(datum, pa.Array) else array_of([datum.as_py()], datum.type)
    low_words = np.frombuffer(unscaled.buffers()[1], np.int64)[::2][unscaled.offset :][: len(unscaled)]
    validity = unscaled.is_valid() if unscaled.null_count else None
    digits = pa.Array.from_buffers(pa.int64(), len(unscaled), [None, pa.py_buffer(np.ascontiguousarray(low_words))])
    quotient = pc.divide(pc.cast(digits, pa.float64()), power)
    if validity is not None:
        quotient = pc.if_else(validity, quotient, pa.nulls(len(unscaled), pa.float64()))
    return quotient if isinstance(datum, pa.Array) else quotient[0]


def _to_decimal(source: pa.DataType, goal: pa.DataType) -> tuple[Cast, bool]:
    if types.is_boolean(source):
        return (lambda datum: to_decimal(pc.cast(datum, pa.int8()), goal)), goal.precision > goal.scale
    if types.is_floating(source):
        return (lambda datum: by_row(lambda value: _float_to_decimal(value, goal), goal, datum)), False
    if types.is_integer(source) or types.is_decimal(source):
        digits, scale = (source.precision, source.scale) if types.is_decimal(source) else (_digits(source), 0)
        widens = digits - scale <= goal.precision - goal.scale and scale <= goal.scale
        return (lambda datum: to_decimal(datum, goal)), widens
    raise UnsupportedExpressionError(f"this engine cannot cast {source} to {goal}")


def _digits(integer: pa.DataType) -> int:
    return len(str(2 ** (integer.bit_width - 1)))


def _float_to_decimal(value: float, goal: pa.DataType) -> Decimal | None:
    """Convert by the shortest text of the number; NaN and infinities become null, as in Spark."""
    return round_decimal(Decimal(repr(value)), goal.precision, goal.scale) if math.isfinite(value) else None


def to_decimal(datum: Datum, goal: pa.DataType) -> Datum:
    """An integer or decimal at another scale, rounding halves away from zero. Raises `pa.ArrowInvalid` if it has too
    many digits."""
    if types.is_integer(datum.type):
        datum = pc.cast(datum, pa.decimal128(_digits(datum.type), 0))
    whole, scale = datum.type.precision - datum.type.scale, datum.type.scale
    wide = pa.decimal256(min(76, whole + 1 + max(scale, goal.scale)), max(scale, goal.scale))
    datum = pc.cast(datum, wide)
    if scale > goal.scale:
        datum = pc.round(datum, ndigits=goal.scale, round_mode="half_towards_infinity")
    return pc.cast(datum, goal)


# --- text --------------------------------------------------------------------------------------------------------


def _to_text(source: pa.DataType) -> tuple[Cast, bool]:
    as_text = _arrow_cast(pa.string())
    if source in (MOMENT, LOCAL):
        return (lambda datum: _without_zeros(far_years.text(datum))), True
    if types.is_date32(source):
        return far_years.text, True
    if types.is_decimal(source):
        return (lambda datum: by_row(lambda value: f"{value:f}", pa.string(), datum)), True
    if types.is_floating(source):
        single = types.is_float32(source)
        return (lambda datum: by_row(lambda value: _float_text(value, single), pa.string(), datum)), True
    return as_text, not types.is_binary(source)


def _without_zeros(texts: Datum) -> Datum:
    """Strip trailing zeros of microseconds."""
    return pc.replace_substring_regex(texts, pattern=r"\.?0+$", replacement="")


def _float_text(value: float, single: bool) -> str:
    """In Java's format: 1.0, 1.0E7, 1.5E-5."""
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    number = Decimal(str(np.float32(value)) if single else repr(value))
    exponent = number.adjusted() if number else 0
    sign = "-" if number.is_signed() else ""
    if -3 <= exponent < 7:
        text = f"{number.copy_abs().normalize(EXACT):f}"
        return sign + (text if "." in text else f"{text}.0")
    digits = "".join(map(str, number.normalize(EXACT).as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _parsed(datum: Datum, target: PrimitiveType, goal: pa.DataType) -> Datum:
    """Parse text as values of a type, each distinct text once."""
    if target.name == "binary":
        return pc.cast(datum, goal)
    if isinstance(datum, pa.Scalar):
        return by_row(lambda text: _parse(text, target), goal, datum)
    encoded = datum.dictionary_encode()
    return by_row(lambda text: _parse(text, target), goal, encoded.dictionary).take(encoded.indices)


def _parse(text: str, target: PrimitiveType) -> Any:
    try:
        return cast_text(text, target)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:50]!r} is not a valid {target.name}: {error}") from error
