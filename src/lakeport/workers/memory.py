"""How much memory operations may take, and which allocator large results come from."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyarrow as pa

_LARGE = 1 << 20
_CGROUPS = Path("/sys/fs/cgroup")


def arrow_pool_for(size: int) -> pa.MemoryPool | None:
    """The allocator for results of about this many bytes; None for Arrow's default, which is usually mimalloc.

    mimalloc uses huge pages. Large tables take up to 50 % more memory than with jemalloc, and more time if the kernel
    must free such pages first. Small results are faster. An explicit ARROW_DEFAULT_MEMORY_POOL wins."""
    return _large_pool() if size > _LARGE else None


@cache
def _large_pool() -> pa.MemoryPool | None:
    if "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        return None
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:
        return None


def release_memory() -> None:
    """Give memory that is free, but kept for later, back to the system."""
    for pool in filter(None, (pa.default_memory_pool(), _large_pool())):
        pool.release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def default_memory_limit() -> int:
    """Half of this machine's memory, or of what this process may take of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *cgroup_limits()]) // 2


def cgroup_limits(root: Path = _CGROUPS, groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """The limits of this process's control groups, of both versions."""
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                folder = root / controllers / group.lstrip("/")
                for each in (folder, *folder.parents):
                    yield from _limit_in(each / "memory.max")
                    yield from _limit_in(each / "memory.limit_in_bytes")


def _limit_in(file: Path) -> Iterator[int]:
    with suppress(OSError, ValueError):  # "max" is none
        yield int(file.read_text())
