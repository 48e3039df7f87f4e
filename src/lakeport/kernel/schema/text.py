"""Types and columns as SQL text: `array<struct<name: string>>`, or the column list of a CREATE TABLE.

id long not null, price decimal(10,2) default 0.5 comment 'in euro', tags array<string>, at timestamp,
day date generated always as (CAST(at AS DATE))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lakeport.errors import UnsupportedFeatureError
from lakeport.kernel.schema.names import unquoted
from lakeport.kernel.schema.types import (
    COMMENT,
    DEFAULT,
    GENERATION_EXPRESSION,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_primitive,
)

_NAME = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)")
_CLAUSE = re.compile(
    r"\s*(?:(?P<required>not\s+null\b)|(?P<comment>comment\s+(?='))|(?P<default>default\s+)"
    r"|(?P<generated>generated\s+always\s+as\s*(?=\()))",
    re.IGNORECASE,
)
_NEXT_CLAUSE = re.compile(r"\s+(?:not\s+null|comment|generated)\b", re.IGNORECASE)
_PIECE = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|.", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_DEPTH = {"(": 1, ")": -1}
_KEYS = {"comment": COMMENT, "default": DEFAULT, "generated": GENERATION_EXPRESSION}


def parse_schema_text(text: str) -> StructType:
    """Parse a column list. Raises `ValueError` naming the invalid column and the valid forms."""
    return StructType(tuple(_columns(text)))


def _columns(text: str) -> Iterator[StructField]:
    start = 0
    while True:
        column, end = _column(text, start)
        yield column
        if end == len(text):
            return
        start = end + 1


def _column(text: str, start: int) -> tuple[StructField, int]:
    """Parse the column at a position; return it and the position of the next comma or the end."""
    match = _NAME.match(text, start)
    if match is None:
        raise _no_column(text, start)
    data_type, place = parse_type_at(text, match.end())
    found: dict[str, str] = {}
    while clause := _CLAUSE.match(text, place):
        kind = str(clause.lastgroup)
        if kind in found:
            raise ValueError(f"the column {match[1]} has {clause[0].strip().upper()} twice")
        found[kind], place = _READERS[kind](text, clause.end())
    if text[place:].lstrip()[:1] not in ("", ","):
        raise _no_column(text, start)
    end = text.find(",", place)
    metadata = {key: found[kind] for kind, key in _KEYS.items() if kind in found}
    column = StructField(unquoted(match[1]), data_type, "required" not in found, metadata)
    return column, len(text) if end < 0 else end


def _quoted(text: str, start: int) -> tuple[str, int]:
    piece = _piece(text, start)
    if len(piece) < 2:
        raise ValueError(f"the quotes of {text[start:]!r} are not closed")
    return _ESCAPE.sub(lambda escape: escape[1] or "'", piece[1:-1]), start + len(piece)


def _expression(text: str, start: int) -> tuple[str, int]:
    """SQL up to a comma or clause outside quotes and parentheses."""
    place, depth = start, 0
    while place < len(text):
        if depth == 0 and (text[place] == "," or _NEXT_CLAUSE.match(text, place)):
            break
        piece = _piece(text, place)
        depth += _DEPTH.get(piece, 0)
        place += len(piece)
    return text[start:place].strip(), place


def _in_parentheses(text: str, start: int) -> tuple[str, int]:
    place, depth = start, 0
    while place < len(text):
        piece = _piece(text, place)
        place += len(piece)
        depth += _DEPTH.get(piece, 0)
        if depth == 0:
            return text[start + 1 : place - 1].strip(), place
    raise ValueError(f"the parenthesis of {text[start:]!r} is not closed")


def _piece(text: str, place: int) -> str:
    match = _PIECE.match(text, place)
    assert match is not None
    return match[0]


_READERS: dict[str, Callable[[str, int], tuple[str, int]]] = {
    "required": lambda _, end: ("", end),
    "comment": _quoted,
    "default": _expression,
    "generated": _in_parentheses,
}
"""By kind of clause: a reader that returns its text and end position."""


def _no_column(text: str, start: int) -> ValueError:
    return ValueError(
        f"{text[start:].strip()!r} is not a column: write a name, a type and optionally NOT NULL, DEFAULT sql, "
        "GENERATED ALWAYS AS (sql) and COMMENT 'text', with commas between columns, as 'id long not null, day date'; "
        "put names with other characters in backticks"
    )


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*(?:\s*\([\d\s,]*\))?)|([<>:,]))\s*")


def parse_type(text: str) -> DataType:
    """Parse a type. Raises `ValueError`."""
    data_type, end = parse_type_at(text)
    if text[end:].strip():
        raise _not_a_type(text)
    return data_type


def parse_type_at(text: str, start: int = 0) -> tuple[DataType, int]:
    """Parse the type at a position; return it and its end. Raises `ValueError`."""
    tokens = _Tokens(text, start)
    try:
        return tokens.read_type(), tokens.position
    except (ValueError, UnsupportedFeatureError, RecursionError):
        raise _not_a_type(text[start : tokens.position] or text[start:]) from None


def _not_a_type(text: str) -> ValueError:
    return ValueError(
        f"{text.strip()!r} is not a type: types are string, int, bigint, double, decimal(10,2), boolean, date, "
        "timestamp, timestamp_ntz, binary …, array<int>, map<string, int> and struct<a: int, b: string>"
    )


class _Tokens:
    def __init__(self, text: str, start: int) -> None:
        self._text, self.position = text, start

    def read_type(self) -> DataType:
        match self._take().lower():
            case "array":
                return self._closed(ArrayType(self._type_after("<")))
            case "map":
                return self._closed(MapType(self._type_after("<"), self._type_after(",")))
            case "struct":
                return StructType(tuple(self._fields()))
            case name:
                return parse_primitive(re.sub(r"\s", "", name))

    def _fields(self) -> Iterator[StructField]:
        separator = self._expect("<")
        while separator != ">":
            name = unquoted(self._take())
            yield StructField(name, self._type_after(":"))
            separator = self._expect(",", ">")

    def _take(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        if match is None:
            raise ValueError("not part of a type")
        self.position = match.end()
        return match[0].strip()

    def _expect(self, *tokens: str) -> str:
        if (token := self._take()) not in tokens:
            raise ValueError(f"{token} instead of {tokens}")
        return token

    def _type_after(self, token: str) -> DataType:
        self._expect(token)
        return self.read_type()

    def _closed(self, data_type: DataType) -> DataType:
        self._expect(">")
        return data_type


def kind_of(data_type: DataType) -> str:
    """A type for messages, without the types in it."""
    kinds = {StructType: "a struct", ArrayType: "a list", MapType: "a map"}
    return data_type.name if isinstance(data_type, PrimitiveType) else kinds[type(data_type)]


def format_type(data_type: DataType) -> str:
    """A type as SQL text: `array<struct<a: long, b: string>>`."""
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element, _):
            return f"array<{format_type(element)}>"
        case MapType(key, value, _):
            return f"map<{format_type(key)}, {format_type(value)}>"
        case StructType(fields):
            return f"struct<{', '.join(f'{f.name}: {format_type(f.type)}' for f in fields)}>"
