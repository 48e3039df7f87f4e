"""Answers that are sent while they are made: bounded memory, and never a short answer that looks whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from threading import Lock

from lakeport.errors import SharingError
from lakeport.server.answers.answer import Answer
from lakeport.server.http.asgi import NDJSON, Header, Receive, Scope, Send, abort, disconnection
from lakeport.server.http.exchange import Exchange, exchange_of
from lakeport.server.http.lanes import Lane

_log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
"""Bytes that are handed to the connection at once, if there are as many."""


class Lines:
    """Reads an answer in pieces of some size. Its methods block."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.ended = False
        self._begun = False
        self._error: Exception | None = None
        self._busy = Lock()

    def read(self) -> bytes:
        """The next piece; empty at the end. An error comes after the lines that were before it, but for the first
        piece in their place: nothing has been sent, and the status can tell."""
        with self._busy:
            piece = self._read()
            self._begun = True
            return piece

    def close(self) -> None:
        """Ends what makes the lines, if it has not come to its end. A piece that is being read is waited for."""
        close = getattr(self.answer.chunks, "close", None)
        with self._busy:
            if close is not None:
                close()

    def _read(self) -> bytes:
        if self._error is not None:
            raise self._error
        some: list[bytes] = []
        size = 0
        while size < _CHUNK and not self.ended:
            try:
                some.append(next(self.answer.chunks))
                size += len(some[-1])
            except StopIteration:
                self.ended = True
            except Exception as error:
                if not some or not self._begun:
                    raise
                self._error = error
                break
        return b"".join(some)


def begin(plan: Callable[[], Answer]) -> tuple[Lines, bytes]:
    """Plans an answer up to its first piece, so that what fails until there is told by the status. It blocks."""
    lines = Lines(plan())
    return lines, lines.read()


class LinesReply:
    """Sends an answer of lines. It is chunked, so that a connection that breaks is noticed.

    A client that takes nothing for `stall_seconds` is cut off; so is one that cannot be told of an error otherwise.
    """

    def __init__(
        self,
        lines: Lines,
        first: bytes,
        headers: Sequence[Header],
        *,
        lane: Lane,
        stall_seconds: float,
        refuse: Callable[[BaseException, Exchange], SharingError],
    ) -> None:
        self._lines, self._first, self._headers = lines, first, [(b"content-type", NDJSON), *headers]
        self._lane, self._stall, self._refuse = lane, stall_seconds, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = exchange_of(scope)
        gone = asyncio.create_task(disconnection(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await self._send(exchange, send, gone)
        except TimeoutError:
            _log.warning("cut off: the client has taken nothing for %g s", self._stall)
            exchange.error = "the client took nothing"
            abort(scope)
        finally:
            gone.cancel()
            exchange.files, exchange.bytes = self._lines.answer.files, self._lines.answer.size
            if not self._lines.ended:
                await self._lane.run(self._lines.close)

    async def _send(self, exchange: Exchange, send: Send, gone: asyncio.Task[None]) -> None:
        piece, ended = self._first, self._lines.ended
        while not gone.done():
            async with asyncio.timeout(self._stall):
                await send({"type": "http.response.body", "body": piece, "more_body": not ended})
            if ended:
                return
            try:
                piece = await self._lane.run(self._lines.read)
                ended = self._lines.ended
            except Exception as error:
                refusal = self._refuse(error, exchange)
                exchange.error = str(refusal)
                if not self._lines.answer.end_stream_action:
                    return  # without the last chunk: the connection is broken off
                piece, ended = self._lines.answer.error_line(str(refusal), refusal.status), True
        exchange.error = "the client went away"
