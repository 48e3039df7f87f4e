"""The environment of a task, and the interface of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol, TypeVar

from lakeport.kernel.engine import Engine

_T = TypeVar("_T")
_R = TypeVar("_R")


class StoppedError(Exception):
    """Another task has failed, so this one's result is no longer needed."""


@dataclass(frozen=True)
class Workplace:
    """The environment of a task."""

    engine: Engine
    threads: int = 1
    """The number of files a task may read at once."""
    stop: Event = field(default_factory=Event)
    memory: int | None = None
    """The bytes of memory that a task may take, if limited."""

    def check(self) -> None:
        """Raises `StoppedError` if the task's result is no longer needed. Long tasks call it regularly."""
        if self.stop.is_set():
            raise StoppedError


class Workers(Protocol):
    """Runs tasks: functions of a workplace and an item. In other processes, function, items and results are pickled."""

    @property
    def here(self) -> Workplace | None:
        """This process, if tasks run in it and so can share objects with their caller."""

    def groups(self, items: Iterable[_T], weigh: Callable[[_T], int], most: int) -> list[list[_T]]:
        """Group neighbouring items into tasks that weigh at most `most`, unless a single item weighs more. A process
        that works alone takes all of them at once."""

    def map(
        self,
        task: Callable[[Workplace, _T], _R],
        items: Iterable[_T],
        undo: Callable[[_R], object] | None = None,
    ) -> Iterator[_R]:
        """The task's results in item order. Raises a task's error once no other task is running. On an error, or if the
        results are not consumed to the end, calls `undo` with every result so far, including those already handed
        out."""
