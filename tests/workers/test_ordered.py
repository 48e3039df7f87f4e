"""Threads whose results come in order, not far ahead of the consumer; `test_threads.py` has more on `map_ordered`."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event, Thread, get_ident
from time import monotonic

import pytest

from lakeport.workers.ordered import ahead, in_order, map_ordered


def test_only_a_few_batches_are_read_ahead_of_a_consumer_that_stops() -> None:
    read: Counter[str] = Counter()
    at_the_end = Event()

    def batches(file: str) -> Iterator[str]:
        for number in range(100):
            read[file] += 1
            yield f"{file}{number}"
        at_the_end.set()

    with closing(in_order("abc", batches, threads=2)) as rows:
        assert [next(rows) for _ in range(3)] == ["a0", "a1", "a2"]
        assert not at_the_end.wait(0.3)
        assert read["a"] < 10
        assert read["b"] < 10
        assert read["c"] == 0


def test_a_consumer_that_keeps_everything_waits_for_no_file_in_particular() -> None:
    last_is_read = Event()

    def batches(file: int) -> Iterator[int]:
        if file == 0:
            assert last_is_read.wait(10)
        yield from range(50)
        if file == 9:
            last_is_read.set()

    assert list(in_order(range(10), batches, threads=10, at_once=2, bounded=False)) == [*range(50)] * 10


def test_at_most_so_many_files_are_read_at_once_by_the_same_threads() -> None:
    names = set()

    def batches(file: int) -> Iterator[int]:
        names.add(get_ident())
        yield file

    assert list(in_order(range(100), batches, threads=8, at_once=2)) == [*range(100)]
    assert len(names) <= 2


def test_the_error_of_a_file_comes_after_the_rows_of_those_before_it() -> None:
    def batches(file: int) -> Iterator[int]:
        if file == 3:
            raise ValueError(file)
        yield file

    results = in_order(range(9), batches, threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="3"):
        next(results)


ABANDONED = """
import builtins
from lakeport.workers.ordered import in_order

results = in_order(range(9), lambda item: iter(range(99)), threads=2)
print(next(results))
if {long_lived}:
    builtins.results = results
"""


@pytest.mark.parametrize("long_lived", [False, True])
def test_results_that_nobody_closes_let_the_process_exit(long_lived: bool) -> None:
    command = [sys.executable, "-c", ABANDONED.format(long_lived=long_lived)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_consumer_that_stops_does_not_wait_for_a_storage_that_hangs() -> None:
    gone = Event()

    def batches(file: int) -> Iterator[int]:
        yield file
        if file:
            assert gone.wait(60)

    results = in_order(range(3), batches, threads=3)
    try:
        assert next(results) == 0
        began = monotonic()
        results.close()
        assert monotonic() - began < 20
    finally:
        gone.set()


@pytest.mark.parametrize("possible", [0, 1])
def test_a_thread_that_cannot_start_is_an_error(possible: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Thread.start
    started: list[Thread] = []

    def start_few(thread: Thread) -> None:
        if len(started) == possible:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(Thread, "start", start_few)
    with pytest.raises(RuntimeError, match="can't start"):
        list(in_order(range(9), lambda item: iter(range(99)), threads=2))
    assert not any(thread.is_alive() for thread in started)


def test_the_error_of_a_later_call_is_raised_while_the_first_one_runs() -> None:
    stop = Event()

    def call(item: int) -> None:
        if item:
            raise ValueError(item)
        assert stop.wait(10)

    with pytest.raises(ValueError, match="1"):
        list(map_ordered(call, [0, 1], 2, "test", stop))


def test_a_time_out_within_a_call_is_an_error_like_any_other() -> None:
    def call(item: int) -> None:
        raise TimeoutError(item)

    with pytest.raises(TimeoutError, match="7"):
        list(map_ordered(call, [7], 2, "test"))


@pytest.mark.parametrize("fails", [False, True])
def test_calls_that_nobody_waits_for_are_cancelled(fails: bool) -> None:
    started: list[Future[int]] = []
    gate = Event()

    def call(item: int) -> int:
        if item == 1:
            assert gate.wait(10)
        if item == 0 and fails:
            raise ValueError(item)
        return item

    def calls(pool: ThreadPoolExecutor) -> Iterator[Future[int]]:
        for item in range(100):
            started.append(pool.submit(call, item))
            yield started[-1]

    with ThreadPoolExecutor(1) as pool:
        with closing(ahead(calls(pool), 4)) as results:
            if fails:
                with pytest.raises(ValueError, match="0"):
                    next(results)
            else:
                assert next(results) == 0
        gate.set()
    assert len(started) == (4 if fails else 5)
    assert all(call.cancelled() for call in started[2:])
