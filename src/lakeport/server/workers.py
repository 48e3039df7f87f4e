"""Threads for what blocks: storage, the database, and the planning of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A fixed number of threads; what finds none free waits for one, in order. Its methods belong to the event loop."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"lakeport-{name}")
        self._lane_threads = max(1, threads // 4)
        self._lanes: WeakValueDictionary[str, Lane] = WeakValueDictionary()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a blocking call. Cancelling takes back a call that has not begun; one that has goes on."""
        return await self.start(function, *args, **kwargs)

    def start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        call = copy_context().run
        return asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(function, *args, **kwargs))

    def lane(self, key: str) -> Lane:
        """The threads for one table, or whatever has a storage that may hang: so few that others find some free."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self, self._lane_threads)
        return lane

    def close(self) -> None:
        """Takes no more work; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Lane:
    """A part of the threads; what finds all of them busy waits, in order."""

    def __init__(self, workers: Workers, threads: int) -> None:
        self._workers = workers
        self._free = asyncio.Semaphore(threads)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a blocking call. It goes on when it is cancelled, and holds its thread until its end."""
        await self._free.acquire()
        try:
            call = self._workers.start(function, *args, **kwargs)
        except BaseException:
            self._free.release()
            raise
        call.add_done_callback(self._ended)
        return await asyncio.shield(call)

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._free.release()
        if not call.cancelled():
            call.exception()  # it may be that nobody waits for the result any more
