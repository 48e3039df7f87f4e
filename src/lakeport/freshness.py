"""Values that expire, and are renewed in time."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")

Clock = Callable[[], float]
"""Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Fresh(Generic[V]):
    value: V = field(repr=False)
    until: float = math.inf
    """Seconds since the epoch; the value is renewed from then on."""


def renew_at(taken: float, expires: float | None, part: float = 0.2) -> float:
    """When to renew a value: with this part of its lifetime left, but at most five minutes, so that reads begun before
    then can finish. Times are in seconds since the epoch.

    A value of unknown lifetime is used until it is rejected; so is one that arrived expired, because clocks differ.
    """
    if expires is None or expires <= taken:
        return math.inf
    return expires - min(part * (expires - taken), 300.0)


class Renewed(Generic[V]):
    """A value and its renewal. Thread-safe: one thread renews, the others wait. They all get its error; the next caller
    tries again."""

    def __init__(self, now: Clock = time.time, latest: Fresh[V] | None = None) -> None:
        self.latest = latest
        self.lock = Lock()
        """Held while renewing."""
        self._now, self._attempts = now, 0
        self._error: Exception | None = None

    def current(self, make: Callable[[], Fresh[V]]) -> V:
        return self.get(lambda fresh: fresh.until <= self._now(), make)

    def instead_of(self, rejected: V, make: Callable[[], Fresh[V]]) -> V:
        return self.get(lambda fresh: fresh.value == rejected, make)

    def get(self, is_old: Callable[[Fresh[V]], bool], make: Callable[[], Fresh[V]]) -> V:
        """Renews an old or missing value. Raises what `make` raises."""
        latest, attempts = self.latest, self._attempts
        if latest is not None and not is_old(latest):
            return latest.value
        with self.lock:
            if self._error is not None and self._attempts > attempts:  # another thread failed meanwhile
                raise self._error
            if self.latest is None or is_old(self.latest):
                self.latest = self._made(make)
            return self.latest.value

    def _made(self, make: Callable[[], Fresh[V]]) -> Fresh[V]:
        self._error = None
        try:
            return make()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._attempts += 1


class RenewedValues(Generic[V]):
    """Values by keys. Above `capacity`, the least recently used ones are evicted. Thread-safe."""

    def __init__(self, now: Clock = time.time, capacity: int = 1000) -> None:
        self._now, self._capacity = now, capacity
        self._values: OrderedDict[Hashable, Renewed[V]] = OrderedDict()
        self._lock = Lock()

    def of(self, key: Hashable) -> Renewed[V]:
        with self._lock:
            value = self._values.setdefault(key, Renewed(self._now))
            self._values.move_to_end(key)
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
            return value
