"""Threads for what blocks: storage, the database, and the planning of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A fixed number of threads; what finds none free waits for one, in order. Its methods belong to the event loop."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"lakeport-{name}")
        self._threads = threads
        self._slots: WeakValueDictionary[tuple[str | None, str | None], asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a blocking call. Cancelling takes back a call that has not begun; one that has goes on."""
        return await self.start(function, *args, **kwargs)

    def start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        call = copy_context().run
        return asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(function, *args, **kwargs))

    def lane(self, table: str, recipient: str) -> Lane:
        """The threads for one recipient on one table, whose storage may hang: so few that others find some free, on
        other tables and on this one."""
        shares = [self._share(8, table, recipient), self._share(2, None, recipient), self._share(4, table, None)]
        return Lane(self, shares)

    def _share(self, divisor: int, table: str | None, recipient: str | None) -> asyncio.Semaphore:
        slots = self._slots.get((table, recipient))
        if slots is None:
            slots = self._slots[table, recipient] = asyncio.Semaphore(max(1, self._threads // divisor))
        return slots

    def close(self) -> None:
        """Takes no more work; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Lane:
    """A part of the threads; what finds all of them busy waits, in order.

    A call needs a slot of each kind. The narrowest comes first: who has many calls waits for its own, and only then
    among others."""

    def __init__(self, workers: Workers, slots: Sequence[asyncio.Semaphore]) -> None:
        self._workers, self._slots = workers, slots

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a blocking call. It goes on when it is cancelled, and holds its thread until its end."""
        with ExitStack() as taken:
            for slots in self._slots:
                await slots.acquire()
                taken.callback(slots.release)
            call = self._workers.start(function, *args, **kwargs)
            call.add_done_callback(partial(_ended, taken.pop_all()))
        return await asyncio.shield(call)


def _ended(taken: ExitStack, call: asyncio.Future[Any]) -> None:
    taken.close()
    if not call.cancelled():
        call.exception()  # it may be that nobody waits for the result any more
