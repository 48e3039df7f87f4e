"""Many producers may begin, a few have their turn."""

from collections.abc import Iterator
from contextlib import closing
from threading import Lock, Semaphore

import pytest

from lakeport.workers.ordered import await_turn, in_order


class Files:
    """Counts those that were fetched, and those that were decoded and not yet taken."""

    def __init__(self) -> None:
        self.fetched, self.decoding, self.most = Semaphore(0), 0, 0
        self._lock = Lock()

    def rows(self, file: int) -> Iterator[int]:
        self.fetched.release()
        await_turn()
        with self._lock:
            self.decoding += 1
            self.most = max(self.most, self.decoding)
        yield file

    def taken(self) -> None:
        with self._lock:
            self.decoding -= 1


def test_all_that_fit_are_fetched_and_few_are_decoded() -> None:
    files = Files()
    with closing(in_order(range(30), files.rows, threads=3, weigh=lambda _: 1)) as rows:
        first = next(rows)
        assert all(files.fetched.acquire(timeout=10) for _ in range(16))
        found = [first]
        files.taken()
        for row in rows:
            files.taken()
            found.append(row)
    assert found == list(range(30))
    assert files.most <= 4  # one is taken while the next has its turn


def test_those_that_wait_stop_with_their_consumer() -> None:
    files = Files()
    with closing(in_order(range(30), files.rows, threads=2, weigh=lambda _: 1)) as rows:
        assert next(rows) == 0
        assert all(files.fetched.acquire(timeout=10) for _ in range(16))
    assert files.most <= 3


def test_an_error_is_raised_while_others_wait() -> None:
    def fail(file: int) -> Iterator[int]:
        if file == 1:
            raise ValueError(file)
        await_turn()
        yield file

    with pytest.raises(ValueError, match="1"):
        list(in_order(range(30), fail, threads=2, weigh=lambda _: 1))


def test_a_thread_without_a_turn_does_not_wait() -> None:
    await_turn()
