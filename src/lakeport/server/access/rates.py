"""Rate limits: requests per recipient, and failed authentications per address."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lakeport.server.http.refusals import Refusal, too_many


@dataclass(slots=True)
class _Bucket:
    left: float
    filled: float


_MOST_REMEMBERED = 10_000


class RateLimiter:
    """A token bucket per client: so many calls a minute, with bursts of up to a minute's worth. 0 means no limit."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._now = per_minute, now
        self._buckets: dict[str, _Bucket] = {}

    def take(self, client: str) -> None:
        """Raises `Refusal` (429) with the seconds to wait."""
        if self._per_minute:
            self.check(client)
            self._buckets[client].left -= 1

    def check(self, client: str) -> None:
        """Raise as `take` would, without taking a token."""
        if not self._per_minute:
            return
        now, rate = self._now(), self._per_minute / 60
        bucket = self._buckets.pop(client, None) or _Bucket(self._per_minute, now)
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.filled) * rate)
        bucket.filled = now
        self._buckets[client] = bucket
        if len(self._buckets) > _MOST_REMEMBERED:  # evict the least recently used
            del self._buckets[next(iter(self._buckets))]
        if bucket.left < 1:
            seconds = math.ceil((1 - bucket.left) / rate)
            raise too_many(f"too many requests: retry in {seconds} s", seconds)


class FailedTokens:
    """Refuses addresses that send too many bad tokens, except for tokens that have worked from there before: a client
    with an old profile must not lock out others behind the same address."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._failures = RateLimiter(per_minute, now)
        self._good: dict[tuple[str, str], None] = {}

    def check(self, address: str, digest: str) -> None:
        """Raises `Refusal` (429) if the token must not be checked."""
        if (address, digest) not in self._good:
            self._failures.check(address)

    def note(self, address: str, digest: str, *, good: bool) -> None:
        """Record the result of checking a token."""
        self._good.pop((address, digest), None)
        if not good:
            with suppress(Refusal):
                self._failures.take(address)
            return
        self._good[address, digest] = None
        if len(self._good) > _MOST_REMEMBERED:
            del self._good[next(iter(self._good))]
