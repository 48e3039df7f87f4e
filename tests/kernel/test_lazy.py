"""Lazy properties of objects that several threads use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from lakeport.kernel.lazy import lazy_property

SECONDS = 20


class Thing:
    """Its value is there once `ready` is set."""

    def __init__(self) -> None:
        self.begun, self.ready = Event(), Event()
        self.times = 0

    @lazy_property
    def value(self) -> list[int]:
        """What it is worth."""
        self.begun.set()
        assert self.ready.wait(SECONDS)
        self.times += 1
        if self.times == 1 and hasattr(self, "fails"):
            raise ValueError("not now")
        return [self.times]


def test_threads_that_ask_at_once_get_one_value() -> None:
    thing, together = Thing(), Barrier(4)

    def ask() -> list[int]:
        together.wait(SECONDS)
        return thing.value

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask) for _ in range(4)]
        thing.ready.set()
        values = [future.result(SECONDS) for future in asked]
    assert thing.times == 1
    assert all(value is values[0] for value in values)


def test_an_object_does_not_wait_for_another_one() -> None:
    slow, fast = Thing(), Thing()
    fast.ready.set()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: slow.value)
        assert slow.begun.wait(SECONDS)
        try:
            assert pool.submit(lambda: fast.value).result(SECONDS) == [1]
            assert not waiting.done()
        finally:
            slow.ready.set()
        assert waiting.result(SECONDS) == [1]


def test_a_failure_is_not_kept() -> None:
    thing = Thing()
    thing.ready.set()
    thing.fails = True  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="not now"):
        _ = thing.value
    assert thing.value == [2]
    assert thing.value == [2]


def test_the_class_has_its_documentation() -> None:
    assert Thing.value.__doc__ == "What it is worth."
