"""An open Parquet file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.parquet.batch_size import BatchSize, ChunkSizes, joined
from lakeport.engine.storage.ranges import Range, RangeInput

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyarrow._parquet import ParquetReader

_INDEX_BYTES = 2
"""Text takes more bytes per value than this if its dictionary is large or the writer abandoned it."""
_FEW_ROWS = 1 << 13
"""Up to this many, decoding text takes less time than setting up dictionaries."""
_DICTIONARY_BYTES = 1 << 20
"""Few writers make larger ones."""
_BUFFERED_FROM = 64 << 20
"""Encoded bytes of a row group's columns: pyarrow loads all of them before it decodes any, unless it has a buffer."""
_BUFFER = 1 << 20
_LARGEST_IMAGE = 64 << 20
_TAIL = 8
"""The length of the footer, and Parquet's last word."""


def read_footer(path: str) -> pq.FileMetaData:
    """The footer of a local file."""
    with pa.OSFile(path) as source:
        return OpenFile(source).metadata


class OpenFile:
    """Reads row groups and columns, given by dotted paths, with pyarrow.

    It replaces `pyarrow.parquet.ParquetFile`: importing that module loads storage clients, which takes 10 ms and 8 MB.
    Repetitive text of many rows is read as a dictionary and then decoded, which takes half as long."""

    def __init__(self, source: pa.NativeFile, pool: pa.MemoryPool | None = None) -> None:
        """Rows come from `pool`."""
        self._source, self._pool = source, pool
        self._plain = self._reader([], pool, None)
        self.metadata: pq.FileMetaData = self._plain.metadata
        self.schema: pq.ParquetSchema = self.metadata.schema
        self.schema_arrow: pa.Schema = self._plain.schema_arrow

    def fetch(self, groups: Sequence[int], columns: Sequence[str]) -> None:
        """Fetch these columns of these row groups ahead, together, if the file is remote."""
        if isinstance(self._source, RangeInput):
            self._source.fetch_ahead(self._chunks(groups, columns))

    def image(self, groups: Sequence[int], columns: Sequence[str]) -> bytes | None:
        """A remote file as bytes, for a library that cannot read it by ranges: the footer, and these columns of these
        row groups, which `fetch` has fetched. The rest is zeros. None for local files, and for large ones."""
        if (size := self._source.size()) > _LARGEST_IMAGE:
            return None
        if isinstance(self._source, pa.BufferReader):
            return bytes(self._source.read_at(size, 0))
        if not isinstance(self._source, RangeInput):
            return None
        image = io.BytesIO()
        length = int.from_bytes(self._source.read_at(_TAIL, size - _TAIL)[:4], "little")
        footer = size - _TAIL - length, size
        for start, end in (footer, *self._chunks(groups, columns)):
            image.seek(start)
            image.write(self._source.read_at(end - start, start))
        return image.getvalue()

    def _chunks(self, groups: Sequence[int], columns: Sequence[str]) -> Iterator[Range]:
        leaves = sorted(set(self._leaves(columns)))
        for group in map(self.metadata.row_group, groups):
            for chunk in map(group.column, leaves):
                dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
                start = min(chunk.data_page_offset, dictionary or chunk.data_page_offset)
                yield start, start + chunk.total_compressed_size

    def read(self, groups: Sequence[int], columns: Sequence[str], *, use_threads: bool) -> pa.Table:
        """All rows of row groups."""
        is_short = sum(self.metadata.row_group(group).num_rows for group in groups) <= _FEW_ROWS
        reader = self._plain if is_short else self._reader(self._repeating(columns), self._pool, self.metadata)
        rows = reader.read_row_groups(groups, self._leaves(columns), use_threads=use_threads)
        return self._decoded(rows, self._pool)

    def batches(
        self, size: BatchSize, groups: Sequence[int], columns: Sequence[str], *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """All rows of row groups, in batches."""
        texts = self._repeating(columns, 0 if size.bytes is None else _DICTIONARY_BYTES)
        sizes, leaves = self.sizes(groups, columns, texts), self._leaves(columns)
        buffer = _BUFFER if size.bytes is not None and sizes.largest_group > _BUFFERED_FROM else 0
        reader = self._reader(texts, self._pool, self.metadata, buffer)
        steps = reader.iter_batches(sizes.rows_of(size), groups, leaves, use_threads=use_threads)
        for rows in joined(steps, size):
            yield from self._decoded(rows.combine_chunks(self._pool), self._pool).to_batches()

    def sizes(self, groups: Sequence[int], columns: Sequence[str], kept: Sequence[str] = ()) -> ChunkSizes:
        """Columns in `kept` stay dictionaries."""
        return ChunkSizes.of(self.metadata, groups, self._leaves(columns), {self._places[text][0] for text in kept})

    def encoded_batches(
        self, size: int, groups: Sequence[int], columns: Sequence[str], texts: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """All rows of row groups. Columns named in `texts` stay dictionaries."""
        reader = self._reader(texts, self._pool, self.metadata)
        return iter(reader.iter_batches(size, groups, self._leaves(columns), use_threads=False))

    def _reader(
        self, texts: Sequence[str], pool: pa.MemoryPool | None, metadata: pq.FileMetaData | None, buffer: int = 0
    ) -> ParquetReader:
        """Opening one takes 10 µs, and 30 if it reads the footer."""
        from pyarrow._parquet import ParquetReader

        reader = ParquetReader(memory_pool=pool)
        reader.open(
            self._source,
            metadata=metadata,
            read_dictionary=texts,
            buffer_size=buffer,
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
        )
        return reader

    def _leaves(self, columns: Sequence[str]) -> list[int]:
        return [leaf for column in columns for leaf in self._places.get(column, ())]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The Parquet columns at and below each dotted path."""
        places: dict[str, list[int]] = {}
        for leaf, path in enumerate(self._plain.column_paths):
            for length in range(1, len(path) + 1):
                places.setdefault(".".join(path[:length]), []).append(leaf)
        return places

    def _repeating(self, columns: Sequence[str], dictionary_bytes: int = 0) -> list[str]:
        return [column for column in columns if self._repeats(column, dictionary_bytes)]

    def _repeats(self, column: str, dictionary_bytes: int) -> bool:
        """Whether a column is text with few distinct values, or with a dictionary of at most so many bytes."""
        index = self.schema_arrow.get_field_index(column)
        is_text = index >= 0 and types.is_string(self.schema_arrow.field(index).type)
        return is_text and self.takes_at_most(column, _INDEX_BYTES, dictionary_bytes)

    def takes_at_most(self, column: str, bytes_per_value: int, dictionary_bytes: int = 0) -> bool:
        """Whether a column is encoded by a dictionary, in no more bytes than these."""
        (place,) = self._places[column]
        groups = map(self.metadata.row_group, range(self.metadata.num_row_groups))
        return all(
            chunk.has_dictionary_page
            and chunk.total_uncompressed_size <= bytes_per_value * chunk.num_values + dictionary_bytes
            for chunk in (group.column(place) for group in groups)
        )

    def _decoded(self, rows: pa.Table, pool: pa.MemoryPool | None) -> pa.Table:
        for index, field in enumerate(rows.schema):
            if types.is_dictionary(field.type):
                plain = self.schema_arrow.field(field.name)
                if plain.type != field.type:
                    rows = rows.set_column(index, plain, pc.cast(rows.column(index), plain.type, memory_pool=pool))
        return rows
