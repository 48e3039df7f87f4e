"""CRC-32C (Castagnoli), in which Google Cloud Storage states the content of every object.

A remainder is linear: those of parts of equal length are computed side by side, by numpy, and put together.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_LANES = 1 << 12
"""So many parts are computed at once, by words of two bytes."""


def _remainder_of_byte(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = [_remainder_of_byte(value) for value in range(256)]
_BYTES = np.array(_TABLE, np.uint32)


def _after_byte(remainders: Words) -> Words:
    after: Words = (remainders >> np.uint32(8)) ^ _BYTES[remainders & np.uint32(0xFF)]
    return after


_WORDS = _after_byte(_after_byte(np.arange(1 << 16, dtype=np.uint32)))


class Crc32c:
    """The checksum of bytes that come in pieces."""

    def __init__(self) -> None:
        self._state = _ONES

    def update(self, data: bytes) -> None:
        even = len(data) // (2 * _LANES) * (2 * _LANES)
        if even:
            self._state = _side_by_side(self._state, data[:even])
        for byte in data[even:]:
            self._state = (self._state >> 8) ^ _TABLE[(self._state ^ byte) & 0xFF]

    def digest(self) -> bytes:
        return (self._state ^ _ONES).to_bytes(4, "big")


def _side_by_side(state: int, data: bytes) -> int:
    columns = np.ascontiguousarray(np.frombuffer(data, "<u2").reshape(_LANES, -1).T)
    remainders = np.zeros(_LANES, np.uint32)
    remainders[0] = state
    for column in columns:
        mixed = (remainders ^ column) & np.uint32(0xFFFF)
        remainders = (remainders >> np.uint32(16)) ^ _WORDS.take(mixed, mode="clip")
    length = 2 * len(columns)
    while len(remainders) > 1:
        remainders = _applied(_passing(length), remainders[0::2]) ^ remainders[1::2]
        length *= 2
    return int(remainders[0])


def _applied(operator: Words, values: Words) -> Words:
    """What a linear operator, given by what it makes of each bit, makes of all values."""
    found = np.zeros_like(values)
    for bit in range(32):
        found ^= operator[bit] * ((values >> np.uint32(bit)) & np.uint32(1))
    return found


@cache
def _passing(length: int) -> Words:
    """What so many bytes of zero make of a remainder."""
    if length == 1:
        return _after_byte(np.uint32(1) << np.arange(32, dtype=np.uint32))
    half = _passing(length // 2)
    twice = _applied(half, half)
    return _applied(_passing(1), twice) if length % 2 else twice
