"""A digest of rows that does not depend on their order: the same rows, each as often, have the same one.

Each value becomes a number of 64 bits, each row the mixture of those of its columns, and the rows are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.arrays import to_mask

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_LANES = 2
"""A row counts in two sums, by different mixtures: together they have 128 bits."""


@dataclass(frozen=True)
class RowDigest:
    """Of some rows; two are added where their rows are put together."""

    rows: int = 0
    sums: tuple[int, ...] = (0,) * _LANES

    def with_batch(self, batch: pa.RecordBatch) -> RowDigest:
        row = np.full(batch.num_rows, np.uint64(batch.num_columns))
        for column in batch.columns:
            row = _mixed(row ^ _hashes(column))
        added = [int(_mixed(row + np.uint64(lane)).sum(dtype=np.uint64)) for lane in range(_LANES)]
        sums = tuple((known + new) % 2**64 for known, new in zip(self.sums, added, strict=True))
        return RowDigest(self.rows + batch.num_rows, sums)


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of splitmix64: each bit depends on all."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hashes(column: pa.Array) -> Hashes:
    found = _of_values(column)
    return np.where(to_mask(column.is_valid()), found, _NULL) if column.null_count else found


def _of_values(column: pa.Array) -> Hashes:
    """Where a value is null, the number means nothing."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    if isinstance(column, pa.ExtensionArray):
        return _of_values(column.storage)
    if pa.types.is_struct(kind):
        found = np.zeros(len(column), np.uint64)
        for child in column.flatten():
            found = _mixed(found ^ _hashes(child))
        return found
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_lists(column)
    if pa.types.is_boolean(kind):
        return _mixed(to_mask(pc.fill_null(column, False)).astype(np.uint64))
    return _of_plain(column)


def _of_lists(column: pa.Array) -> Hashes:
    """The values of a list count by their places."""
    offsets = np.frombuffer(column.buffers()[1], np.int64 if pa.types.is_large_list(column.type) else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    first = int(offsets[0]) if len(offsets) else 0
    values = _entries(column).slice(first, int(offsets[-1]) - first if len(offsets) else 0)
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    places = np.arange(len(values)) - np.repeat(starts, lengths)
    hashes = _mixed(_hashes(values) + places.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    return _mixed(sums[starts + lengths] - sums[starts] + lengths.astype(np.uint64))


def _entries(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column.values
    return pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])


def _of_plain(column: pa.Array) -> Hashes:
    """Text, bytes and everything of a fixed width, by their bytes."""
    if not _has_width(column.type):
        encoded = column.dictionary_encode()
        known = [int.from_bytes(blake2b(_bytes(v), digest_size=8).digest(), "little") for v in encoded.dictionary]
        indices = encoded.indices.fill_null(0)
        numbers = np.array(known or [0], np.uint64)
        return numbers[np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)]]
    width = column.type.bit_width // 8
    raw = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width : (column.offset + len(column)) * width]
    padded = np.zeros((len(column), -(-width // 8) * 8), np.uint8)
    padded[:, :width] = raw.reshape(len(column), width)
    found = np.full(len(column), np.uint64(width))
    for word in padded.view(np.uint64).T:
        found = _mixed(found ^ word)
    return found


def _has_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def _bytes(value: pa.Scalar) -> bytes:
    buffer = value.as_buffer()
    return buffer.to_pybytes() if buffer is not None else b""
