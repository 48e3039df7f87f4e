"""Threads that do the work of operations; `tests/spark/test_distribution.py` has the same for the tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from lakeport.engine import memory_engine
from lakeport.workers import StoppedError, ThreadWorkers, Workplace, open_workers

ENGINE = memory_engine()


def squared(place: Workplace, item: int) -> int:
    if item < 0:
        raise ValueError("negative")
    return item * item


def test_without_a_session_threads_work_in_this_process() -> None:
    place = open_workers(ENGINE).here
    assert place is not None
    assert place.engine is ENGINE


@pytest.mark.parametrize(("memory", "threads"), [(None, 4), (8 << 30, 4), (1 << 30, 2), (1, 1)])
def test_there_are_no_more_threads_than_the_memory_allows(memory: int | None, threads: int) -> None:
    workers = ThreadWorkers(ENGINE, 4, memory)
    assert (workers.here.threads, workers.here.memory) == (threads, memory)
    of_each = None if memory is None else memory // threads
    places = list(workers.map(lambda place, _: (place.threads, place.memory), range(5)))
    assert places == [(1, of_each)] * 5


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(ThreadWorkers(ENGINE, 3).map(squared, iter(range(200)))) == [n * n for n in range(200)]
    assert list(ThreadWorkers(ENGINE).map(squared, [])) == []


def test_only_some_tasks_run_ahead_of_whoever_takes_the_results() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1_000):
            taken.append(item)
            yield item

    results = ThreadWorkers(ENGINE, 2).map(squared, items())
    assert next(results) == 0
    assert len(taken) < 100


def test_one_process_takes_all_items_at_once() -> None:
    workers = ThreadWorkers(ENGINE)
    assert workers.groups(range(5), lambda item: 10, most=1) == [[0, 1, 2, 3, 4]]
    assert workers.groups([], lambda item: 10, most=1) == []


def test_a_task_that_is_alone_may_use_all_threads() -> None:
    def threads(place: Workplace, item: int) -> int:
        return place.threads

    assert list(ThreadWorkers(ENGINE, 5).map(threads, [1])) == [5]
    assert list(ThreadWorkers(ENGINE, 5).map(threads, [1, 2])) == [1, 1]


def test_what_was_made_is_undone_if_a_task_fails() -> None:
    undone: list[int] = []
    with pytest.raises(ValueError, match="negative"):
        list(ThreadWorkers(ENGINE, 1).map(squared, [2, 3, -1, 4], undo=undone.append))
    assert undone[:2] == [4, 9]


def test_what_was_made_is_undone_if_the_results_are_not_taken() -> None:
    undone: list[int] = []
    results = ThreadWorkers(ENGINE, 1).map(squared, [2, 3], undo=undone.append)
    assert next(results) == 4
    results.close()  # type: ignore[attr-defined]  # it is a generator
    assert undone[0] == 4


def test_a_task_learns_that_another_one_has_failed() -> None:
    started, stopped = Event(), []

    def work(place: Workplace, item: int) -> None:
        if item == 1:
            assert started.wait(10)
            raise ValueError("no")
        started.set()
        try:
            while not place.stop.wait(0.01):
                place.check()
            place.check()
        except StoppedError:
            stopped.append(item)
            raise

    with pytest.raises(ValueError, match="no"):
        list(ThreadWorkers(ENGINE, 2).map(work, [0, 1]))
    assert stopped == [0]
