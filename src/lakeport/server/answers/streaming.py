"""Answers sent while they are made: bounded memory, and a truncated answer never looks complete."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from threading import Lock

from lakeport.errors import SharingError
from lakeport.server.answers.answer_lines import Answer, error_line
from lakeport.server.http.asgi import (
    NDJSON,
    Header,
    Receive,
    RequestRecord,
    Scope,
    Send,
    abort,
    disconnection,
    record_of,
)
from lakeport.server.http.lanes import Lane

_log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
"""The target size of a write to the connection, in bytes."""


class Lines:
    """Reads an answer in pieces of about the same size. Methods block."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.ended = False
        self.files = self.size = 0
        """Files, and their total bytes, granted so far."""
        self._has_read = False
        self._error: Exception | None = None
        self._busy = Lock()

    def read(self) -> bytes:
        """The next piece; empty at the end. An error is raised after the lines before it, except in the first piece:
        nothing has been sent yet, so the status can report it."""
        with self._busy:
            piece = self._read()
            self._has_read = True
            return piece

    def close(self) -> None:
        """Stop the producer if it is still running; wait for a read in progress."""
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
                chunk = next(self.answer.chunks)
                some.append(chunk.lines)
                size += len(chunk.lines)
                self.files, self.size = self.files + chunk.files, self.size + chunk.size
            except StopIteration:
                self.ended = True
            except Exception as error:
                if not some or not self._has_read:
                    raise
                self._error = error
                break
        return b"".join(some)


def begin(plan: Callable[[], Answer]) -> tuple[Lines, bytes]:
    """Plan an answer and read its first piece, so that errors up to there set the status. Blocks."""
    lines = Lines(plan())
    return lines, lines.read()


class LinesReply:
    """Streams an answer of lines. It is chunked, so that clients notice a broken connection.

    Clients that read nothing for `stall_seconds` are disconnected, as are those with no other way to learn of an error.
    """

    def __init__(
        self,
        lines: Lines,
        first: bytes,
        headers: Sequence[Header],
        *,
        lane: Lane,
        stall_seconds: float,
        refuse: Callable[[BaseException, RequestRecord], SharingError],
    ) -> None:
        self._lines, self._first, self._headers = lines, first, [(b"content-type", NDJSON), *headers]
        self._lane, self._stall, self._refuse = lane, stall_seconds, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        gone = asyncio.create_task(disconnection(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await self._send(record, send, gone)
        except TimeoutError:
            _log.warning("disconnected a client that read nothing for %g s", self._stall)
            record.error = "the client stopped reading"
            abort(scope)
        finally:
            gone.cancel()
            record.files, record.bytes = self._lines.files, self._lines.size
            if not self._lines.ended:
                await self._lane.run(self._lines.close)

    async def _send(self, record: RequestRecord, send: Send, gone: asyncio.Task[None]) -> None:
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
                refusal = self._refuse(error, record)
                record.error = str(refusal)
                if not self._lines.answer.end_stream_action:
                    return  # without the last chunk, the connection is aborted
                piece, ended = error_line(str(refusal), refusal.status), True
        record.error = "the client disconnected"
