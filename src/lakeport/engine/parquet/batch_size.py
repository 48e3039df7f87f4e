"""How large batches become: a stream of any length takes little memory, whatever its values are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

if TYPE_CHECKING:
    import pyarrow.parquet as pq

DEFAULT_ROWS = 256 * 1024
_BYTES = 8 << 20
"""Several files are read at once, each with a few batches that wait for their consumer."""
_MOST_BYTES = 256 << 20
"""The limit for texts otherwise: an array has room for less than 2 GB of them."""

_WIDTHS = {"INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8, "FIXED_LEN_BYTE_ARRAY": 16}
_TEXT = 64
"""Bytes of a text whose length the file does not show."""
_STEP = 8192
"""How many such texts of a column to decode at a time: all of them may be long."""


@dataclass(frozen=True)
class BatchSize:
    """The most rows of a batch and, unless the consumer keeps them all, about the most bytes of their values."""

    rows: int
    bytes: int | None

    @classmethod
    def of(cls, rows: int | None) -> BatchSize:
        """By what a caller asks for: it has room for more bytes if it wants more rows than the default."""
        wanted = rows or DEFAULT_ROWS
        return cls(wanted, None if wanted > DEFAULT_ROWS else _BYTES)

    @property
    def most_bytes(self) -> int:
        return self.bytes or _MOST_BYTES


def joined(batches: Iterable[pa.RecordBatch], size: BatchSize) -> Iterator[pa.Table]:
    """The same rows in tables as large as batches may be once their dictionaries are decoded."""
    held: list[pa.RecordBatch] = []
    rows = taken = 0
    for part in (part for batch in batches for part in _parts(batch, size.most_bytes)):
        decoded = _decoded_size(part)
        if held and (rows + part.num_rows > size.rows or taken + decoded > size.most_bytes):
            yield pa.Table.from_batches(held)
            held, rows, taken = [], 0, 0
        held.append(part)
        rows, taken = rows + part.num_rows, taken + decoded
    if held:
        yield pa.Table.from_batches(held)


def _parts(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The batch, or halves of halves of it that decode into few enough bytes."""
    if batch.num_rows < 2 or not _may_exceed(batch, most) or _decoded_size(batch) <= most:
        yield batch
        return
    middle = batch.num_rows // 2
    for half in (batch.slice(0, middle), batch.slice(middle)):
        yield from _parts(half, most)


def _may_exceed(batch: pa.RecordBatch, most: int) -> bool:
    """Whether dictionaries may decode into more: cheap, and true too often."""
    return bool(batch.num_rows * sum(c.dictionary.nbytes for c in batch.columns if _has_dictionary(c)) > most)


def _decoded_size(batch: pa.RecordBatch) -> int:
    return sum(_decoded_bytes(column) if _has_dictionary(column) else int(column.nbytes) for column in batch.columns)


def _decoded_bytes(column: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return (pc.sum(lengths).as_py() or 0) + 4 * len(column)


def _has_dictionary(column: pa.Array) -> bool:
    return bool(types.is_dictionary(column.type))


@dataclass(frozen=True)
class ChunkSizes:
    """Sizes of some columns in some row groups."""

    rows: int
    least: int
    """At least so many bytes when decoded."""
    likely: int
    """About so many: a text in a dictionary may occur any number of times."""
    unknown: int
    """How many texts of unknown length the column has that has the most of them."""
    largest_group: int
    """Bytes in the file of the row group that has the most."""

    @classmethod
    def of(
        cls, metadata: pq.FileMetaData, groups: Sequence[int], leaves: Sequence[int], kept: Collection[int]
    ) -> ChunkSizes:
        """Columns in `kept` stay dictionaries."""
        rows = least = likely = unknown = largest = 0
        for group in map(metadata.row_group, groups):
            chunks = [(leaf, group.column(leaf)) for leaf in leaves]
            hidden = [chunk.num_values for leaf, chunk in chunks if leaf not in kept and _hides_lengths(chunk)]
            sizes = sum(_least(chunk) for _, chunk in chunks)
            rows += group.num_rows
            least += sizes
            likely += sizes + _TEXT * sum(hidden)
            unknown += max(hidden, default=0)
            largest = max(largest, sum(chunk.total_compressed_size for _, chunk in chunks))
        return cls(rows, least, likely, unknown, largest)

    def rows_of(self, size: BatchSize) -> int:
        """The most rows to decode for a batch."""
        if size.bytes is None:
            return size.rows
        steps = self.rows * _STEP // self.unknown if self.unknown else size.rows
        return max(1, min(size.rows, steps, size.bytes * self.rows // max(1, self.least)))


def _least(chunk: pq.ColumnChunkMetaData) -> int:
    width = _WIDTHS.get(chunk.physical_type, 0)
    return max(int(chunk.total_uncompressed_size), width * int(chunk.num_values))


def _hides_lengths(chunk: pq.ColumnChunkMetaData) -> bool:
    is_text = chunk.physical_type == "BYTE_ARRAY"
    return is_text and bool(chunk.has_dictionary_page or "DELTA_BYTE_ARRAY" in chunk.encodings)
