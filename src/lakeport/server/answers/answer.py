"""An answer about a table: headers, and lines that are made lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from lakeport.server.answers.file_rows import FileRow
from lakeport.server.answers.lines import LineWriter, Moment, SignedRow, encode_line
from lakeport.server.signing import UrlSigner
from lakeport.sharing.capabilities import Capabilities, format_capabilities
from lakeport.sharing.lines import EndStreamAction

CHUNK_FILES = 2000
"""Files signed and written per batch: large enough to be fast, small enough for memory and for other requests."""

T = TypeVar("T")


@dataclass(kw_only=True)
class Answer:
    """The answer to a request on a table. Iterating over `chunks` blocks and may raise."""

    version: int
    """For the `Delta-Table-Version` header."""
    response_format: str
    end_stream_action: bool = False
    """Whether the client reads `EndStreamAction`, and so errors in it."""
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))
    files: int = 0
    size: int = 0
    """Files, and their total bytes, granted so far."""
    details: dict[str, Any] = field(default_factory=dict)
    """Request parameters, for the audit log."""

    @property
    def capabilities(self) -> str:
        """The `delta-sharing-capabilities` header."""
        return format_capabilities(
            Capabilities(response_formats=(self.response_format,), include_end_stream_action=self.end_stream_action)
        )

    def error_line(self, message: str, status: int) -> bytes:
        """The last line of an answer that fails midway."""
        return encode_line("endStreamAction", EndStreamAction(error_message=message, http_status_error_code=status))


class FileLines:
    """Signs files, writes their lines, and counts them in the answer."""

    def __init__(self, answer: Answer, writer: LineWriter, signer: UrlSigner, now: Callable[[], int]) -> None:
        self._answer, self._writer, self._signer, self._now = answer, writer, signer, now
        self._alike: dict[str, str] = {}
        self.expires: int | None = None
        """The earliest expiry of the URLs so far, in milliseconds since the epoch."""

    def chunks(self, kind: str, rows: Iterable[FileRow], moment: Moment) -> Iterator[bytes]:
        for some in chunked(rows, CHUNK_FILES):
            yield self.lines(kind, self.sign(some), moment)

    def sign_alike(self, paths: list[str]) -> None:
        """Give each of these files one URL from now on: clients take a file that is removed and added under two URLs
        for two files."""
        self._alike = self._urls(dict.fromkeys(paths))

    def sign(self, rows: list[FileRow]) -> list[SignedRow]:
        """Sign the files; those with the same path get the same URL."""
        paths: dict[str, None] = dict.fromkeys(row.path for row in rows if row.path not in self._alike)
        paths |= dict.fromkeys(row.vector_path for row in rows if row.vector_path is not None)
        urls = self._urls(paths) | self._alike
        return [SignedRow(row, urls[row.path], row.vector_path and urls[row.vector_path]) for row in rows]

    def _urls(self, paths: dict[str, None]) -> dict[str, str]:
        expires = self._signer.expires(self._now())
        self.expires = min(expires, self.expires or expires)
        return dict(zip(paths, self._signer.sign(list(paths)), strict=True)) if paths else {}

    def lines(self, kind: str, rows: list[SignedRow], moment: Moment) -> bytes:
        self._answer.files += len(rows)
        self._answer.size += sum(signed.row.size or 0 for signed in rows)
        assert self.expires is not None
        return self._writer.files(kind, rows, moment, self.expires)

    def end(self, *, next_page_token: str | None = None, refresh_token: str | None = None) -> bytes:
        action = EndStreamAction(
            next_page_token=next_page_token,
            refresh_token=refresh_token,
            min_url_expiration_timestamp=self.expires,
        )
        return encode_line("endStreamAction", action)


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def wants_end(capabilities: Capabilities, *others: object) -> bool:
    """Whether the answer ends with an `EndStreamAction`: the header asks for one, or one of `others` needs it."""
    return capabilities.include_end_stream_action or any(other is not None and other is not False for other in others)
