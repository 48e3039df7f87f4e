"""Run tasks in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lakeport.kernel.engine import Engine
from lakeport.workers.ordered import map_ordered
from lakeport.workers.workplace import Workplace

_T = TypeVar("_T")
_R = TypeVar("_R")
_OF_A_THREAD = 512 << 20
"""The memory that one thread may take, if it is limited: each may hold a whole file."""


class ThreadWorkers:
    """Threads of this process: one more than cores, so that no core idles while a result is consumed; fewer if the
    memory that they may take together is limited."""

    def __init__(self, engine: Engine, threads: int | None = None, memory: int | None = None) -> None:
        most = threads or pa.cpu_count() + 1
        self._threads = most if memory is None else max(1, min(most, memory // _OF_A_THREAD))
        self._engine, self._memory = engine, memory

    @property
    def here(self) -> Workplace:
        return Workplace(self._engine, self._threads, memory=self._memory)

    def groups(self, items: Iterable[_T], weigh: Callable[[_T], int], most: int) -> list[list[_T]]:
        found = list(items)
        return [found] if found else []

    def map(
        self,
        task: Callable[[Workplace, _T], _R],
        items: Iterable[_T],
        undo: Callable[[_R], object] | None = None,
    ) -> Iterator[_R]:
        alone = isinstance(items, Sequence) and len(items) == 1
        place = self.here if alone else self._place_of_one
        return map_ordered(partial(task, place), items, self._threads, "worker", place.stop, undo)

    @property
    def _place_of_one(self) -> Workplace:
        """The environment of each of many tasks."""
        return Workplace(self._engine, 1, memory=self._memory and self._memory // self._threads)
