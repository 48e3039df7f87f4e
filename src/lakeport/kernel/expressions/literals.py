"""Place literals among the values of a type: parse text as the type, and place unrepresentable values exactly."""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, Literal

from lakeport.kernel.schema import PrimitiveType
from lakeport.kernel.values import DAY_MICROSECONDS, EXACT, Day, Moment, day_at, day_of, microseconds_of, moment_at

Place = tuple[Any, Literal["at", "above", "below", "apart"]]
"""The place of a literal among the values of a type: at a value, between one and the next, below the least, or (NaN)
unordered. The value is the nearest one, None for `apart`."""

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_TRUE_TEXTS = frozenset({"t", "true", "y", "yes", "1"})
_FALSE_TEXTS = frozenset({"f", "false", "n", "no", "0"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
_TIME = re.compile(
    r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})"
    r"([T ](\d{1,2}):(\d{1,2})(:(\d{1,2})(\.(\d{1,9}))?)? ?(?P<zone>Z|UTC|[+-]\d{1,2}(:?\d{2})?)?)?",
    re.ASCII,
)
_DATE_FIRST = re.compile(r"([+-]?\d{4,7}-\d{1,2}-\d{1,2})([T ].*)?", re.ASCII | re.DOTALL)


def place_literal(value: Any, data_type: PrimitiveType) -> Place:
    """Place a non-null literal among the values of a type. Text is parsed as the type first.

    Raises `ValueError` or `OverflowError` if they cannot be compared.
    """
    if isinstance(value, str):
        value = _parse(value, data_type)
    match data_type.name:
        case "boolean" | "string" | "binary":
            return _same_kind(value, data_type.name), "at"
        case "float" | "double":
            return float(_number(value)), "at"
        case "date":
            return _place_date(value)
        case "timestamp" | "timestamp_ntz":
            return _place_moment(value, UTC if data_type.name == "timestamp" else None)
        case name if bits := INTEGER_BITS.get(name):
            limit: int = 2 ** (bits - 1)
            nearest, place = _place_number(Decimal(_number(value)), Decimal(-limit), Decimal(limit - 1), 0)
            return (int(nearest) if place != "apart" else None), place
    if decimal := data_type.decimal:
        greatest = Decimal(10 ** decimal[0] - 1).scaleb(-decimal[1], EXACT)
        # The shortest text of a float is the intended value: 0.1 is not 0.1000000000000000055….
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(_number(value))
        return _place_number(exact, greatest.copy_negate(), greatest, decimal[1])
    raise ValueError("there are no literals of this type")


def cast_text(text: str, data_type: PrimitiveType) -> Any:
    """Parse text like CAST: text after a date is dropped, and a decimal is rounded.

    Raises `ValueError` or `OverflowError` for invalid text."""
    if data_type.name == "date" and (match := _DATE_FIRST.fullmatch(text.strip())):
        text = match[1]
    if data_type.decimal:
        return round_decimal(Decimal(_matching(_NUMBER, text, "12.3")), *data_type.decimal)
    value, place = place_literal(text, data_type)
    if place != "at":
        raise OverflowError(f"it is out of the range of {data_type.name}")
    return value


def round_decimal(number: Decimal, precision: int, scale: int) -> Decimal:
    """Round half away from zero to `scale` decimal places. Raises `OverflowError` if it has too many digits."""
    if number.adjusted() > precision:
        raise OverflowError(f"{number} does not fit decimal({precision},{scale})")
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    if rounded.copy_abs().scaleb(scale, EXACT) >= 10**precision:
        raise OverflowError(f"{number} does not fit decimal({precision},{scale})")
    return rounded


def _number(value: Any) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number is needed")
    return value


def _same_kind(value: Any, name: str) -> bool | str | bytes:
    if name == "string" and isinstance(value, bytes):
        return value.decode()
    kind: type[bool] | type[str] | type[bytes] = {"boolean": bool, "string": str, "binary": bytes}[name]
    if not isinstance(value, kind):
        hint = ", in quotes" if name == "string" else ""
        raise ValueError(f"a {name} is needed{hint}")
    return value


def _place_number(number: Decimal, least: Decimal, greatest: Decimal, scale: int) -> Place:
    if number.is_nan():
        return None, "apart"
    if number > greatest:
        return greatest, "above"
    if number < least:
        return least, "below"
    floor = number.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, EXACT)
    return floor, "at" if floor == number else "above"


def _place_date(value: Any) -> Place:
    days, rest = divmod(microseconds_of(value), DAY_MICROSECONDS)
    return day_at(days), "above" if rest else "at"


def _place_moment(value: Any, zone: timezone | None) -> Place:
    moment, least, greatest = microseconds_of(value), -(2**63), 2**63 - 1
    if moment > greatest:
        return moment_at(greatest, zone), "above"
    if moment < least:
        return moment_at(least, zone), "below"
    return moment_at(moment, zone), "at"


def _parse(text: str, data_type: PrimitiveType) -> Any:
    match data_type.name:
        case "string":
            text.encode()  # raises UnicodeEncodeError for a lone surrogate
            return text
        case "binary":
            return text.encode()
        case "boolean":
            return _parse_boolean(text)
        case "date" | "timestamp" | "timestamp_ntz":
            return _parse_time(text, data_type.name)
        case "float" | "double":
            return _parse_float(text, data_type.name)
        case name if name in INTEGER_BITS:
            return int(_matching(r"[+-]?\d{1,1000}", text, "123"))
    return Decimal(_matching(_NUMBER, text, "12.3"))


def _matching(pattern: str | re.Pattern[str], text: str, example: str) -> str:
    if not re.fullmatch(pattern, text.strip(), re.ASCII if isinstance(pattern, str) else 0):
        raise ValueError(f"it is not written like {example}")
    return text.strip()


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE_TEXTS | _FALSE_TEXTS:
        raise ValueError("it is neither true nor false")
    return word in _TRUE_TEXTS


def _parse_float(text: str, name: str) -> float:
    """Parse like a Spark cast, to the nearest value of the type: '1.1' is the float 1.1, not the double."""
    word = text.strip()
    number = float(word if _NOT_FINITE.fullmatch(word) else _matching(_NUMBER, word, "1.5 or 1e3"))
    if name == "double":
        return number
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return rounded


def _parse_time(text: str, name: str) -> Day | Moment:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("it is not written like " + ("2026-01-31" if name == "date" else "2026-01-31 12:00:00"))
    year, month, day, hour, minute, second = (int(match[i] or 0) for i in (1, 2, 3, 5, 6, 8))
    micros = int((match[10] or "0").ljust(6, "0")[:6])
    zone = _parse_zone(match["zone"])
    clock = datetime(1970, 1, 1, hour, minute, second, micros, zone)
    # Spark silently drops the time here and the zone there; reject instead.
    if name == "date" and clock.time() != time():
        raise ValueError("it has a time of day")
    if name != "timestamp" and zone.utcoffset(None):
        raise ValueError("it has a time zone")
    start = day_of(year, month, day)
    return start if name == "date" else moment_at(microseconds_of(start) + microseconds_of(clock), UTC)


def _parse_zone(text: str | None) -> timezone:
    if text is None or text in ("Z", "UTC"):
        return UTC
    digits = text[1:].replace(":", "").rjust(2, "0").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
