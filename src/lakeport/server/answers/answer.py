"""From a plan to an answer: URLs signed in bulk, lines made lazily."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakeport.server.answers.caller import Caller
from lakeport.server.answers.formats import choose_format
from lakeport.server.answers.lines import LineWriter, Urls, encode_line, line_writer
from lakeport.server.answers.plan import Files, Page, Plan, State
from lakeport.server.signing.signers import TableSigner
from lakeport.sharing.capabilities import Capabilities, format_capabilities
from lakeport.sharing.lines import EndStreamAction


class Chunk(NamedTuple):
    """Whole lines, and how many files of how many bytes they grant."""

    lines: bytes
    files: int = 0
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a request on a table. Iterating over `chunks` blocks and may raise."""

    version: int
    """The route sends it as `Delta-Table-Version`."""
    response_format: str
    end_stream_action: bool
    """Whether the client reads `EndStreamAction`, and so errors in it."""
    chunks: Iterator[Chunk]
    details: dict[str, Any] = field(default_factory=dict)
    """Request parameters, for the audit log."""

    @property
    def capabilities(self) -> str:
        """What the route sends as `delta-sharing-capabilities`."""
        return format_capabilities(
            Capabilities(response_formats=(self.response_format,), include_end_stream_action=self.end_stream_action)
        )


@dataclass(frozen=True)
class End:
    """The tokens in the last line."""

    page_token: Callable[[Page[Any]], str]
    refresh_token: str | None = None


def write_answer(plan: Plan, caller: Caller, signer: FileSigner, end: End | None) -> Answer:
    """Without `end`, there is no `EndStreamAction`. Raises `SharingError` (400) if the client cannot read the table."""
    response_format = choose_format(plan.needs, caller.capabilities, caller.table_name)
    writer = line_writer(response_format, caller.table, caller.capabilities, caller.file_id_hash)
    return Answer(
        version=plan.version,
        response_format=response_format,
        end_stream_action=end is not None,
        chunks=_chunks(plan, writer, signer, end),
        details=plan.details,
    )


def error_line(message: str, status: int) -> bytes:
    """The last line of an answer that fails midway."""
    return encode_line("endStreamAction", EndStreamAction(error_message=message, http_status_error_code=status))


class FileSigner:
    """Signs the files of one answer."""

    def __init__(self, signer: TableSigner, now: Callable[[], float]) -> None:
        self._signer, self._now = signer, now
        self._replaced: Collection[str] = ()
        self._urls_of_replaced: dict[str, str] = {}
        self.expires: int | None = None
        """The earliest expiry of the URLs so far, in milliseconds since the epoch."""

    def sign(self, files: Files) -> Urls:
        """The URLs of the files and of their deletion vectors."""
        if files.replaced is not self._replaced:
            self._replaced, self._urls_of_replaced = files.replaced, self._sign(files.replaced)
        known = self._urls_of_replaced
        paths: dict[str, None] = dict.fromkeys(row.path for row in files.rows if row.path not in known)
        paths |= dict.fromkeys(row.vector_path for row in files.rows if row.vector_path is not None)
        return self._sign(paths) | known

    def _sign(self, paths: Collection[str]) -> dict[str, str]:
        expires = self._signer.expires(int(self._now() * 1000))
        self.expires = min(expires, self.expires or expires)
        return dict(zip(paths, self._signer.sign(list(paths)), strict=True)) if paths else {}


def _chunks(plan: Plan, writer: LineWriter, signer: FileSigner, end: End | None) -> Iterator[Chunk]:
    following: Page[Any] | None = None
    for part in plan.parts:
        if isinstance(part, Files):
            urls = signer.sign(part)
            assert signer.expires is not None
            lines = writer.files(part, urls, signer.expires)
            yield Chunk(lines, len(part.rows), sum(row.size or 0 for row in part.rows))
        elif isinstance(part, State):
            yield Chunk(writer.state(part))
        else:
            following = part
    if end is not None:
        action = EndStreamAction(
            next_page_token=end.page_token(following) if following else None,
            refresh_token=end.refresh_token,
            min_url_expiration_timestamp=signer.expires,
        )
        yield Chunk(encode_line("endStreamAction", action))
