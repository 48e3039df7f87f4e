"""The functions of `kernel.expressions.functions`, over Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.expressions import far_years
from lakeport.engine.expressions.casts import to_decimal
from lakeport.engine.expressions.literals import LOCAL, MOMENT
from lakeport.engine.expressions.nodes import Datum, Kernel, as_array, by_row
from lakeport.errors import UnsupportedExpressionError
from lakeport.kernel.expressions import FORMAT_LETTERS, Call, Literal, rounded_digits
from lakeport.kernel.values import DAY_MICROSECONDS, FALSE, is_number, own_scalar, scalar_of, to_mask

_HALF_UP = "half_towards_infinity"
_NAN = scalar_of(float("nan"), pa.float64())
_TIME = r"^([+-]?\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d).*"

Made = tuple[Kernel, pa.DataType, bool]
"""A kernel, its result type, and whether it succeeds for every value."""


def function_kernel(call: Call, args: Sequence[pa.DataType]) -> Made:
    """The kernel of a bound call, which takes all its arguments. Raises `UnsupportedExpressionError`."""
    name, constants = call.name, [arg.value if isinstance(arg, Literal) else None for arg in call.args]
    if name in _OF_TEXT:
        return _OF_TEXT[name], args[0], True
    if name in _TO_INTEGER:
        kernel = _TO_INTEGER[name]
        return (lambda datum: pc.cast(kernel(datum), pa.int32())), pa.int32(), True
    if name in _OF_DOUBLE:
        return _OF_DOUBLE[name], pa.float64(), True
    if name in _OTHERS:
        return _OTHERS[name](args, constants)
    raise UnsupportedExpressionError(_UNKNOWN.get(name, f"this engine does not know the function {name}"))


_UNKNOWN = dict.fromkeys(
    ["current_timestamp", "current_date"],
    "the current time is unknown here: set it for the whole statement with replace_now",
)

# --- text --------------------------------------------------------------------------------------------------------


def _cased(ascii_kernel: Kernel, function: Callable[[str], str], texts: Datum) -> Datum:
    """Arrow maps character to character, but some characters become two: ß is SS."""
    if pc.all(pc.string_is_ascii(texts), skip_nulls=True).as_py() is not False:
        return ascii_kernel(texts)
    return by_row(function, texts.type, texts)


def _trimmed(kernel: Kernel, strip: Callable[[str, str], str], texts: Datum, characters: Datum | None = None) -> Datum:
    if characters is None:
        return kernel(texts, characters=" ")
    return by_row(strip, texts.type, texts, characters)


def _substring(texts: Datum, start: Datum, length: Datum | None = None) -> Datum:
    counts = (start,) if length is None else (start, length)
    if all(isinstance(count, pa.Scalar) and count.is_valid for count in counts):
        begin, end = _slice(*(count.as_py() for count in counts))
        return pc.utf8_slice_codeunits(texts, start=begin, stop=end)
    return by_row(_substring_of, texts.type, texts, *counts)


def _slice(start: int, length: int = 2**31) -> tuple[int, int | None]:
    """The start and end of a slice; negative values count from the end. SQL counts from 1, and 0 means 1."""
    begin = start - 1 if start > 0 else start
    end = begin + length
    return begin, None if begin < 0 <= end or end >= 2**31 - 1 else max(end, begin)


def _substring_of(text: str, start: int, length: int = 2**31) -> str:
    begin, end = _slice(start, length)
    return text[begin:end]


def _left(texts: Datum, length: Datum) -> Datum:
    return _substring(texts, own_scalar(1), length)


def _right(texts: Datum, length: Datum) -> Datum:
    return by_row(lambda text, count: text[max(0, len(text) - count) :] if count > 0 else "", texts.type, texts, length)


def _replaced(texts: Datum, searched: Datum, replacement: Datum | None = None) -> Datum:
    other = own_scalar("") if replacement is None else replacement
    if isinstance(searched, pa.Scalar) and isinstance(other, pa.Scalar) and searched.as_py() and other.is_valid:
        return pc.replace_substring(texts, pattern=searched.as_py(), replacement=other.as_py())
    return by_row(lambda text, old, new: text.replace(old, new) if old else text, texts.type, texts, searched, other)


_OF_TEXT: dict[str, Kernel] = {
    "upper": partial(_cased, pc.ascii_upper, str.upper),
    "lower": partial(_cased, pc.ascii_lower, str.lower),
    "reverse": pc.utf8_reverse,
    "trim": partial(_trimmed, pc.utf8_trim, str.strip),
    "ltrim": partial(_trimmed, pc.utf8_ltrim, str.lstrip),
    "rtrim": partial(_trimmed, pc.utf8_rtrim, str.rstrip),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "replace": _replaced,
}


def _concat(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    separator = scalar_of(b"" if types.is_binary(args[0]) else "", args[0])
    return (lambda *data: pc.binary_join_element_wise(*data, separator)), args[0], True


def _length(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    kernel = pc.binary_length if types.is_binary(args[0]) else pc.utf8_length
    return kernel, pa.int32(), True


# --- numbers -----------------------------------------------------------------------------------------------------


def _signed(integer_kernel: Kernel, kernel: Kernel, args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    """Only the least integer has no counterpart."""
    is_integer = types.is_integer(args[0])
    return integer_kernel if is_integer else kernel, args[0], not is_integer


def _round(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    source, places = args[0], constants[1] if len(constants) > 1 else 0
    if types.is_decimal(source):
        goal = pa.decimal128(*rounded_digits((source.precision, source.scale), places))
        return (lambda datum, *_: _round_decimal(datum, places, goal)), goal, False
    if types.is_integer(source):
        return (lambda datum, *_: pc.round(datum, ndigits=min(places, 0), round_mode=_HALF_UP)), source, places >= 0
    single = types.is_float32(source)
    return (lambda datum, *_: by_row(lambda x: _round_float(x, places, single), source, datum)), source, True


def _round_decimal(datum: Datum, places: int, goal: pa.DataType) -> Datum:
    if places >= 0:
        return to_decimal(datum, goal)
    wide = pc.cast(datum, pa.decimal256(76, datum.type.scale))
    return to_decimal(pc.round(wide, ndigits=places, round_mode=_HALF_UP), goal)


def _round_float(value: float, places: int, single: bool) -> float:
    """Round by the shortest text of the number: 2.675 becomes 2.68."""
    if value - value != 0:
        return value
    number = Decimal(str(np.float32(value)) if single else repr(value))
    if places > 400 or -int(number.as_tuple().exponent) <= places:
        return value
    if places < -400:
        return 0.0
    return float(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, Context(prec=1000)))


def _whole(kernel: Kernel, args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    """floor and ceil: a decimal for decimals, otherwise a long."""
    source, long = args[0], pa.int64()
    if types.is_integer(source):
        return (lambda datum: pc.cast(datum, long)), long, True
    if types.is_floating(source):
        return (lambda datum: pc.cast(kernel(datum), long)), long, False
    if source.scale == 0:
        return (lambda datum: datum), source, True
    wide = pa.decimal256(source.precision + 1, source.scale)
    goal = pa.decimal128(*rounded_digits((source.precision, source.scale), 0))
    return (lambda datum: pc.cast(kernel(pc.cast(datum, wide)), goal)), goal, True


def _is_nan(datum: Datum) -> Datum:
    return pc.coalesce(pc.is_nan(datum), FALSE)


def _extreme(kernel: Kernel, args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    """greatest and least: ignore nulls, and NaN is greater than any other number."""
    shared = next((data_type for data_type in args if not types.is_null(data_type)), args[0])
    ordered = pa.int8() if types.is_boolean(shared) else LOCAL if shared == MOMENT else None
    if ordered is not None:
        return (lambda *data: pc.cast(kernel(*(pc.cast(d, ordered) for d in data)), shared)), shared, True
    if not (is_number(shared) or types.is_temporal(shared) or types.is_string(shared) or types.is_binary(shared)):
        raise UnsupportedExpressionError(f"this engine cannot order values of type {shared}")
    if kernel is pc.max_element_wise and types.is_floating(shared):
        return partial(_greatest_float, pc.cast(_NAN, shared)), shared, True
    return kernel, shared, True


def _greatest_float(nan: pa.Scalar, *data: Datum) -> Datum:
    has_nan = pc.or_(_is_nan(data[0]), _is_nan(data[1]))
    for datum in data[2:]:
        has_nan = pc.or_(has_nan, _is_nan(datum))
    return pc.if_else(has_nan, nan, pc.max_element_wise(*data))


# --- time --------------------------------------------------------------------------------------------------------


def _date_trunc(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    unit = constants[0]
    return (lambda _, moments: far_years.floored(moments, unit)), args[1], True


def _trunc(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    unit = constants[1]
    return (lambda days, _: far_years.floored(days, unit)), args[0], True


def _shift_days(kernel: Kernel, args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    def shifted(days: Datum, count: Datum) -> Datum:
        return pc.cast(kernel(pc.cast(days, pa.int32()), count), pa.date32())

    return shifted, pa.date32(), False


def _days_between(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    def between(end: Datum, start: Datum) -> Datum:
        return pc.subtract_checked(pc.cast(end, pa.int32()), pc.cast(start, pa.int32()))

    return between, pa.int32(), False


def _add_time(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    micros = scalar_of(constants[1], pa.int64())

    def added(moments: Datum, _: Datum) -> Datum:
        return pc.cast(pc.add_checked(pc.cast(moments, pa.int64()), micros), args[0])

    return added, args[0], False


def _add_months(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    return partial(_months_later, args[0]), args[0], False


def _months_later(data_type: pa.DataType, moments: Datum, months: Datum) -> Datum:
    """The same day of another month, or its last day. Raises `OverflowError` if the type cannot hold it."""
    length = next((len(datum) for datum in (moments, months) if not isinstance(datum, pa.Scalar)), 1)
    stored, unit = (np.int32, 1) if types.is_date32(data_type) else (np.int64, DAY_MICROSECONDS)
    numbers, shifts = (_numbers(as_array(datum, length)) for datum in (moments, months))
    days, since_midnight = np.divmod(numbers, unit)
    month = days.astype("datetime64[D]").astype("datetime64[M]")
    later = month + shifts
    last_day = (later + 1).astype("datetime64[D]") - 1
    same_day = later.astype("datetime64[D]") + (days.astype("datetime64[D]") - month)
    result = np.minimum(same_day, last_day).astype(np.int64)
    valid = pc.and_(pc.is_valid(as_array(moments, length)), pc.is_valid(as_array(months, length)))
    limit = np.iinfo(stored).max // unit
    if (to_mask(valid) & (abs(result) >= limit)).any():
        raise OverflowError(f"the result does not fit {data_type}")
    data = np.ascontiguousarray(result * unit + since_midnight, stored)
    found = pa.Array.from_buffers(data_type, length, [valid.buffers()[1], pa.py_buffer(data)])
    return found[0] if isinstance(moments, pa.Scalar) and isinstance(months, pa.Scalar) else found


def _numbers(array: pa.Array) -> npt.NDArray[np.int64]:
    """The stored values; arbitrary where the array is null."""
    width = array.type.bit_width // 8
    return np.frombuffer(array.buffers()[1], f"i{width}", len(array), array.offset * width).astype(np.int64)


def _date_format(args: Sequence[pa.DataType], constants: Sequence[Any]) -> Made:
    letters = constants[1].replace("\\", "\\\\")
    for name, group in FORMAT_LETTERS.items():
        letters = letters.replace(name, rf"\{group}")

    def formatted(moments: Datum, _: Datum) -> Datum:
        return pc.replace_substring_regex(far_years.text(moments), pattern=_TIME, replacement=letters)

    return formatted, pa.string(), True


_TO_INTEGER: dict[str, Kernel] = {
    "year": far_years.year,
    **{name: partial(far_years.in_calendar, getattr(pc, name)) for name in ("quarter", "month", "day")},
    "dayofyear": partial(far_years.in_calendar, pc.day_of_year),
    "dayofweek": partial(far_years.in_calendar, partial(pc.day_of_week, count_from_zero=False, week_start=7)),
    "weekday": partial(far_years.in_calendar, pc.day_of_week),
    "weekofyear": partial(far_years.in_calendar, pc.iso_week),
    **{name: getattr(pc, name) for name in ("hour", "minute", "second")},
}
_OF_DOUBLE: dict[str, Kernel] = {"sqrt": pc.sqrt, "exp": pc.exp, "power": pc.power}
_OTHERS: dict[str, Callable[[Sequence[pa.DataType], Sequence[Any]], Made]] = {
    "length": _length,
    "concat": _concat,
    "abs": partial(_signed, pc.abs_checked, pc.abs),
    "negative": partial(_signed, pc.negate_checked, pc.negate),
    "round": _round,
    "floor": partial(_whole, pc.floor),
    "ceil": partial(_whole, pc.ceil),
    "isnan": lambda args, constants: (_is_nan, pa.bool_(), True),
    "greatest": partial(_extreme, pc.max_element_wise),
    "least": partial(_extreme, pc.min_element_wise),
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_add": partial(_shift_days, pc.add_checked),
    "date_sub": partial(_shift_days, pc.subtract_checked),
    "datediff": _days_between,
    "add_months": _add_months,
    "add_time": _add_time,
    "date_format": _date_format,
}
