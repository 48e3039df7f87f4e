"""Dates and timestamps of every year. Python covers the years 1 to 9999; others are Arrow's stored integers.

All use the proleptic Gregorian calendar with a year 0, like Spark and Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

DAY_MICROSECONDS = 24 * 60 * 60 * 1_000_000
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
"""The period of the calendar, in years and days."""


@dataclass(frozen=True, slots=True)
class FarDate:
    """A date of a year before 1 or after 9999."""

    days: int
    """Since 1970-01-01."""

    def __str__(self) -> str:
        cycles, rest = divmod(self.days + _EPOCH.toordinal() - 1, CYCLE_DAYS)
        near = date.fromordinal(rest + 1)
        year = near.year + cycles * CYCLE_YEARS
        return f"{'+' if year > 9999 else ''}{year:0{5 if year < 0 else 4}}-{near:%m-%d}"


@dataclass(frozen=True, slots=True)
class FarTime:
    """A timestamp of a year before 1 or after 9999, in UTC or without a zone."""

    microseconds: int
    """Since 1970-01-01."""
    tzinfo: tzinfo | None = None

    def __str__(self) -> str:
        days, rest = divmod(self.microseconds, DAY_MICROSECONDS)
        time = (_EPOCH + timedelta(microseconds=rest)).time()
        return f"{day_at(days)} {time}{'' if self.tzinfo is None else '+00:00'}"


Day = date | FarDate
Moment = datetime | FarTime
MOMENT_KINDS = (date, FarDate, FarTime)
"""The kinds of dates and timestamps; a datetime is a date."""


def day_at(days: int) -> Day:
    """The date `days` days after 1970-01-01. Raises `OverflowError` if it is out of Arrow's range."""
    if not -(1 << 31) <= days < 1 << 31:
        raise OverflowError("it is out of the range of dates")
    ordinal = days + _EPOCH.toordinal()
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else FarDate(days)


def moment_at(microseconds: int, zone: tzinfo | None) -> Moment:
    """The timestamp `microseconds` after 1970, in UTC or without a zone. Raises `OverflowError` if it is out of Arrow's
    range."""
    if not -(1 << 63) <= microseconds < 1 << 63:
        raise OverflowError("it is out of the range of timestamps")
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=zone)
    except OverflowError:
        return FarTime(microseconds, zone)


def day_of(year: int, month: int, day: int) -> Day:
    """A date of any year. Raises `ValueError` if there is no such day, and `OverflowError` like `day_at`."""
    cycles, rest = divmod(year - 1, CYCLE_YEARS)
    return day_at(date(rest + 1, month, day).toordinal() + cycles * CYCLE_DAYS - _EPOCH.toordinal())


def days_of(day: Day) -> int:
    """Days since 1970-01-01."""
    return day.days if isinstance(day, FarDate) else day.toordinal() - _EPOCH.toordinal()


def microseconds_of(value: Any) -> int:
    """Microseconds since 1970 in UTC of a timestamp (naive means UTC) or of a date's midnight.

    Raises `ValueError` for any other value."""
    match value:
        case datetime():
            return (value.replace(tzinfo=None) - _EPOCH - (value.utcoffset() or timedelta())) // _MICROSECOND
        case FarTime():
            return value.microseconds
        case date() | FarDate():
            return days_of(value) * DAY_MICROSECONDS
    raise ValueError("a date or a time is needed")


def parse_time(text: str) -> datetime:
    """Parse a time that a user gives. Raises `ValueError`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write it like 2026-01-31T12:00:00Z") from None


def utc_text(moment: Day | Moment) -> str:
    """A date, or a timestamp in UTC, in the log's format: 2026-01-31T12:00:00Z."""
    return str(moment).replace(" ", "T").replace("+00:00", "Z")


def from_datetime64(value: np.datetime64) -> Day | Moment | None:
    """A date or, if the unit is finer than a day, a timestamp without a zone. None for NaT.

    Raises `ValueError` if it is finer than a microsecond, and `OverflowError` if it is out of range."""
    if np.isnat(value):
        return None
    is_day = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
    stored = value.astype("datetime64[D]" if is_day else "datetime64[us]")
    if stored.astype(value.dtype) != value:
        raise ValueError("it is finer than a microsecond, or out of range")
    number = int(stored.astype(np.int64))
    return day_at(number) if is_day else moment_at(number, None)
