"""Threads whose results come in order: `in_order` for streams, `map_ordered` for single results, and `ahead` for those
of a pool that outlives the call. `await_turn` lets many files be fetched at once, and few of them decoded."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice
from queue import Queue, SimpleQueue
from threading import Event, Semaphore, Thread, local
from time import monotonic
from typing import Generic, TypeVar

from lakeport.workers.workplace import StoppedError

_T = TypeVar("_T")
_R = TypeVar("_R")
_BATCHES_AHEAD = 2
"""Maximum number of buffered batches per file."""
MOST_WAITED_FOR = 64 << 20
"""Bytes of files that are fetched ahead, by several at once."""
_MOST_THREADS = 16
_PATIENCE = 2.0
"""Seconds to wait for threads whose results are no longer needed."""
_CALLS_AHEAD = 16
"""Maximum number of calls per thread ahead of the next result to be taken."""


def map_ordered(
    function: Callable[[_T], _R],
    items: Iterable[_T],
    threads: int,
    name: str,
    stop: Event | None = None,
    undo: Callable[[_R], object] | None = None,
) -> Generator[_R, None, None]:
    """The function's results, in item order. Raises the error of any call, once no other call is running. On an error,
    or if the results are not consumed to the end, sets `stop`, and calls `undo` with every result so far, including
    those already handed out."""
    started: list[Future[_R]] = []
    with ThreadPoolExecutor(threads, f"lakeport-{name}") as pool:

        def start(item: _T) -> Future[_R]:
            call = pool.submit(function, item)
            if undo is not None:
                started.append(call)
            return call

        try:
            yield from ahead(map(start, items), _CALLS_AHEAD * threads, any_error=True)
        except BaseException:
            if stop is not None:
                stop.set()
            pool.shutdown(cancel_futures=True)
            for call in started:
                if undo is not None and not call.cancelled() and call.exception() is None:
                    undo(call.result())
            raise


def ahead(calls: Iterable[Future[_R]], most: int, *, any_error: bool = False) -> Iterator[_R]:
    """The results of calls, in order; taking one from `calls` starts it, and at most `most` are under way. Cancels the
    others on an error, or if the results are not consumed to the end. With `any_error`, does not wait for a result if a
    later call has failed."""
    following = iter(calls)
    under_way: deque[Future[_R]] = deque()
    try:
        under_way.extend(islice(following, most))
        while under_way:
            first = under_way.popleft()
            while any_error and not first.done() and not wait([first], timeout=0.2).done:
                for call in under_way:
                    if call.done():
                        call.result()
            result = first.result()
            under_way.extend(islice(following, 1))
            yield result
    finally:
        for call in under_way:
            call.cancel()


def in_order(
    items: Iterable[_T],
    produce: Callable[[_T], Iterator[_R]],
    threads: int,
    weigh: Callable[[_T], int] | None = None,
    *,
    at_once: int | None = None,
    bounded: bool = True,
) -> Generator[_R, None, None]:
    """The results of `produce` for each item, in item order, prefetching the next items: `threads` of them, or more as
    long as their total weight is at most `MOST_WAITED_FOR`. At most `at_once` of them run; all by default. It is
    the turn of the first `threads` of them: the others wait in `await_turn`.

    Each item has a few results ahead of the consumer; with `bounded=False`, all of them, for one that keeps them."""
    most = threads if weigh is None else max(threads, _MOST_THREADS)
    under_way: deque[tuple[_Producer[_R], int]] = deque()
    crew: _Crew[_R] = _Crew(at_once or most)
    weighed = ((item, weigh(item) if weigh else 0) for item in items)
    following: tuple[_T, int] | None = None
    try:
        while True:
            while len(under_way) < most and (following := following or next(weighed, None)) is not None:
                if len(under_way) >= threads and sum(w for _, w in under_way) + following[1] > MOST_WAITED_FOR:
                    break
                producer = _Producer(produce, following[0], _BATCHES_AHEAD if bounded else 0)
                if len(under_way) < threads:
                    producer.turn.begin()
                crew.run(producer)
                under_way.append((producer, following[1]))
                following = None
            if not under_way:
                return
            yield from under_way[0][0].take()
            under_way.popleft()
            if len(under_way) >= threads:
                under_way[threads - 1][0].turn.begin()
    finally:
        if not sys.is_finalizing():  # otherwise the threads do not run any more
            for producer, _ in under_way:
                producer.stop()
            crew.leave(monotonic() + _PATIENCE)


def await_turn() -> None:
    """Wait until it is this thread's turn to use a core and much memory; returns at once if it has none.

    Raises `StoppedError` if what it produces is no longer needed."""
    if _THREAD.turn is not None:
        _THREAD.turn.wait()


class _Turn:
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
    turn: _Turn | None = None


_THREAD = _Thread()


class _Producer(Generic[_R]):
    """The results of one item, a few ahead of their consumer."""

    def __init__(self, produce: Callable[[_T], Iterator[_R]], item: _T, ahead: int) -> None:
        self._results = partial(produce, item)
        self._queue: Queue[_R | BaseException | None] = Queue(ahead)
        self._stopped = Event()
        self._ended = Event()
        self.turn = _Turn()

    def run(self) -> None:
        try:
            with self.turn.of_this_thread():
                self._run()
        except BaseException as error:  # reraised in the consumer's thread
            self._queue.put(error)
        finally:
            self._ended.set()

    def _run(self) -> None:
        if not self._stopped.is_set():
            results = self._results()
            try:
                for result in results:
                    self._queue.put(result)
                    if self._stopped.is_set():
                        break
            finally:
                close = getattr(results, "close", None)
                if close is not None:
                    close()
        self._queue.put(None)

    def take(self) -> Iterator[_R]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def stop(self) -> None:
        """Let it stop at the next result, for which there is room again."""
        self._stopped.set()
        self.turn.stop()
        while not self._queue.empty():
            self._queue.get_nowait()


class _Crew(Generic[_R]):
    """Threads that run producers, in the order given. They are daemons, so a consumer that neither continues nor closes
    its results does not keep the process from exiting."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[_Producer[_R] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._idle = Semaphore(0)

    def run(self, producer: _Producer[_R]) -> None:
        """By an idle thread, if there is one: allocators keep memory for each thread."""
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = Thread(target=self._work, name="lakeport-reader", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._waiting.put(producer)

    def _work(self) -> None:
        while (producer := self._waiting.get()) is not None:
            producer.run()
            self._idle.release()

    def leave(self, until: float) -> None:
        """Let the threads end, and wait for them until then: one may wait for a storage that hangs."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))
