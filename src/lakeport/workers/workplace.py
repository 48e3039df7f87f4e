"""What a task knows of the place it runs in, and what hands tasks out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol, TypeVar

from lakeport.kernel.engine import Engine

_T = TypeVar("_T")
_R = TypeVar("_R")


class StoppedError(Exception):
    """Another task has failed, so that nobody waits for the result of this one."""


@dataclass(frozen=True)
class Workplace:
    """Where a task runs."""

    engine: Engine
    threads: int = 1
    """How many files a task may read at once."""
    stop: Event = field(default_factory=Event)

    def check(self) -> None:
        """Raises `StoppedError` if the task is done in vain. A long task asks now and then."""
        if self.stop.is_set():
            raise StoppedError


class Workers(Protocol):
    """Runs tasks: functions of a workplace and an item. Where they run in other processes, function, items and results
    are pickled."""

    @property
    def here(self) -> Workplace | None:
        """This process, if the work is done in it: then a task can share objects with whoever hands it out."""

    def groups(self, items: Iterable[_T], weigh: Callable[[_T], int], most: int) -> list[list[_T]]:
        """Items that one task takes together: neighbours, which weigh `most` at most unless one weighs more. A process
        that does the work alone takes all of them at once."""

    def map(
        self,
        task: Callable[[Workplace, _T], _R],
        items: Iterable[_T],
        undo: Callable[[_R], object] | None = None,
    ) -> Iterator[_R]:
        """What the task makes of each item, in their order. Raises what a task raises, once no other runs; if that
        happens, or the results are not taken to their end, `undo` is called with each result that came about, those
        that were handed out included."""
