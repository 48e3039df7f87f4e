"""Range and conditional requests (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakeport.server.files.opening import FileState
from lakeport.server.http.asgi import Scope, header
from lakeport.server.http.refusals import Refusal

# Possessive: with backtracking, a header of blanks would take quadratic time.
_RANGE = re.compile(r"\s*+bytes\s*+=\s*+([0-9]*+)\s*+-\s*+([0-9]*+)\s*+", re.ASCII | re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?("[^"]*")')
_LONGEST_NUMBER = 18


@dataclass(frozen=True, slots=True)
class Part:
    """The response: 200 with the whole file, 206 with a range, or 304 without a body."""

    status: int
    start: int = 0
    length: int = 0


def requested_part(scope: Scope, state: FileState) -> Part:
    """Raises `Refusal` (412, 416)."""
    matching = header(scope, b"if-match")
    if matching is not None and not _names(matching, state, weakly=False):
        raise Refusal("the file has changed: read it from the start", status=412, code="PRECONDITION_FAILED")
    known = header(scope, b"if-none-match")
    if known is not None and _names(known, state, weakly=True):
        return Part(304)
    wanted = header(scope, b"range")
    if wanted is None or scope["method"] != "GET" or not _holds(header(scope, b"if-range"), state):
        return Part(200, 0, state.size)
    return _ranged(wanted, state.size)


def _names(tags: str, state: FileState, *, weakly: bool) -> bool:
    """Whether a list of entity tags contains the file's."""
    if tags.strip() == "*":
        return True
    return any(tag[1] == state.etag for tag in _TAG.finditer(tags) if weakly or not tag[0].startswith("W/"))


def _holds(if_range: str | None, state: FileState) -> bool:
    return if_range is None or if_range.strip() in (state.etag, state.last_modified)


def _ranged(wanted: str, size: int) -> Part:
    """Invalid and multiple ranges are ignored; a range that starts past the end is refused."""
    found = _RANGE.fullmatch(wanted)
    if not found or max(map(len, found.groups())) > _LONGEST_NUMBER or not any(found.groups()):
        return Part(200, 0, size)
    first, last = found.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(last) < start:
        return Part(200, 0, size)
    if start >= size:
        raise _unsatisfiable(size)
    return Part(206, start, end - start)


def _unsatisfiable(size: int) -> Refusal:
    return Refusal(
        f"the file has only {size} bytes: the range starts after its end",
        status=416,
        code="INVALID_PARAMETER_VALUE",
        headers=((b"content-range", f"bytes */{size}".encode()),),
    )
