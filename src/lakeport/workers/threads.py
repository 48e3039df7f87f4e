"""Run tasks in threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa

from lakeport.kernel.engine import Engine
from lakeport.workers.workplace import Workplace

_T = TypeVar("_T")
_R = TypeVar("_R")
_AHEAD = 16
"""Maximum number of tasks per thread ahead of the next result to be taken."""


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
        started: list[Future[_R]] = []
        with ThreadPoolExecutor(self._threads, "lakeport-worker") as pool:
            ahead: deque[Future[_R]] = deque()
            try:
                for item in items:
                    ahead.append(pool.submit(task, place, item))
                    if undo is not None:
                        started.append(ahead[-1])
                    if len(ahead) > _AHEAD * self._threads:
                        yield _result(ahead.popleft(), ahead)
                while ahead:
                    yield _result(ahead.popleft(), ahead)
            except BaseException:
                place.stop.set()
                pool.shutdown(cancel_futures=True)
                for future in started if undo is not None else ():
                    if not future.cancelled() and future.exception() is None:
                        undo(future.result())  # type: ignore[misc]  # results are kept only with `undo`
                raise


def _result(first: Future[_R], others: Iterable[Future[Any]]) -> _R:
    """The result of the first, unless another has failed meanwhile: then raise its error."""
    while True:
        with suppress(TimeoutError):
            return first.result(timeout=0.2)
        for other in others:
            if other.done() and (error := other.exception()) is not None:
                raise error
