"""Dates and timestamps of any year in Arrow's calendar, which ends at year 32767 and misreads later ones.

The Gregorian calendar repeats, weekdays included: distant dates are moved by whole cycles.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.expressions.literals import LOCAL
from lakeport.engine.expressions.nodes import Datum
from lakeport.kernel.values import (
    CYCLE_DAYS,
    CYCLE_YEARS,
    DAY_MICROSECONDS,
    array_of,
    day_of,
    days_of,
    python_value,
    scalar_of,
)

_FIRST_DAY, _LAST_DAY = days_of(day_of(-32766, 1, 1)), days_of(day_of(32766, 12, 31))
_LAST_OF_FOUR_DIGITS = days_of(day_of(9999, 12, 31))
_YEARS = scalar_of(CYCLE_YEARS, pa.int64())


def in_calendar(kernel: Callable[[Datum], Datum], moments: Datum) -> Datum:
    """A part of a date that repeats with each cycle, so not the year."""
    return kernel(_nearer(moments)[0])


def year(moments: Datum) -> Datum:
    near, cycles = _nearer(moments)
    return pc.year(near) if cycles is None else pc.add(pc.year(near), pc.multiply(cycles, _YEARS))


def floored(moments: Datum, unit: str) -> Datum:
    """The start of the time unit that a moment is in."""
    near, cycles = _nearer(moments)
    start = pc.floor_temporal(near, unit=unit)
    return start if cycles is None else _moved(start, cycles, pc.add_checked)


def text(moments: Datum) -> Datum:
    """Dates, or timestamps to the microsecond, in Spark's format: years of more than four digits have a sign."""
    least, greatest = _day_bounds(moments)
    local = moments if types.is_date32(moments.type) else pc.cast(moments, LOCAL)
    if least < _FIRST_DAY or greatest > _LAST_DAY:
        return _text_by_row(local)
    texts = pc.cast(local, pa.string())
    if greatest <= _LAST_OF_FOUR_DIGITS:
        return texts
    return pc.replace_substring_regex(texts, pattern=r"^(\d{5})", replacement=r"+\1")


def _text_by_row(moments: Datum) -> Datum:
    if isinstance(moments, pa.Scalar):
        return _text_by_row(pa.repeat(moments, 1))[0]
    values = map(python_value, moments)
    texts = [None if value is None else str(value) for value in values]
    if not types.is_date32(moments.type):  # like Arrow, with all digits
        texts = [text if text is None or "." in text else f"{text}.000000" for text in texts]
    return array_of(texts, pa.string())


def _day_bounds(moments: Datum) -> tuple[int, int]:
    """The first and last day; 1970-01-01 if empty."""
    is_date = types.is_date32(moments.type)
    bounds = pc.min_max(pc.cast(moments, pa.int32() if is_date else pa.int64()))
    unit = 1 if is_date else DAY_MICROSECONDS
    return (bounds["min"].as_py() or 0) // unit, (bounds["max"].as_py() or 0) // unit


def _nearer(moments: Datum) -> tuple[Datum, Datum | None]:
    """Moments within Arrow's calendar, and the cycles they were moved by; None if none was moved."""
    least, greatest = _day_bounds(moments)
    if least >= _FIRST_DAY and greatest <= _LAST_DAY:
        return moments, None
    cycle = scalar_of(float(_cycle_of(moments.type)), pa.float64())
    cycles = pc.cast(pc.trunc(pc.divide(pc.cast(_numbers(moments), pa.float64(), safe=False), cycle)), pa.int64())
    return _moved(moments, cycles, pc.subtract_checked), cycles


def _moved(moments: Datum, cycles: Datum, move: Callable[[Datum, Datum], Datum]) -> Datum:
    distance = pc.multiply(cycles, scalar_of(_cycle_of(moments.type), pa.int64()))
    numbers = move(_numbers(moments), distance)
    return pc.cast(pc.cast(numbers, pa.int32()) if types.is_date32(moments.type) else numbers, moments.type)


def _numbers(moments: Datum) -> Datum:
    return pc.cast(pc.cast(moments, pa.int32()) if types.is_date32(moments.type) else moments, pa.int64())


def _cycle_of(data_type: pa.DataType) -> int:
    return CYCLE_DAYS if types.is_date32(data_type) else CYCLE_DAYS * DAY_MICROSECONDS
