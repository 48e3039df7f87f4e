"""Columns as people write them: `id long not null, price decimal(10,2), tags array<string>, at struct<x: int, y: int>`.

It is what SQL has between the parentheses of CREATE TABLE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakeport.kernel.schema import StructField, StructType
from lakeport.kernel.type_text import parse_type

_PIECE = re.compile(r"`(?:[^`]|``)*`|[^`]")
_COLUMN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)[\s:]\s*(.*?)(\s+not\s+null)?\s*", re.IGNORECASE | re.DOTALL)
_DEPTH = {"<": 1, "(": 1, ">": -1, ")": -1}


def parse_schema_text(text: str) -> StructType:
    """Raises `ValueError`, saying which column is wrong."""
    return StructType(tuple(map(_column, _split(text))))


def _column(text: str) -> StructField:
    match = _COLUMN.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text.strip()!r} is no column: write a name and a type, as 'id long not null'; backticks keep "
            "other signs in a name"
        )
    name, spelled, required = match.groups()
    plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
    return StructField(plain, parse_type(spelled), nullable=required is None)


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are in no brackets and no backticks."""
    depth, part = 0, ""
    for piece in _PIECE.findall(text):
        depth += _DEPTH.get(piece, 0)
        if piece == "," and depth == 0:
            yield part
            part = ""
        else:
            part += piece
    yield part
