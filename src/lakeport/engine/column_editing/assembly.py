"""A new Parquet file, put together from chunks of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lakeport.engine.column_editing.footer import (
    KEY,
    MAGIC,
    InChunk,
    InColumn,
    InElement,
    InFile,
    InGroup,
    Top,
    format_footer,
)
from lakeport.engine.column_editing.original import Chunk, Original
from lakeport.engine.column_editing.thrift import BINARY, I16, I32, I64, LIST, STRUCT, Struct

_PIECE = 8 << 20
_MOST_ORDINAL = 1 << 15
_OF_ONE_LIBRARY = (b"ARROW:schema", b"pandas")
"""Metadata that describes columns and rows as they were."""


@dataclass(frozen=True)
class TakenOver:
    """A chunk of another file."""

    original: Original
    group: int
    leaf: int

    @property
    def chunk(self) -> Chunk:
        return self.original.chunk(self.group, self.leaf)


@dataclass(frozen=True)
class _Indexes:
    """The page indexes of a chunk that has been written."""

    column: Struct
    column_index: bytes | None
    offset_index: bytes | None


class Assembly:
    """Writes chunks one after the other, then a footer."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write_bytes = write
        self.size = 0
        self.rows = 0
        self._groups: list[Struct] = []
        self._indexes: list[_Indexes] = []
        self._write(MAGIC)

    def add_group(self, rows: int, taken: Iterable[tuple[TakenOver, Top]], sorted_by: Sequence[Struct]) -> None:
        """Write a row group: its columns in order, each with the top-level column that it becomes part of."""
        start, columns = self.size, [self._add(part, top) for part, top in taken]
        for column in columns:
            self._add_bloom_filter(*column)
        group = Struct()
        metadata = [Chunk(column).metadata for column, _ in columns]
        group.put_structs(InGroup.COLUMNS, [column for column, _ in columns])
        group.put(InGroup.UNCOMPRESSED, I64, sum(chunk.value(InChunk.UNCOMPRESSED) for chunk in metadata))
        group.put(InGroup.ROWS, I64, rows)
        if sorted_by:
            group.put_structs(InGroup.SORTING_COLUMNS, list(sorted_by))
        group.put(InGroup.OFFSET, I64, start)
        group.put(InGroup.COMPRESSED, I64, sum(chunk.value(InChunk.COMPRESSED) for chunk in metadata))
        if len(self._groups) < _MOST_ORDINAL:
            group.put(InGroup.ORDINAL, I16, len(self._groups))
        self._groups.append(group)
        self.rows += rows

    def finish(self, original: Original, tops: Sequence[Top], orders: list[Struct]) -> None:
        """Write the footer: as that of another file, with these columns and column orders."""
        for indexes in self._indexes:
            self._add_index(indexes.column, InColumn.COLUMN_INDEX, indexes.column_index)
        for indexes in self._indexes:
            self._add_index(indexes.column, InColumn.OFFSET_INDEX, indexes.offset_index)
        self._write(format_footer(self._footer(original, tops, orders)))

    def _add(self, part: TakenOver, top: Top) -> tuple[Struct, TakenOver]:
        """Write a chunk; return its entry in the footer."""
        chunk, original = part.chunk, part.original
        start, end = chunk.range
        move = self.size - start
        column, metadata = chunk.column.copy(), chunk.metadata.copy()
        for field in (InChunk.DATA_PAGE, InChunk.INDEX_PAGE, InChunk.DICTIONARY_PAGE):
            if metadata.value(field):
                metadata.put(field, I64, metadata.value(field) + move)
        path = metadata.items_of(InChunk.PATH)
        metadata.put(InChunk.PATH, LIST, (BINARY, [top.elements[0].value(InElement.NAME), *path[1:]]))
        column.put(InColumn.FILE_OFFSET, I64, 0)
        column.put(InColumn.METADATA, STRUCT, metadata)
        column_index = chunk.column_index and original.read(chunk.column_index)
        self._indexes.append(_Indexes(column, column_index, original.offset_index(chunk, move)))
        for piece in range(start, end, _PIECE):
            self._write(original.read((piece, min(piece + _PIECE, end))))
        return column, part

    def _add_bloom_filter(self, column: Struct, part: TakenOver) -> None:
        metadata, place = Chunk(column).metadata, part.chunk.bloom_filter
        if place is not None:
            metadata.put(InChunk.BLOOM_FILTER, I64, self.size)
            self._write(part.original.read(place))
        else:
            metadata.pop(InChunk.BLOOM_FILTER, None)
            metadata.pop(InChunk.BLOOM_FILTER_LENGTH, None)

    def _add_index(self, column: Struct, field: InColumn, index: bytes | None) -> None:
        if index is not None:
            column.put(field, I64, self.size)
            column.put(field + 1, I32, len(index))
            self._write(index)
        else:
            column.pop(field, None)
            column.pop(field + 1, None)

    def _footer(self, original: Original, tops: Sequence[Top], orders: list[Struct]) -> Struct:
        footer = original.footer.copy()
        root = footer.items_of(InFile.SCHEMA)[0].copy()
        root.put(InElement.CHILDREN, I32, len(tops))
        footer.put_structs(InFile.SCHEMA, [root, *(element for top in tops for element in top.elements)])
        footer.put(InFile.ROWS, I64, self.rows)
        footer.put_structs(InFile.ROW_GROUPS, self._groups)
        pairs = [pair for pair in footer.items_of(InFile.KEY_VALUES) if pair.value(KEY) not in _OF_ONE_LIBRARY]
        footer.pop(InFile.KEY_VALUES, None)
        if pairs:
            footer.put_structs(InFile.KEY_VALUES, pairs)
        if InFile.COLUMN_ORDERS in footer:
            footer.put_structs(InFile.COLUMN_ORDERS, orders)
        return footer

    def _write(self, data: bytes) -> None:
        self._write_bytes(data)
        self.size += len(data)
