"""A thread-safe cache of values that expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Fresh(Generic[V]):
    value: V
    until: float
    """Seconds since the epoch; the value is made anew from then on."""


class FreshValues(Generic[V]):
    """A thread-safe cache: of concurrent callers for a key, one makes the value and the others wait for it.

    All waiting callers get its error, which is not cached. Above `capacity`, the least recently used keys are evicted.
    """

    def __init__(self, now: Callable[[], float], capacity: int = 1000) -> None:
        self._now, self._capacity = now, capacity
        self._made: OrderedDict[Hashable, Future[Fresh[V]]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Fresh[V]]) -> V:
        """Raises what `make` raises."""
        future, is_new = self._future(key)
        if is_new:
            _fill(future, make)
        return future.result().value

    def _future(self, key: Hashable) -> tuple[Future[Fresh[V]], bool]:
        with self._lock:
            future = self._made.get(key)
            is_new = future is None or self._is_stale(future)
            if future is None or is_new:
                future = self._made[key] = Future()
            self._made.move_to_end(key)
            if len(self._made) > self._capacity:
                self._made.popitem(last=False)
            return future, is_new

    def _is_stale(self, future: Future[Fresh[V]]) -> bool:
        return future.done() and (future.exception() is not None or future.result().until <= self._now())


def _fill(future: Future[Fresh[V]], make: Callable[[], Fresh[V]]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:  # whatever it is, nobody may wait forever
        future.set_exception(error)
