"""Lanes: threads for blocking work, shared so that no recipient or table can take them all."""

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


class BlockingPool:
    """A fixed thread pool with a FIFO queue. Use only on the event loop, which `workers.ordered` would block."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"lakeport-{name}")
        self._threads = threads
        self._slots: WeakValueDictionary[tuple[str | None, str | None], asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call. Cancelling drops a call that has not started; a running one continues."""
        return await self.start(function, *args, **kwargs)

    def start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        call = copy_context().run
        return asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(function, *args, **kwargs))

    def lane(self, table: str, recipient: str) -> Lane:
        """The lane of one recipient on one table. The table's storage may hang, so a lane leaves threads free for other
        recipients and tables."""
        shares = [self._share(8, table, recipient), self._share(2, None, recipient), self._share(4, table, None)]
        return Lane(self, shares)

    def _share(self, divisor: int, table: str | None, recipient: str | None) -> asyncio.Semaphore:
        slots = self._slots.get((table, recipient))
        if slots is None:
            slots = self._slots[table, recipient] = asyncio.Semaphore(max(1, self._threads // divisor))
        return slots

    def close(self) -> None:
        """Accept no more work; do not wait for running calls."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Lane:
    """A share of the threads, with a FIFO queue.

    A call needs a slot of each kind, the narrowest first: a recipient with many calls waits for its own slots before it
    competes with others."""

    def __init__(self, pool: BlockingPool, slots: Sequence[asyncio.Semaphore]) -> None:
        self._pool, self._slots = pool, slots

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call. When cancelled, it continues and holds its thread until it finishes."""
        with ExitStack() as taken:
            for slots in self._slots:
                await slots.acquire()
                taken.callback(slots.release)
            call = self._pool.start(function, *args, **kwargs)
            call.add_done_callback(partial(_ended, taken.pop_all()))
        return await asyncio.shield(call)


def _ended(taken: ExitStack, call: asyncio.Future[Any]) -> None:
    taken.close()
    if not call.cancelled():
        call.exception()  # mark it retrieved: nobody may be waiting any more
