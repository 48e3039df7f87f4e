"""Threads that wait for responses, shared by all stores of a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cache, partial
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class RequestPool(Executor):
    """A `ThreadPoolExecutor` of daemon threads: a storage that hangs does not keep the process from exiting."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle, self._lock = Semaphore(0), Lock()
        self._started = 0

    def submit(self, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_R]:
        call: Future[_R] = Future()
        self._calls.put((call, partial(function, *args, **kwargs)))
        if not self._idle.acquire(blocking=False):
            self._start_thread()
        return call

    def _start_thread(self) -> None:
        with self._lock:
            if self._started < self._most:
                Thread(target=self._work, name=f"lakeport-{self._name}_{self._started}", daemon=True).start()
                self._started += 1

    def _work(self) -> None:
        while True:
            _run(*self._calls.get())
            self._idle.release()


def _run(call: Future[Any], function: Callable[[], Any]) -> None:
    if not call.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # raised again to whoever takes the result
        call.set_exception(error)
    else:
        call.set_result(result)


@cache
def pool(name: str, threads: int) -> RequestPool:
    """The threads of a kind. They must not wait for others of their own kind."""
    return RequestPool(threads, name)


os.register_at_fork(after_in_child=pool.cache_clear)
