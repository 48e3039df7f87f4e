"""Who does the work of operations that touch many files: threads of this process, or the tasks of a Spark cluster.

    workers = open_workers(engine, spark)                   # threads where spark is None
    for written in workers.map(write_file, plans, undo=remove_file):
        …

An operation plans, hands tasks to its workers, and commits once what they made: it is written once for both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lakeport.kernel.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
_AHEAD = 16
"""So many tasks for each thread may be ahead of the one whose result is taken next."""


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


def open_workers(engine: Engine, spark: SparkSession | None = None) -> Workers:
    """Threads, or with a session, classic or Connect, the tasks of Spark.

    Raises `ValueError` for an engine that cannot be sent to other processes."""
    if spark is None:
        return ThreadWorkers(engine)
    from lakeport.spark.distribution import SparkWorkers

    return SparkWorkers(spark, engine)


class ThreadWorkers:
    """Threads of this process: one more than there are cores, so that none waits while a result is taken."""

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
                        undo(future.result())  # type: ignore[misc]  # there are none without it
                raise


def _result(first: Future[_R], others: Iterable[Future[Any]]) -> _R:
    """The result of the first, unless another one has failed meanwhile: then that is the news."""
    while True:
        with suppress(TimeoutError):
            return first.result(timeout=0.2)
        for other in others:
            if other.done() and (error := other.exception()) is not None:
                raise error
