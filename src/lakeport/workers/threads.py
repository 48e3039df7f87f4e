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


class ThreadWorkers:
    """Threads of this process: one more than cores, so that no core idles while a result is consumed."""

    def __init__(self, engine: Engine, threads: int | None = None) -> None:
        self._engine, self._threads = engine, threads or pa.cpu_count() + 1

    @property
    def here(self) -> Workplace:
        return Workplace(self._engine, self._threads)

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
        place = Workplace(self._engine, self._threads if alone else 1)
        return map_ordered(partial(task, place), items, self._threads, "worker", place.stop, undo)
