"""Whose turn it is: many files are fetched at once, few of them decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, local

from lakeport.workers.workplace import StoppedError


class Turn:
    """The turn of one producer. It begins at most once."""

    def __init__(self) -> None:
        self._decided, self._stopped = Event(), False

    def begin(self) -> None:
        self._decided.set()

    def stop(self) -> None:
        """Let it stop instead of waiting any longer."""
        self._stopped = True
        self._decided.set()

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """`await_turn` in this thread waits for this turn."""
        _THREAD.turn = self
        try:
            yield
        finally:
            _THREAD.turn = None

    def wait(self) -> None:
        self._decided.wait()
        if self._stopped:
            raise StoppedError


class _Thread(local):
    turn: Turn | None = None


_THREAD = _Thread()


def await_turn() -> None:
    """Wait until it is this thread's turn to use a core and much memory; returns at once if it has none.

    Raises `StoppedError` if what it produces is no longer needed."""
    if _THREAD.turn is not None:
        _THREAD.turn.wait()
