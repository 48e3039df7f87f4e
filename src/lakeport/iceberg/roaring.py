"""Roaring bitmaps read from front to back, container by container: at most 65,536 values are in memory at a time.

See the "Roaring Bitmap format specification": 64-bit bitmaps in the portable format, which Delta and Iceberg share.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Take = Callable[[int], bytes]
"""Gives the next so many bytes, or raises."""

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
    data: bytes
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
    previous = -1
    (buckets,) = struct.unpack("<Q", take(8))
    for _ in range(buckets):
        (key,) = struct.unpack("<I", take(4))
        if not previous < key < _KEY_LIMIT:
            raise ValueError(f"the high bits {key} follow {previous}")
        previous = key
        yield from read_bitmap32(take, key << 32)


def read_bitmap32(take: Take, base: int) -> Iterator[Container]:
    """The containers of a 32-bit bitmap whose values count from `base`. Raises as `read_bitmap64`."""
    count, has_runs = _read_cookie(take)
    keys, cardinalities = _read_headers(take, count)
    if not len(has_runs) or count >= _FEW_CONTAINERS:
        take(4 * count)  # offsets, for random access
    for index, (key, cardinality) in enumerate(zip(keys, cardinalities, strict=True)):
        is_runs = bool(len(has_runs)) and bool(has_runs[index])
        yield Container(base + (key << 16), cardinality, _read_container(take, cardinality, is_runs), is_runs)


def _read_cookie(take: Take) -> tuple[int, npt.NDArray[np.uint8]]:
    """How many containers there are, and for each whether it has runs; nothing if none has."""
    (cookie,) = struct.unpack("<I", take(4))
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        return count, np.unpackbits(np.frombuffer(take((count + 7) // 8), dtype=np.uint8), bitorder="little")
    if cookie != _COOKIE_WITHOUT_RUNS:
        raise ValueError(f"a bitmap starts with {cookie}")
    (count,) = struct.unpack("<I", take(4))
    if count > VALUES_OF_A_CONTAINER:
        raise ValueError(f"a bitmap has {count} containers")
    return count, np.zeros(0, dtype=np.uint8)


def _read_headers(take: Take, count: int) -> tuple[list[int], list[int]]:
    """The high bits and the cardinality of each container."""
    headers = np.frombuffer(take(4 * count), dtype="<u2").astype(np.int64)
    keys, cardinalities = headers[::2], headers[1::2] + 1
    if (keys[1:] <= keys[:-1]).any():
        raise ValueError("the containers of a bitmap are not in order")
    return keys.tolist(), cardinalities.tolist()


def _read_container(take: Take, cardinality: int, is_runs: bool) -> bytes:
    if is_runs:
        (runs,) = struct.unpack("<H", take(2))
        return take(4 * runs)
    return take(2 * cardinality if cardinality <= _ARRAY_LIMIT else _BITMAP_BYTES)
