"""How often a recipient may ask."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from lakeport.server.errors import Refusal


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


class RateLimiter:
    """Lets a recipient make so many requests a minute; unused ones do not add up beyond one minute. 0 is no limit."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._now = per_minute, now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, recipient: str) -> None:
        """Raises `Refusal` (429) with the seconds to wait."""
        if not self._per_minute:
            return
        now, rate = self._now(), self._per_minute / 60
        bucket = self._buckets.setdefault(recipient, _Bucket(self._per_minute, now))
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.filled) * rate)
        bucket.filled = now
        if bucket.left < 1:
            raise _too_many(math.ceil((1 - bucket.left) / rate))
        bucket.left -= 1


def _too_many(seconds: int) -> Refusal:
    return Refusal(
        f"too many requests: ask again in {seconds} s",
        status=429,
        code="RATE_LIMIT_EXCEEDED",
        headers=((b"retry-after", str(seconds).encode()),),
    )
