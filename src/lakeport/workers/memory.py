"""Which allocator large results come from."""

from __future__ import annotations

import os
from functools import cache

import pyarrow as pa

_LARGE = 1 << 20


def pool_for(size: int) -> pa.MemoryPool | None:
    """The allocator for results of about so many bytes; None for Arrow's default. That is mostly mimalloc, which
    requests huge pages: tables then take up to half more memory than with jemalloc, and longer wherever the kernel must
    first make room for such pages. For small results it is faster. An explicit ARROW_DEFAULT_MEMORY_POOL wins."""
    return _large_pool() if size > _LARGE else None


@cache
def _large_pool() -> pa.MemoryPool | None:
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        return None
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:
        return None
