"""The footer of a Parquet file, as far as editing needs it: the numbers of its fields, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from lakeport.engine.column_editing.thrift import Struct, read_struct, write_struct

MAGIC = b"PAR1"
TAIL = 8
"""The length of the footer, and the magic bytes."""


class InFile(IntEnum):
    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUES = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7


class InElement(IntEnum):
    TYPE = 1
    TYPE_LENGTH = 2
    REPETITION = 3
    NAME = 4
    CHILDREN = 5


class InGroup(IntEnum):
    COLUMNS = 1
    UNCOMPRESSED = 2
    ROWS = 3
    SORTING_COLUMNS = 4
    OFFSET = 5
    COMPRESSED = 6
    ORDINAL = 7


class InColumn(IntEnum):
    FILE_PATH = 1
    FILE_OFFSET = 2
    METADATA = 3
    OFFSET_INDEX = 4
    OFFSET_INDEX_LENGTH = 5
    COLUMN_INDEX = 6
    COLUMN_INDEX_LENGTH = 7


class InChunk(IntEnum):
    """The metadata of a column."""

    PATH = 3
    UNCOMPRESSED = 6
    COMPRESSED = 7
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11
    BLOOM_FILTER = 14
    BLOOM_FILTER_LENGTH = 15


KEY, VALUE = 1, 2
"""In key-value metadata."""
TYPE_ORDER = 1
"""In a column order."""
PAGES, PAGE_OFFSET = 1, 1
"""In an offset index, and in each of its pages."""

_KNOWN = {InFile: 7, InGroup: 7, InColumn: 7, InChunk: 17}
"""The last field of each struct that can be taken over. Those of files and columns that follow encrypt them."""


class NotEditableError(Exception):
    """A file must be rewritten as a whole."""


@dataclass(frozen=True)
class Top:
    """A top-level column: its schema elements, and its Parquet columns."""

    elements: list[Struct]
    first_leaf: int
    leaves: int

    @property
    def name(self) -> str:
        return str(self.elements[0].value(InElement.NAME).decode())

    @property
    def all_leaves(self) -> range:
        return range(self.first_leaf, self.first_leaf + self.leaves)

    @property
    def layout(self) -> list[tuple[object, ...]]:
        """What the bytes of chunks depend on, besides the logical types. The name of the column is not part of it."""
        kinds = (InElement.TYPE, InElement.TYPE_LENGTH, InElement.REPETITION, InElement.CHILDREN)
        names = [b"", *(element.value(InElement.NAME) for element in self.elements[1:])]
        values = ([element.value(kind) or 0 for kind in kinds] for element in self.elements)
        return [(name, *numbers) for name, numbers in zip(names, values, strict=True)]


def tops_of(elements: list[Struct]) -> list[Top]:
    """The top-level columns of a schema: its elements without the root."""
    tops, start, leaf = [], 0, 0
    while start < len(elements):
        end, leaves = _subtree(elements, start)
        tops.append(Top(elements[start:end], leaf, leaves))
        start, leaf = end, leaf + leaves
    return tops


def _subtree(elements: list[Struct], start: int) -> tuple[int, int]:
    """Where the subtree that begins there ends, and the number of its leaves."""
    at, open_, leaves = start, 1, 0
    while open_:
        if at == len(elements):
            raise NotEditableError("the schema is incomplete")
        children = elements[at].value(InElement.CHILDREN) or 0
        open_ += children - 1
        leaves += not children
        at += 1
    return at, leaves


def parse_footer(data: bytes) -> Struct:
    """Raises `NotEditableError` for what cannot be read or carried over."""
    try:
        footer, _ = read_struct(data)
    except ValueError as error:
        raise NotEditableError(str(error)) from error
    for kind, struct in _structs_in(footer):
        if max(struct, default=0) > _KNOWN[kind]:
            raise NotEditableError(f"the footer has field {max(struct)} in {kind.__name__}")
    return footer


def _structs_in(footer: Struct) -> Iterator[tuple[type[IntEnum], Struct]]:
    yield InFile, footer
    for group in footer.items_of(InFile.ROW_GROUPS):
        yield InGroup, group
        for column in group.items_of(InGroup.COLUMNS):
            yield InColumn, column
            yield InChunk, column.value(InColumn.METADATA, Struct())


def format_footer(footer: Struct) -> bytes:
    """The end of a file."""
    data = write_struct(footer)
    return data + len(data).to_bytes(4, "little") + MAGIC
