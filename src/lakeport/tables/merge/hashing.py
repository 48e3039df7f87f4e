"""Hash key columns: equal keys of both sides have equal hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from lakeport.kernel.values import to_mask

Hashes = npt.NDArray[np.uint64]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_WORD = 8
_MOST_WORDS = 32
"""Longer texts are hashed by their first words and length: few differ only further on."""


def hash_rows(columns: Sequence[pa.Array], length: int) -> Hashes:
    """A hash of each row. The columns have primitive types; -0.0 and 0.0 have different hashes."""
    hashes = np.zeros(length, np.uint64)
    for column in columns:
        valid = to_mask(column.is_valid())
        hashes = _mixed(hashes, np.where(valid, _hash_values(column), np.uint64(1)))
    return hashes


def _hash_values(column: pa.Array) -> Hashes:
    """Hashes of the values; those of nulls are arbitrary."""
    if types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if not len(column):
        return np.zeros(0, np.uint64)
    if types.is_fixed_size_binary(column.type) or types.is_primitive(column.type) or types.is_decimal(column.type):
        return _hash_words(column)
    return _hash_bytes(column)


def _hash_words(column: pa.Array) -> Hashes:
    width = column.type.bit_width // _WORD
    data = column.buffers()[1]
    assert data is not None, "a column with rows has values"
    if width < _WORD:
        return np.frombuffer(data, f"<u{width}")[column.offset :][: len(column)].astype(np.uint64)
    words = np.frombuffer(data, np.uint64).reshape(-1, width // _WORD)[column.offset :][: len(column)]
    hashes = words[:, 0].copy()
    for place in range(1, words.shape[1]):
        hashes = _mixed(hashes, words[:, place])
    return hashes


def _hash_bytes(column: pa.Array) -> Hashes:
    _, offsets, data = column.buffers()
    wide = types.is_large_string(column.type) or types.is_large_binary(column.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[column.offset :][: len(column) + 1].astype(np.int64)
    used = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    padded = np.concatenate([used, np.zeros(_WORD, np.uint8)])
    words: Hashes = np.ndarray((len(used) + 1,), np.uint64, padded, strides=(1,))
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    hashes = lengths.astype(np.uint64)
    rows = np.flatnonzero(lengths)
    for place in range(0, _MOST_WORDS * _WORD, _WORD):
        if not len(rows):
            break
        left = lengths[rows] - place
        unused = np.maximum(_WORD - left, 0).astype(np.uint64) * np.uint64(_WORD)
        hashes[rows] = _mixed(hashes[rows], words[starts[rows] + place] << unused)
        rows = rows[left > _WORD]
    return hashes


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = (hashes ^ words) * _FACTOR
    mixed ^= mixed >> _HALF
    return mixed * _FACTOR
