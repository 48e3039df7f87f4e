"""Connections that cannot hold the server up: requests must arrive soon, and be small before they are understood."""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from lakeport.server.admission import Refused, Visit
from lakeport.server.asgi import Application, Receive, Scope, Send
from lakeport.server.config import Limits
from lakeport.server.errors import Refusal, error_reply
from lakeport.server.logs import Throttled

_log = Throttled(__name__)

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
_PROBES = ("/health", "/ready")
CROWDED_SECONDS = 2.0
"""The life of connections that only probes can use: they must soon be free again, whatever they send."""
_PARSED_AT_ONCE = 16 * 1024
"""Small enough that a budget is checked before much of what exceeds it was parsed."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 by httptools with budgets; alone it would take heads, chunk framing and trailers of any size and pace.

    Uvicorn's own time-out applies to connections that are idle between requests."""

    def __init__(self, limits: Limits, body_bytes: int, visit: Visit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        if visit.refused is not None:
            self.app = _probes_only(self.app, visit.refused)
        self._limits, self._most_body_bytes, self._visit = limits, body_bytes, visit
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._begun = self._ended = False
        """Whether a request is arriving; whether one has become complete in the data at hand."""
        self._in_head = True
        self._framing = self._body = self._fields = 0
        """Of the current request: bytes that are not body, bytes that are, headers and trailers."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs while a request is awaited."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if self._visit.refused is not None:
            self.loop.call_later(CROWDED_SECONDS, transport.abort)
        self._await(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._visit.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(data), _PARSED_AT_ONCE):
            self._parse(view[start : start + _PARSED_AT_ONCE] if len(data) > _PARSED_AT_ONCE else data)
            if self.transport.is_closing():
                return
        # Uvicorn takes any byte for the begin of a request, and stops its own timer.
        if self._timer is None and not self._begun and self._is_idle():
            self._await(self._limits.head_seconds)

    def _parse(self, part: bytes | memoryview) -> None:
        body, self._ended = self._body, False
        super().data_received(part)  # type: ignore[arg-type]  # the parser takes views
        framing = len(part) - max(0, self._body - body)
        self._framing = 0 if self._ended else self._framing + framing
        if self.transport.is_closing():
            return
        if self._framing > self._limits.head_bytes:
            most = f"more than {self._limits.head_bytes} bytes of headers, chunk framing and trailers"
            self._cut_off(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request has {most}")
        elif self._body > self._most_body_bytes:
            self._cut_off(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")
        elif not self._visit.may_wait(partial=self._begun):
            self._cut_off(HTTPStatus.TOO_MANY_REQUESTS, "too many incomplete requests come from this address")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = self._in_head = True
        self._framing = self._body = self._fields = 0
        self._await(self._limits.head_seconds)
        # For who has to cut a client off: closing would wait until it has taken what is in the buffers.
        self.scope["state"]["abort"] = self.transport.abort

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > self._limits.header_count:
            most = f"the request has more than {self._limits.header_count} headers"
            raise self._refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, most)
        if self._in_head:  # trailers must not pass for headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined_requests > 0:
            raise self._refused(HTTPStatus.TOO_MANY_REQUESTS, "too many requests wait for answers to earlier ones")
        hosts = [value for name, value in self.headers if name == b"host"]
        needed = self.parser.get_http_version() == "1.1"
        if len(hosts) > 1 or needed > len(hosts) or not all(map(_HOST.fullmatch, hosts)):
            raise self._refused(HTTPStatus.BAD_REQUEST, "the request must have one Host header")
        super().on_headers_complete()
        self._in_head = False
        # Readers of a body give up before the connection does, and log it.
        self._await(2 * self._limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._begun, self._ended = False, True
        self._stop()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Uvicorn's answer to what the parser refuses."""
        self._cut_off(*(self._refusal or (HTTPStatus.BAD_REQUEST, msg)))

    def _refused(self, status: HTTPStatus, reason: str) -> Exception:
        """An error that ends the parsing; then `send_400_response` is called."""
        self._refusal = (status, reason)
        return httptools.HttpParserError(reason)

    def _cut_off(self, status: HTTPStatus, reason: str) -> None:
        """Answers if that cannot be taken for a part or the whole of another answer, and closes the connection."""
        address = self.client[0] if self.client else "-"
        _log.warning("refused a request", "refused a request from %s with %d: %s", address, status, reason)
        if self.pipeline or not self._answerable():
            self.transport.abort()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # so that what the application sends is dropped
            self.cycle.message_event.set()
        self.transport.write(plain_answer(status, reason))
        self.transport.close()

    def _answerable(self) -> bool:
        """Whether nothing is sent or to be sent but the answer to the current request."""
        return self._is_idle() if self._in_head else not self.cycle.response_started

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    def _await(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._in_head:
            self.transport.abort()
        else:  # the reader of the body was kept from it, as on a busy machine
            self._cut_off(HTTPStatus.REQUEST_TIMEOUT, "the body of the request has not arrived in time")


def _probes_only(app: Application, refused: Refused) -> Application:
    """The application for connections beyond the limits."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _PROBES:
            await app(scope, receive, send)
            return
        address = scope["client"][0] if scope["client"] else "-"
        _log.warning(f"refused with {refused.status}", "refused a request from %s with %d: %s", address, *refused)
        too_many = refused.status == HTTPStatus.TOO_MANY_REQUESTS
        refusal = Refusal(
            f"{refused.reason}: try again later",
            status=refused.status,
            code="RATE_LIMIT_EXCEEDED" if too_many else "TEMPORARILY_UNAVAILABLE",
            headers=((b"retry-after", b"1"), (b"connection", b"close")),
        )
        await error_reply(refusal)(scope, receive, send)

    return answer


def plain_answer(status: HTTPStatus, reason: str) -> bytes:
    """A whole answer, after which the connection is closed."""
    retry = "retry-after: 1\r\n" if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) else ""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n{retry}"
        f"content-length: {len(reason)}\r\nconnection: close\r\n\r\n{reason}"
    ).encode()
