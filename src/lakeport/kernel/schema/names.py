"""Column names as users write them: dotted paths, with backticks around special names."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COMMA_OUTSIDE_BACKTICKS = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def parse_path(name: str) -> tuple[str, ...]:
    """Split a dotted name; backticks protect dots, and a doubled backtick inside them is one backtick."""
    parts: list[str] = []
    part: list[str] = []
    quoted, last = False, ""
    for char in name:
        if char == "`":
            quoted = not quoted
            if quoted and last == "`":
                part.append(char)
        elif char == "." and not quoted:
            parts.append("".join(part))
            part.clear()
        else:
            part.append(char)
        last = char
    return (*parts, "".join(part))


def parse_column_list(text: str) -> tuple[tuple[str, ...], ...]:
    """Parse the paths in a comma-separated column list; backticks protect dots and commas. Raises `ValueError`."""
    names = [name.strip() for name in _COMMA_OUTSIDE_BACKTICKS.split(text)]
    paths = tuple(parse_path(name) for name in names if name or len(names) > 1)
    if any(not part for path in paths for part in path) or text.count("`") % 2:
        raise ValueError(f"{text!r} is not a list of columns")
    return paths


def format_column_list(paths: Iterable[tuple[str, ...]]) -> str:
    """The inverse of `parse_column_list`."""
    return ",".join(map(format_path, paths))


def format_path(path: Iterable[str]) -> str:
    """The inverse of `parse_path`, with backticks only where they are needed."""
    return ".".join(name if name.isidentifier() else quoted(name) for name in path)


def quoted(*path: str) -> str:
    """A dotted name with backticks around each part."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in path)


def unquoted(name: str) -> str:
    """Strip optional backticks from a name."""
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
