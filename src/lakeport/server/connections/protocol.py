"""Connections that cannot hold the server up: requests must arrive soon, and be small before they are understood."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lakeport.server.config import Limits
from lakeport.server.connections.admission import Refused, Visit
from lakeport.server.http.asgi import Application, Receive, Scope, Send
from lakeport.server.http.refusals import Refusal, error_reply
from lakeport.server.records.logs import Throttled

_log = Throttled(__name__)

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
_OF_BODIES = (b"content-length", b"transfer-encoding")
_PROBES = ("/health", "/ready")
CROWDED_SECONDS = 2.0
"""The life of connections that only probes can use: they must soon be free again, whatever they send."""
_PARSED_AT_ONCE = 1024
"""Bytes; so few that a budget is checked before much of what exceeds it was parsed."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 by httptools with budgets; alone it would take heads, chunk framing and trailers of any size and pace.

    Uvicorn's own time-out applies to connections that are idle between requests."""

    def __init__(self, limits: Limits, body_bytes: int, visit: Visit, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        if visit.refused is not None:
            self.app = _probes_only(self.app, visit.refused)
        self._limits, self._most_body_bytes, self._visit = limits, body_bytes, visit
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered, or was last; `cycle` is the one that arrived last."""
        self._unparsed = b""
        """Data that waits until earlier requests have their answers; no more is read as long as there is any."""
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
        self.flow = _Flow(transport, lambda: not self._unparsed)
        if self._visit.refused is not None:
            self.loop.call_later(CROWDED_SECONDS, transport.abort)
        self._await(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._visit.leave()
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        self._parse_unparsed()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unparsed:
            self._parse_unparsed()

    def _parse_unparsed(self) -> None:
        """Parses what has arrived, up to the point where too many requests wait for the answers to earlier ones."""
        data, start = memoryview(self._unparsed), 0
        while start < len(data) and not self._has_enough() and not self.transport.is_closing():
            self._parse(data[start : start + _PARSED_AT_ONCE])
            start += _PARSED_AT_ONCE
        self._unparsed = bytes(data[start:])
        if self.transport.is_closing():
            self._unparsed = b""
        elif self._unparsed:
            self.flow.pause_reading()
        else:
            self._check_rest()

    def _has_enough(self) -> bool:
        return 0 < self._limits.pipelined_requests <= len(self.pipeline)

    def _check_rest(self) -> None:
        """After all that has arrived was parsed: a request may be incomplete, or a connection begin to be idle."""
        if not self._visit.may_wait(partial=self._begun):
            self._cut_off(HTTPStatus.TOO_MANY_REQUESTS, "too many incomplete requests come from this address")
        # Any byte counts as the begin of a request, and stops the timer of idle connections.
        elif self._timer is None and not self._begun and self._is_idle():
            self._await(self._limits.head_seconds)

    def _parse(self, part: memoryview) -> None:
        body, self._ended = self._body, False
        self._unset_keepalive_if_required()
        self._feed(part)
        framing = len(part) - max(0, self._body - body)
        self._framing = 0 if self._ended else self._framing + framing
        if self.transport.is_closing():
            return
        if self._framing > self._limits.head_bytes:
            most = f"more than {self._limits.head_bytes} bytes of headers, chunk framing and trailers"
            self._cut_off(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request has {most}")
        elif self._body > self._most_body_bytes:
            self._cut_off(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body of the request is too large")

    def _feed(self, part: memoryview) -> None:
        """In place of uvicorn's: that one logs whatever clients do, and loses what follows an upgrade."""
        while part:
            try:
                self.parser.feed_data(part)
                return
            except httptools.HttpParserUpgrade as upgrade:  # which may be ignored (RFC 9110, section 7.8)
                part = part[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._cut_off(*(self._refusal or (HTTPStatus.BAD_REQUEST, "this is not a valid HTTP request")))
                return

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
        hosts = [value for name, value in self.headers if name == b"host"]
        needed = self.parser.get_http_version() == "1.1"
        if len(hosts) > 1 or needed > len(hosts) or not all(map(_HOST.fullmatch, hosts)):
            raise self._refused(HTTPStatus.BAD_REQUEST, "the request must have one Host header")
        if self.parser.should_upgrade() and any(name in _OF_BODIES for name, _ in self.headers):
            # The parser would take the body for something else than HTTP.
            raise self._refused(HTTPStatus.BAD_REQUEST, "a request with a body must not ask for an upgrade")
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

    def _refused(self, status: HTTPStatus, reason: str) -> Exception:
        """An error that ends the parsing; then the client is told."""
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
        if self.flow.read_paused:  # the client cannot send the rest
            self._await(self._limits.head_seconds)
        elif self._in_head:
            self.transport.abort()
        else:  # the reader of the body was kept from it, as on a busy machine
            self._cut_off(HTTPStatus.REQUEST_TIMEOUT, "the body of the request has not arrived in time")


class _Flow(FlowControl):
    """Reads on only if that is wanted; uvicorn would after every answer, and whenever an application waits."""

    def __init__(self, transport: asyncio.Transport, wanted: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._wanted = wanted

    def resume_reading(self) -> None:
        if self._wanted():
            super().resume_reading()


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
