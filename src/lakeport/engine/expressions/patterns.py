"""LIKE over Arrow data."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.engine.expressions.nodes import Datum
from lakeport.errors import UnsupportedExpressionError
from lakeport.kernel.values import own_scalar


class _Wild(Enum):
    """A pattern's wildcards, by their regular expressions."""

    ANY = ".*"
    ONE = "."


_WILDCARDS: dict[str, str | _Wild] = {"%": _Wild.ANY, "_": _Wild.ONE}


def matcher(pattern: str) -> Callable[[Datum], Datum]:
    """Not Arrow's own LIKE: it mishandles an escaped backslash."""
    parts = _parse_pattern(pattern)
    text = "".join(part for part in parts if not isinstance(part, _Wild))
    match [part if isinstance(part, _Wild) else "" for part in parts]:
        case [] | [""]:
            whole = own_scalar(text)
            return lambda array: pc.equal(array, whole)
        case [_Wild.ANY] | ["", _Wild.ANY]:
            return lambda array: pc.starts_with(array, text)
        case [_Wild.ANY, ""]:
            return lambda array: pc.ends_with(array, text)
        case [_Wild.ANY, "", _Wild.ANY]:
            return lambda array: pc.match_substring(array, text)
    regex = "(?s)\\A" + "".join(part.value if isinstance(part, _Wild) else re.escape(part) for part in parts) + "\\z"
    try:
        pc.match_substring_regex(own_scalar(""), regex)
    except pa.ArrowInvalid as error:
        raise UnsupportedExpressionError(f"the pattern {pattern[:50]!r} is too long to match: {error}") from error
    return lambda array: pc.match_substring_regex(array, regex)


def _parse_pattern(pattern: str) -> list[str | _Wild]:
    """The pattern as text and wildcards, never with two texts or two `%` in a row."""
    parts: list[str | _Wild] = []
    characters = iter(pattern)
    for char in characters:
        part = _WILDCARDS.get(char, char)
        if char == "\\":
            part = next(characters, "")
            if not part:
                raise UnsupportedExpressionError(f"the pattern {pattern[-50:]!r} ends with an escape")
        last = parts[-1] if parts else None
        if isinstance(part, str) and isinstance(last, str):
            parts[-1] = last + part
        elif not (part is last is _Wild.ANY):
            parts.append(part)
    return parts
