"""Responses about tables: JSON lines over all pages, checked to the end.

A page is received completely before its first line is returned, so a broken connection is retried and callers never see
part of a failed page. It is buffered in memory, or beyond a size in an anonymous temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Literal, Self
from weakref import finalize

import msgspec

from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.error_responses import invalid_answer, sharing_error
from lakeport.client.http.limits import EMPTY_PAGES, LINE_BYTES, PAGE_BYTES, PAGES, limited, too_large
from lakeport.errors import SharingError
from lakeport.sharing.capabilities import HEADER, Capabilities, parse_capabilities
from lakeport.sharing.lines import PENDING, EndStreamAction, QueryStatus
from lakeport.sharing.models import WireModel

ResponseFormat = Literal["delta", "parquet"]

_IN_MEMORY = 32 << 20
_FIRST_TAIL = 64 * 1024


_NOTHING = msgspec.Raw()


class _Line(WireModel, frozen=True):
    """The parts of a line that matter here; the rest is only checked to be JSON."""

    protocol: msgspec.Raw = _NOTHING
    meta_data: msgspec.Raw = _NOTHING
    end_stream_action: EndStreamAction | None = None
    query_status: QueryStatus | None = None

    @property
    def is_protocol(self) -> bool:
        return bytes(self.protocol).startswith(b"{")

    @property
    def is_metadata(self) -> bool:
        return bytes(self.meta_data).startswith(b"{")


_LINES = msgspec.json.Decoder(_Line, strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A query whose result is not ready yet."""

    query_id: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Page:
    """One complete response: head, lines and end. Its file is closed once the lines are read or the page is
    garbage-collected."""

    server: str
    about: str
    version: int
    response_format: ResponseFormat
    protocol_line: bytes
    metadata_line: bytes
    end: EndStreamAction | None
    file: SpooledTemporaryFile[bytes]

    def __post_init__(self) -> None:
        finalize(self, self.file.close)

    @property
    def next_token(self) -> str | None:
        return (self.end and self.end.next_page_token) or None

    def lines(self) -> Iterator[bytes]:
        """The lines between the head and the end, once. Raises `SharingError` for a line that is not JSON."""
        with self.file:
            self.file.seek(0)
            head, ended = 2, False
            for number, line in _numbered(self.file, self.server, self.about):
                if ended:
                    raise invalid_answer(self.server, self.about, f"it continues after its end, in line {number}")
                ended = _decode_line(line, number, self.server, self.about).end_stream_action is not None
                head -= 1
                if head < 0 and not ended:
                    yield line


