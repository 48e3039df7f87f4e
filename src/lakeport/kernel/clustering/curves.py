"""Space-filling curves: a number for each row, so that rows with close numbers are close in every column.

Each row is given by its positions in the columns, integers of a given number of bits. Both curves use all bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.uint64]


def interleave(positions: Sequence[Positions], bits: int) -> Positions:
    """The Z-order curve: the highest bit of each column, then the next bit of each, and so on."""
    found = np.zeros_like(positions[0])
    for bit in reversed(range(bits)):
        for column in positions:
            found = (found << np.uint64(1)) | ((column >> np.uint64(bit)) & np.uint64(1))
    return found


def hilbert(positions: Sequence[Positions], bits: int) -> Positions:
    """The Hilbert curve: unlike Z-order, it never jumps. After J. Skilling, "Programming the Hilbert curve", 2004."""
    if len(positions) == 1:
        return positions[0]
    axes = [column.copy() for column in positions]
    for bit in reversed(range(1, bits)):
        _turn(axes, bit)
    for axis, before in zip(axes[1:], axes, strict=False):
        axis ^= before
    flips = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        flips ^= np.where(_has(axes[-1], bit), _below(bit), np.uint64(0))
    return interleave([axis ^ flips for axis in axes], bits)


def _turn(axes: list[Positions], bit: int) -> None:
    """Rotate the lower bits of each row as its part of the curve is rotated."""
    for axis in axes:
        is_set = _has(axis, bit)
        swapped = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & _below(bit))
        axes[0] ^= np.where(is_set, _below(bit), swapped)
        axis ^= swapped


def _has(column: Positions, bit: int) -> npt.NDArray[np.bool_]:
    return ((column >> np.uint64(bit)) & np.uint64(1)).astype(np.bool_)


def _below(bit: int) -> np.uint64:
    """All bits below this one."""
    return np.uint64((1 << bit) - 1)
