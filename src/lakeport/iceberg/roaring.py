"""Roaring bitmaps read from front to back, container by container: at most 65,536 values are in memory at a time. Or
passed over, with only their headers read.

See the "Roaring Bitmap format specification": 64-bit bitmaps in the portable format, which Delta and Iceberg share.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Take = Callable[[int], memoryview]
"""Gives the next so many bytes, or raises."""
Skip = Callable[[int], Iterator[None]]
"""Passes over so many bytes, or raises; stops wherever it has read some."""

VALUES_OF_A_CONTAINER = 1 << 16
_COOKIE_WITHOUT_RUNS, _COOKIE_WITH_RUNS = 12346, 12347
_ARRAY_LIMIT = 4096
_BITMAP_BYTES = VALUES_OF_A_CONTAINER // 8
_FEW_CONTAINERS = 4
"""So many containers with runs among them have no offsets."""
_KEY_LIMIT = 1 << 31  # the protocol keeps the highest bit of a position at 0


@dataclass(frozen=True, slots=True)
class Container:
    """Some values of a bitmap: `cardinality` of those from `first` on, as an array, as bits or as runs."""

    first: int
    cardinality: int
    data: memoryview
    is_runs: bool

    def values(self) -> npt.NDArray[np.uint64]:
        """Strictly ascending. Raises `ValueError` if they are not, or not as many as they should be."""
        if self.is_runs:
            low = _expand_runs(np.frombuffer(self.data, dtype="<u2"))
        elif self.cardinality <= _ARRAY_LIMIT:
            low = np.frombuffer(self.data, dtype="<u2")
            if (low[1:] <= low[:-1]).any():
                raise ValueError("the values of an array are not in order")
        else:
            low = np.flatnonzero(np.unpackbits(np.frombuffer(self.data, dtype=np.uint8), bitorder="little"))
        if len(low) != self.cardinality:
            raise ValueError(f"a container has {len(low)} values, its header says {self.cardinality}")
        return low.astype(np.uint64) + np.uint64(self.first)


def _expand_runs(pairs: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """The values of runs, each given by its start and by how many follow."""
    starts, lengths = pairs[::2].astype(np.int64), pairs[1::2].astype(np.int64) + 1
    ends = starts + lengths
    if len(ends) and ((starts[1:] < ends[:-1]).any() or ends[-1] > VALUES_OF_A_CONTAINER):
        raise ValueError("the runs of a container overlap or leave it")
    values_before = np.cumsum(lengths) - lengths
    expanded: npt.NDArray[np.int64] = np.repeat(starts - values_before, lengths) + np.arange(lengths.sum())
    return expanded


def read_bitmap64(take: Take) -> Iterator[Container]:
    """The containers of a 64-bit bitmap, ascending. Raises `ValueError` for what is none, and what `take` raises."""
    for key in _read_keys(take):
        yield from read_bitmap32(take, key << 32)


def count_bitmap64(take: Take, skip: Skip) -> Iterator[int]:
    """How many values a 64-bit bitmap has, bit by bit, as its headers say: the values are passed over, and 0 stands for
    each stop on the way. Raises as `read_bitmap64`."""
    for _ in _read_keys(take):
        yield from _count_bitmap32(take, skip)


def _read_keys(take: Take) -> Iterator[int]:
    """The high bits of the values of each 32-bit bitmap, which is to be taken before the next ones are asked for."""
    previous = -1
    (buckets,) = struct.unpack("<Q", take(8))
    for _ in range(buckets):
        (key,) = struct.unpack("<I", take(4))
        if not previous < key < _KEY_LIMIT:
            raise ValueError(f"the high bits {key} follow {previous}")
        previous = key
        yield key


def read_bitmap32(take: Take, base: int) -> Iterator[Container]:
    """The containers of a 32-bit bitmap whose values count from `base`. Raises as `read_bitmap64`."""
    keys, cardinalities, has_runs = _read_headers(take)
    for key, cardinality, is_runs in zip(keys.tolist(), cardinalities.tolist(), has_runs.tolist(), strict=True):
        yield Container(base + (key << 16), cardinality, take(_container_bytes(take, cardinality, is_runs)), is_runs)


def _count_bitmap32(take: Take, skip: Skip) -> Iterator[int]:
    _, cardinalities, has_runs = _read_headers(take)
    if not has_runs.any():
        sizes = np.where(cardinalities <= _ARRAY_LIMIT, 2 * cardinalities, _BITMAP_BYTES)
        yield from (0 for _ in skip(int(sizes.sum())))
        yield int(cardinalities.sum())
        return
    for cardinality, is_runs in zip(cardinalities.tolist(), has_runs.tolist(), strict=True):
        yield from (0 for _ in skip(_container_bytes(take, cardinality, is_runs)))
        yield cardinality


def _read_headers(take: Take) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The high bits of each container's values, how many these are, and whether they are runs."""
    count, has_runs = _read_cookie(take)
    headers = np.frombuffer(take(4 * count), dtype="<u2").astype(np.int64)
    keys, cardinalities = headers[::2], headers[1::2] + 1
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError("the containers of a bitmap are not in order")
    if has_runs is None or count >= _FEW_CONTAINERS:
        take(4 * count)  # offsets, for random access
    return keys, cardinalities, np.zeros(count, dtype=np.bool_) if has_runs is None else has_runs


def _read_cookie(take: Take) -> tuple[int, npt.NDArray[np.bool_] | None]:
    """How many containers there are, and for each whether it has runs; None if the bitmap does not say it."""
    (cookie,) = struct.unpack("<I", take(4))
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(take((count + 7) // 8), dtype=np.uint8), count=count, bitorder="little")
        return count, flags.astype(np.bool_)
    if cookie != _COOKIE_WITHOUT_RUNS:
        raise ValueError(f"a bitmap starts with {cookie}")
    (count,) = struct.unpack("<I", take(4))
    if count > VALUES_OF_A_CONTAINER:
        raise ValueError(f"a bitmap has {count} containers")
    return count, None


def _container_bytes(take: Take, cardinality: int, is_runs: bool) -> int:
    """How many bytes the values of a container have; where it has runs, the number of these is taken."""
    if is_runs:
        (runs,) = struct.unpack("<H", take(2))
        return 4 * int(runs)
    return 2 * cardinality if cardinality <= _ARRAY_LIMIT else _BITMAP_BYTES
