"""Timestamps on the wire: ISO 8601 with a zone as text, milliseconds since the epoch as numbers.

See "Timestamp Format" in the protocol.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from lakeport.errors import SharingError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ISO = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})T(?P<time>\d{2}:\d{2}(:\d{2})?)([.,](?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d{2}(:?\d{2})?)",
    re.ASCII | re.IGNORECASE,
)


def parse_timestamp(text: str, name: str) -> int:
    """Milliseconds since the epoch, truncated. `name` is the parameter's.

    Raises `SharingError` (400, INVALID_PARAMETER_VALUE)."""
    try:
        return (_parse(text) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        raise SharingError(
            f"{name} is not a timestamp: {text[:50]!r}; write it with a zone, like 2022-01-01T00:00:00Z",
            status=400,
            code="INVALID_PARAMETER_VALUE",
        ) from None


def _parse(text: str) -> datetime:
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError("not ISO 8601")
    micros = (match["fraction"] or "").ljust(6, "0")[:6]
    seconds = match["time"] if match[3] else f"{match['time']}:00"
    return datetime.fromisoformat(f"{match['day']}T{seconds}.{micros}{match['zone'].upper()}")


def format_timestamp(milliseconds: int) -> str:
    """The time in UTC, like 2022-01-01T00:00:00Z, with milliseconds if not zero.

    Raises `OverflowError` outside the years 1 to 9999."""
    moment = _EPOCH + milliseconds * _MILLISECOND
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds") + "Z"
