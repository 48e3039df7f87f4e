"""Connections that cannot hold the server up: a request has to arrive soon, and its head to be small."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_log = logging.getLogger(__name__)

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 by httptools, which alone would take heads of any size and at any pace.

    Between requests uvicorn's own limit for idle connections counts. A body that nobody reads, because its request is
    answered already, keeps a connection no longer than `body_seconds`, either."""

    def __init__(self, head_bytes: int, head_seconds: float, body_seconds: float, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._most_bytes, self._head_seconds, self._body_seconds = head_bytes, head_seconds, body_seconds
        self._bytes = 0
        self._in_head = True
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a request is awaited."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head:
            return
        self._bytes += len(data)
        if self._bytes > self._most_bytes:
            _log.warning("refused a request whose head has more than %d bytes", self._most_bytes)
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()
        # For who has to cut a client off: closing would wait until it has taken what is in the buffers.
        self.scope["state"]["abort"] = self.transport.abort

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._await(self._body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()

    def _await_head(self) -> None:
        self._in_head, self._bytes = True, 0
        self._await(self._head_seconds)

    def _await(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()
