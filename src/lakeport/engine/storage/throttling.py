"""Wait while a store throttles: it works, and says that it gets too many requests.

obstore repeats a request a few times within seconds, which is enough where a store fails, but not where it is busy.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_R = TypeVar("_R")
_ASKS_TO_SLOW_DOWN = re.compile(r"SlowDown|ServerBusy|reduce your request rate|too many requests", re.IGNORECASE)


@dataclass(frozen=True)
class Patience:
    """How long to wait: intervals double from the first to the longest, and add up to the total at most."""

    total_seconds: float = 180.0
    first_seconds: float = 1.0
    longest_seconds: float = 20.0

    def intervals(self) -> Iterator[float]:
        """With jitter, so that clients that were throttled together do not return together."""
        waited, interval = 0.0, self.first_seconds
        while waited < self.total_seconds:
            yield interval * random.uniform(0.5, 1.0)
            waited, interval = waited + interval, min(2 * interval, self.longest_seconds)


def patiently(call: Callable[[], _R], patience: Patience) -> _R:
    """The result of a call, which is repeated while the store throttles. Raises the last error."""
    intervals = patience.intervals()
    while True:
        try:
            return call()
        except Exception as error:
            wait_if_throttled(error, intervals)


def wait_if_throttled(error: Exception, intervals: Iterator[float]) -> None:
    """Wait for the next interval. Raises the error if the store does not throttle, or if there is none left."""
    interval = next(intervals, None) if is_throttled(error) else None
    if interval is None:
        raise error
    time.sleep(interval)


def is_throttled(error: Exception) -> bool:
    """Whether the store asked for fewer requests. It cannot say so in the answer to a HEAD, which has no body."""
    said = str(error)
    if "status code: 429" in said:
        return True
    return "status code: 503" in said and (" HEAD " in said or _ASKS_TO_SLOW_DOWN.search(said) is not None)
