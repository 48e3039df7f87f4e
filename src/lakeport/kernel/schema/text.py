"""Types and columns as SQL text: `array<struct<name: string>>`, or the column list of a CREATE TABLE.

id long not null, price decimal(10,2) default 0.5 comment 'in euro', tags array<string>, at timestamp,
day date generated always as (CAST(at AS DATE))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from lakeport.errors import LakeportError
from lakeport.kernel.schema.json import parse_schema
from lakeport.kernel.schema.keys import DEFAULT, GENERATION_EXPRESSION
from lakeport.kernel.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

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
_KEYS = {"comment": "comment", "default": DEFAULT, "generated": GENERATION_EXPRESSION}


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
    column = StructField(parse_name(match[1]), data_type, "required" not in found, metadata)
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
        f"{text[start:].strip()!r} is no column: write a name, a type and then, if wanted, NOT NULL, DEFAULT sql, "
        "GENERATED ALWAYS AS (sql) and COMMENT 'text', with commas between columns, as 'id long not null, day date'; "
        "backticks keep other signs in a name"
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
        column = {"name": "column", "type": tokens.read_type(), "nullable": True, "metadata": {}}
        schema = parse_schema(msgspec.json.encode({"type": "struct", "fields": [column]}).decode())
        return schema.fields[0].type, tokens.position
    except (_SyntaxError, LakeportError, RecursionError):
        raise _not_a_type(text[start : tokens.position] or text[start:]) from None


def _not_a_type(text: str) -> ValueError:
    return ValueError(
        f"{text.strip()!r} is not a type: types are string, int, bigint, double, decimal(10,2), boolean, date, "
        "timestamp, timestamp_ntz, binary …, array<int>, map<string, int> and struct<a: int, b: string>"
    )


class _SyntaxError(Exception):
    pass


class _Tokens:
    def __init__(self, text: str, start: int) -> None:
        self._text, self.position = text, start

    def read_type(self) -> Any:
        """The type in the form of the protocol's JSON."""
        match self._take().lower():
            case "array" if self._peek() == "<":
                return {"type": "array", "elementType": self._only("<"), "containsNull": True} | self._closed()
            case "map" if self._peek() == "<":
                key, value = self._only("<"), self._only(",")
                return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True} | self._closed()
            case "struct" if self._peek() == "<":
                return {"type": "struct", "fields": list(self._fields())} | self._closed()
            case name:
                return re.sub(r"\s", "", name)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        return match[0].strip() if match else ""

    def _take(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        if match is None:
            raise _SyntaxError
        self.position = match.end()
        return match[0].strip()

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise _SyntaxError

    def _only(self, before: str) -> Any:
        self._expect(before)
        return self.read_type()

    def _closed(self) -> dict[str, Any]:
        self._expect(">")
        return {}

    def _fields(self) -> Iterator[dict[str, Any]]:
        separator = "<"
        while separator == "<" or self._peek() == ",":
            self._expect(separator)
            name = parse_name(self._take())
            yield {"name": name, "type": self._only(":"), "nullable": True, "metadata": {}}
            separator = ","


def parse_name(text: str) -> str:
    """Strip optional backticks from a name."""
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


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
