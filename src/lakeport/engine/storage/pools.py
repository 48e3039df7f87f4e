"""Threads that wait for responses, shared by all stores of a process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache


@cache
def pool(name: str, threads: int) -> ThreadPoolExecutor:
    """The threads of a kind. They must not wait for others of their own kind."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"lakeport-{name}")


os.register_at_fork(after_in_child=pool.cache_clear)
