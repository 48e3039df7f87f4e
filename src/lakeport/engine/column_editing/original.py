"""A Parquet file whose chunks are taken over: its footer, and where its bytes are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakeport.engine.column_editing.footer import (
    MAGIC,
    PAGE_OFFSET,
    PAGES,
    TAIL,
    TYPE_ORDER,
    InChunk,
    InColumn,
    InFile,
    InGroup,
    NotEditableError,
    Top,
    format_footer,
    parse_footer,
    tops_of,
)
from lakeport.engine.column_editing.thrift import I64, STRUCT, Struct, read_struct, write_struct
from lakeport.engine.storage.ranges import Range

_MOST_FOOTER = 64 << 20
_WRONG_LENGTHS = re.compile(rb"parquet-mr version 1\.[0-7](\.|\b)")
"""Writers whose chunks may be longer than they say."""


@dataclass(frozen=True)
class Chunk:
    """A column of a row group."""

    column: Struct

    @property
    def metadata(self) -> Struct:
        metadata: Struct = self.column.value(InColumn.METADATA)
        return metadata

    @property
    def range(self) -> Range:
        offsets = (self.metadata.value(field, 0) for field in (InChunk.DATA_PAGE, InChunk.DICTIONARY_PAGE))
        start = min((offset for offset in offsets if offset > 0), default=0)
        return start, start + self.metadata.value(InChunk.COMPRESSED, 0)

    @property
    def bloom_filter(self) -> Range | None:
        """None also if its length is unknown."""
        return _range(self.metadata, InChunk.BLOOM_FILTER, InChunk.BLOOM_FILTER_LENGTH)

    @property
    def column_index(self) -> Range | None:
        return _range(self.column, InColumn.COLUMN_INDEX, InColumn.COLUMN_INDEX_LENGTH)

    @property
    def offset_index(self) -> Range | None:
        return _range(self.column, InColumn.OFFSET_INDEX, InColumn.OFFSET_INDEX_LENGTH)

    @property
    def ranges(self) -> list[Range]:
        """Everything that belongs to it."""
        others = (self.bloom_filter, self.column_index, self.offset_index)
        return [self.range, *(found for found in others if found is not None)]


def _range(struct: Struct, offset: int, length: int) -> Range | None:
    start, size = struct.value(offset), struct.value(length)
    return (start, start + size) if start and size else None


class Original:
    """Raises `NotEditableError` if the chunks of the file cannot be taken over."""

    def __init__(self, source: pa.NativeFile) -> None:
        self.source = source
        self._size = source.size()
        self.footer = parse_footer(self._footer_bytes())
        self.tops = tops_of(self.footer.items_of(InFile.SCHEMA)[1:])
        self.groups: list[Struct] = self.footer.items_of(InFile.ROW_GROUPS)
        self._check()

    @property
    def rows(self) -> list[int]:
        """The number of rows of each row group."""
        return [group.value(InGroup.ROWS) for group in self.groups]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns by Parquet's schema alone, not by the one that Arrow may have stored."""
        from pyarrow._parquet import ParquetReader

        bare = Struct(self.footer)
        bare.pop(InFile.KEY_VALUES, None)
        bare.put_structs(InFile.ROW_GROUPS, [])
        bare.put(InFile.ROWS, I64, 0)
        reader = ParquetReader()
        reader.open(pa.BufferReader(MAGIC + format_footer(bare)))
        return reader.schema_arrow

    @cached_property
    def has_page_index(self) -> bool:
        columns = self.groups[0].items_of(InGroup.COLUMNS) if self.groups else []
        return any(Chunk(column).offset_index is not None for column in columns)

    def orders(self, top: Top) -> list[Struct]:
        """In what orders the bounds of a column's values are."""
        return self.footer.items_of(InFile.COLUMN_ORDERS)[top.first_leaf : top.first_leaf + top.leaves]

    def default_orders(self, top: Top) -> list[Struct]:
        """The orders of types."""
        return [Struct({TYPE_ORDER: (STRUCT, Struct())}) for _ in range(top.leaves)]

    def chunk(self, group: int, leaf: int) -> Chunk:
        return Chunk(self.groups[group].items_of(InGroup.COLUMNS)[leaf])

    def read(self, place: Range) -> bytes:
        data: bytes = self.source.read_at(place[1] - place[0], place[0])
        return data

    def offset_index(self, chunk: Chunk, moved_by: int) -> bytes | None:
        """The places of a chunk's pages after it has moved."""
        if chunk.offset_index is None:
            return None
        index, _ = read_struct(self.read(chunk.offset_index))
        for page in index.items_of(PAGES):
            page.put(PAGE_OFFSET, I64, page.value(PAGE_OFFSET) + moved_by)
        return write_struct(index)

    def _footer_bytes(self) -> bytes:
        tail = self.read((max(0, self._size - TAIL), self._size))
        if tail[4:] != MAGIC:
            raise NotEditableError("the file is encrypted or is not a Parquet file")
        length = int.from_bytes(tail[:4], "little")
        self._end = self._size - TAIL - length
        if length > _MOST_FOOTER or self._end < 0:
            raise NotEditableError(f"the footer has {length} bytes")
        return self.read((self._end, self._end + length))

    def _check(self) -> None:
        if _WRONG_LENGTHS.match(self.footer.value(InFile.CREATED_BY, b"")):
            raise NotEditableError("the footer's lengths may be wrong")
        leaves = sum(top.leaves for top in self.tops)
        if len(self.footer.items_of(InFile.COLUMN_ORDERS)) not in (0, leaves):
            raise NotEditableError("the footer lacks the orders of some columns")
        for number, group in enumerate(self.groups):
            if len(group.items_of(InGroup.COLUMNS)) != leaves:
                raise NotEditableError("a row group lacks some columns")
            for leaf in range(leaves) if group.value(InGroup.ROWS) else ():
                self._check_chunk(self.chunk(number, leaf))

    def _check_chunk(self, chunk: Chunk) -> None:
        if InColumn.FILE_PATH in chunk.column or InColumn.METADATA not in chunk.column:
            raise NotEditableError("a column is in another file, or has no metadata")
        if any(start < len(MAGIC) or end < start or end > self._end for start, end in chunk.ranges):
            raise NotEditableError("a column is outside the file")