class TableAnswer:
    """A server's response about a table: the head, then, once, the lines of all pages."""

    def __init__(self, first: Page, next_page: Callable[[str], Page]) -> None:
        self._page, self._next_page = first, next_page
        self.version = first.version
        self.response_format = first.response_format
        self.protocol_line = first.protocol_line
        self.metadata_line = first.metadata_line
        self.end: EndStreamAction | None = None
        """Available after all lines: the combined ends of the pages, with the first refresh token and the earliest
        expiration; None if no page has an end."""
        self._lines = self._all_lines()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard the remaining lines."""
        self._lines.close()
        self._page.file.close()

    def lines(self) -> Iterator[bytes]:
        """The lines after the head, without the ends: files, and metadata of other versions. All calls share one
        iterator.

        Raises `SharingError` for a line that is not JSON, and for a page that is missing or belongs to another
        table."""
        return self._lines

    def _all_lines(self) -> Generator[bytes]:
        end: EndStreamAction | None = None
        count = PageCount(self._page.server, self._page.about)
        while True:
            lines = 0
            for line in self._page.lines():
                lines += 1
                yield line
            token = self._page.next_token
            count.add(lines, token)
            end = _together(end, self._page.end)
            if token is None:
                break
            self._page = self._checked(self._next_page(token))
        self.end = end

    def _checked(self, page: Page) -> Page:
        """Check that a page has the same head as the first one."""
        for name in ("version", "response_format", "protocol_line", "metadata_line"):
            if getattr(page, name) != getattr(self, name):
                page.file.close()
                what = name.replace("_", " ")
                raise invalid_answer(page.server, page.about, f"its pages are inconsistent: the {what} differs")
        return page


def receive_page(answer: HttpAnswer, about: str, most_bytes: int = PAGE_BYTES) -> Page | Pending:
    """Read a response with status 200 to its end.

    Raises `UnavailableError` if it breaks off, and `SharingError` if it ends with an error or is invalid."""
    file: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the page closes it
    try:
        for chunk in limited(answer.stream(), most_bytes, answer.server, about):
            file.write(chunk)
        return _read_page(answer, about, file)
    except BaseException:
        file.close()
        raise


def _read_page(answer: HttpAnswer, about: str, file: SpooledTemporaryFile[bytes]) -> Page | Pending:
    capabilities = parse_capabilities(answer.headers.get(HEADER))
    head = _head(file, answer.server, about)
    if not head:
        raise invalid_answer(answer.server, about, "it is empty")
    if head[0].startswith(b"<"):
        raise invalid_answer(answer.server, about, "it is a web page; check the endpoint in the profile")
    first = _decode_line(head[0], 1, answer.server, about)
    if first.query_status is not None:
        file.close()
        return _pending(first.query_status, answer.server, about)
    last = _decode_line(_last_line(file, answer.server, about), None, answer.server, about)
    _check_end(answer, about, capabilities, last.end_stream_action)
    if len(head) < 2 or not first.is_protocol or not _decode_line(head[1], 2, answer.server, about).is_metadata:
        raise invalid_answer(answer.server, about, "it does not begin with protocol and metadata")
    return Page(
        server=answer.server,
        about=about,
        version=parse_version(answer, about),
        response_format=_response_format(answer, about, capabilities),
        protocol_line=head[0],
        metadata_line=head[1],
        end=last.end_stream_action,
        file=file,
    )


def _pending(found: QueryStatus, server: str, about: str) -> Pending:
    """Raises `SharingError` for a failed query: only pending ones are polled."""
    if found.status is None or found.status.lower() == PENDING:
        return Pending(query_id=found.query_id)
    said = found.error_message or found.message or f"its status is {found.status!r}"
    raise sharing_error(f"{server} failed to answer a query about {about}", 200, "QUERY_FAILED", said)


def _check_end(answer: HttpAnswer, about: str, capabilities: Capabilities, end: EndStreamAction | None) -> None:
    if end is not None and end.error_message is not None:
        status = end.http_status_error_code or 500
        where = f"{answer.server} broke off its response about {about}"
        raise sharing_error(where, status, "STREAM_FAILED", end.error_message)
    if end is None and capabilities.include_end_stream_action:
        raise invalid_answer(answer.server, about, "it is truncated: the end that its header announced is missing")
    if end is None and not answer.tells_its_length:
        raise invalid_answer(answer.server, about, "it has neither a length nor an end, so it may be truncated")


def parse_version(answer: HttpAnswer, about: str) -> int:
    """The `Delta-Table-Version` header. Raises `SharingError`."""
    text = answer.headers.get("delta-table-version", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 1 << 63):
        raise invalid_answer(answer.server, about, "its header Delta-Table-Version is missing or invalid")
    return int(text)


def _response_format(answer: HttpAnswer, about: str, capabilities: Capabilities) -> ResponseFormat:
    if "delta" in capabilities.response_formats:
        return "delta"
    if "parquet" in capabilities.response_formats:
        return "parquet"
    formats = ", ".join(capabilities.response_formats)[:50]
    raise invalid_answer(answer.server, about, f"it is in the format {formats}, which was not requested")


def _head(file: SpooledTemporaryFile[bytes], server: str, about: str) -> list[bytes]:
    """The first two lines, or fewer."""
    file.seek(0)
    found: list[bytes] = []
    for _, line in _numbered(file, server, about):
        found.append(line)
        if len(found) == 2:
            break
    return found


def _last_line(file: SpooledTemporaryFile[bytes], server: str, about: str) -> bytes:
    size = file.seek(0, 2)
    tail = _FIRST_TAIL
    while True:
        file.seek(max(0, size - tail))
        text = file.read().rstrip()
        _, newline, line = text.rpartition(b"\n")
        if newline or tail >= size:
            return line
        if tail > LINE_BYTES:
            raise _long_line(server, about)
        tail *= 8


def _numbered(file: SpooledTemporaryFile[bytes], server: str, about: str) -> Iterator[tuple[int, bytes]]:
    """The non-blank lines, without line endings. Raises `SharingError` for a line that is too long."""
    for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), 1):
        if len(line) == LINE_BYTES:
            raise _long_line(server, about)
        if text := line.strip():
            yield number, text


def _long_line(server: str, about: str) -> SharingError:
    return too_large(server, about, f"has a line of more than {LINE_BYTES:,} bytes")


def _decode_line(line: bytes, number: int | None, server: str, about: str) -> _Line:
    try:
        return _LINES.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        where = "the last line" if number is None else f"line {number}"
        raise invalid_answer(server, about, f"{where} is not a JSON object of the protocol") from None


def _together(*given: EndStreamAction | None) -> EndStreamAction | None:
    ends = [end for end in given if end is not None]
    if not ends:
        return None
    expirations = [end.min_url_expiration_timestamp for end in ends if end.min_url_expiration_timestamp is not None]
    tokens = [end.refresh_token for end in ends if end.refresh_token]
    return EndStreamAction(
        refresh_token=tokens[0] if tokens else None,
        min_url_expiration_timestamp=min(expirations, default=None),
    )


class PageCount:
    """Counts the pages of one response. Raises `SharingError` if they seem endless or repeat."""

    def __init__(self, server: str, about: str) -> None:
        self._server, self._about = server, about
        self._pages = self._empty = 0
        self._tokens: set[int] = set()
        """Hashes, because tokens may be long."""

    def add(self, items: int, next_token: str | None) -> None:
        """Count a page with this many items, followed by the page of `next_token`."""
        self._pages += 1
        self._empty = 0 if items else self._empty + 1
        if self._pages >= PAGES:
            raise too_large(self._server, self._about, f"has more than {PAGES:,} pages")
        if self._empty >= EMPTY_PAGES:
            raise too_large(self._server, self._about, f"has {EMPTY_PAGES:,} empty pages in a row")
        if next_token is not None and hash(next_token) in self._tokens:
            raise invalid_answer(self._server, self._about, "its pages form a loop")
        self._tokens.add(hash(next_token))
