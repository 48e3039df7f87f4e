"""Threads for what blocks: storage, the database, and the planning of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """A fixed number of threads; what finds none free waits for one, in order."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"lakeport-{name}")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a blocking call. Cancelling takes back a call that has not begun; one that has goes on."""
        call = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(function, *args, **kwargs))

    def close(self) -> None:
        """Takes no more work; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)
