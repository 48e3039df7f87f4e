"""Columns as people write them, which is what SQL has between the parentheses of CREATE TABLE.

id long not null, price decimal(10,2) default 0.5 comment 'in euro', tags array<string>, at timestamp,
day date generated always as (CAST(at AS DATE))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lakeport.kernel.schema.keys import DEFAULT, GENERATION_EXPRESSION
from lakeport.kernel.schema.type_text import parse_name, parse_type_at
from lakeport.kernel.schema.types import StructField, StructType

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
    """The columns that the text spells. Raises `ValueError`, saying which one is wrong and what can be written."""
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
    """The column that begins at a place, and where the comma after it is, or the end of the text."""
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
    """SQL up to a comma or a clause that is in no quotes and no parentheses."""
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
"""By the kind of a clause, what it says after a place in the text, and where it ends."""


def _no_column(text: str, start: int) -> ValueError:
    return ValueError(
        f"{text[start:].strip()!r} is no column: write a name, a type and then, if wanted, NOT NULL, DEFAULT sql, "
        "GENERATED ALWAYS AS (sql) and COMMENT 'text', with commas between columns, as 'id long not null, day date'; "
        "backticks keep other signs in a name"
    )
