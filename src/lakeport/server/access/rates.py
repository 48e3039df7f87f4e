"""How often a recipient may ask, and an address may fail to say who it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lakeport.server.http.refusals import Refusal


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


_MOST_REMEMBERED = 10_000


class RateLimiter:
    """Lets each client do something so many times a minute; unused turns are kept for a minute. 0 is no limit."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._now = per_minute, now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, client: str) -> None:
        """Raises `Refusal` (429) with the seconds to wait."""
        if self._per_minute:
            self.check(client)
            self._buckets[client].left -= 1

    def check(self, client: str) -> None:
        """Raises what `take` would raise, and takes nothing."""
        if not self._per_minute:
            return
        now, rate = self._now(), self._per_minute / 60
        bucket = self._buckets.pop(client, None) or _Bucket(self._per_minute, now)
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.filled) * rate)
        bucket.filled = now
        self._buckets[client] = bucket
        if len(self._buckets) > _MOST_REMEMBERED:  # the one that was used longest ago
            del self._buckets[next(iter(self._buckets))]
        if bucket.left < 1:
            raise _too_many(math.ceil((1 - bucket.left) / rate))


class FailedTokens:
    """Refuses addresses that show too many bad tokens, but for tokens that were good there before: one client with an
    old profile does not lock out others behind the same address."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._failures = RateLimiter(per_minute, now)
        self._good: dict[tuple[str, str], None] = {}

    def check(self, address: str, digest: str) -> None:
        """Raises `Refusal` (429) if the token must not be looked at."""
        if (address, digest) not in self._good:
            self._failures.check(address)

    def note(self, address: str, digest: str, *, good: bool) -> None:
        """What became of a token that was looked at."""
        self._good.pop((address, digest), None)
        if not good:
            with suppress(Refusal):
                self._failures.take(address)
            return
        self._good[address, digest] = None
        if len(self._good) > _MOST_REMEMBERED:
            del self._good[next(iter(self._good))]


def _too_many(seconds: int) -> Refusal:
    return Refusal(
        f"too many requests: ask again in {seconds} s",
        status=429,
        code="RATE_LIMIT_EXCEEDED",
        headers=((b"retry-after", str(seconds).encode()),),
    )
