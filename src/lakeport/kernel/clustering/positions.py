"""The place of each row on a curve, from the positions of its values in a sample.

A value's position is the share of sampled rows with a smaller value. So each bit splits the rows evenly, whatever the
distribution, even if a column has few values or many nulls. Nulls come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.kernel.clustering.curves import Positions, hilbert, interleave

_Values: TypeAlias = npt.NDArray[Any]
_CURVES: dict[str, Callable[[Sequence[Positions], int], Positions]] = {"hilbert": hilbert, "zorder": interleave}
_KEY_BITS = 64
_BITS_OF_ONE, _BITS_OF_MANY = 16, 12
"""The precision of a position: 65,536 ranges of one column, 4,096 of each of several."""
_TEXT_BYTES = 32
"""Texts are compared only by this many bytes."""
MOST_COLUMNS = 32


@dataclass(frozen=True)
class RowOrder:
    """Computes the place of rows on a curve, from their values in some columns."""

    curve: str
    columns: tuple[_Column, ...]
    bits: int

    @classmethod
    def of(cls, curve: str, samples: Sequence[pa.Array]) -> RowOrder:
        """`samples` has a column for each dimension, with the values of the same rows."""
        many = min(_BITS_OF_MANY, _KEY_BITS // len(samples))
        bits = _BITS_OF_ONE if len(samples) == 1 else many
        return cls(curve, tuple(_Column.of(sample, bits) for sample in samples), bits)

    def places(self, columns: Sequence[pa.Array]) -> Positions:
        found = [column.positions(values) for column, values in zip(self.columns, columns, strict=True)]
        return _CURVES[self.curve](found, self.bits)


@dataclass(frozen=True)
class _Column:
    bounds: _Values
    """The first values of the ranges, in order; smaller values are in the first range."""
    starts: Positions
    """The position of each range."""

    @classmethod
    def of(cls, sample: pa.Array, bits: int) -> _Column:
        values, valid = _comparable(sample)
        ordered = np.sort(values[valid])
        nulls, ranges = len(sample) - len(ordered), min(1 << bits, len(ordered))
        if not ranges:
            return cls(values[:0], np.zeros(1, np.uint64))
        bounds = np.unique(ordered[np.arange(ranges) * len(ordered) // ranges])
        ranks = np.searchsorted(ordered, bounds) + nulls
        starts = (ranks << bits) // len(sample)
        return cls(bounds, np.concatenate([starts[:1], starts]).astype(np.uint64))

    def positions(self, values: pa.Array) -> Positions:
        if types.is_dictionary(values.type):
            return self._of_dictionary(values)
        comparable, valid = _comparable(values)
        found = self.starts[np.searchsorted(self.bounds, comparable, side="right")]
        return np.where(valid, found, np.uint64(0))

    def _of_dictionary(self, values: pa.DictionaryArray) -> Positions:
        of_entries = np.append(self.positions(values.dictionary), np.uint64(0))
        places = pc.fill_null(values.indices.cast(pa.int64()), len(values.dictionary))
        return np.take(of_entries, np.asarray(places))


def _comparable(values: pa.Array) -> tuple[_Values, npt.NDArray[np.bool_]]:
    """Values that numpy sorts in the column's order, and the mask of those that are not null."""
    valid = np.asarray(values.is_valid())
    if types.is_string(values.type):
        return _prefixes(values), valid
    if types.is_decimal(values.type):
        values = values.cast(pa.float64(), safe=False)
    elif not types.is_floating(values.type):
        values = values.cast(pa.int32() if types.is_date32(values.type) else pa.int64(), safe=False)
    return np.asarray(values.fill_null(0)), valid


def _prefixes(values: pa.StringArray) -> _Values:
    """The first bytes of texts, which sort like the texts, by code points."""
    texts = pc.binary_slice(values.cast(pa.binary()).fill_null(b""), 0, _TEXT_BYTES)
    lengths = np.asarray(pc.binary_length(texts))
    found = np.zeros((len(texts), _TEXT_BYTES), np.uint8)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    if (data := texts.buffers()[2]) is not None:
        found[np.arange(_TEXT_BYTES) < lengths[:, None]] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return found.view(f"S{_TEXT_BYTES}").ravel()
