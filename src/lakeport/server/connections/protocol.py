"""HTTP connections with limits: requests must arrive in time, and are bounded before they are parsed."""

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
from lakeport.server.connections.admission import Refused, Slot
from lakeport.server.http.asgi import Application, Receive, Scope, Send
from lakeport.server.http.refusals import Refusal, error_reply
from lakeport.server.records.logs import Throttled

_log = Throttled(__name__)

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")
_OF_BODIES = (b"content-length", b"transfer-encoding")
_PROBES = ("/health", "/ready")
CROWDED_SECONDS = 2.0
"""The lifetime of probe-only connections: they must be free again soon, whatever they send."""
_PARSED_AT_ONCE = 1024
"""Bytes; small, so that budgets are checked before much excess is parsed."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with budgets; httptools alone accepts heads, chunk framing and trailers of any size and pace.

    Uvicorn's own timeout covers connections that are idle between requests."""

    def __init__(self, limits: Limits, body_bytes: int, slot: Slot, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        if slot.refused is not None:
            self.app = _probes_only(self.app, slot.refused)
        self._limits, self._most_body_bytes, self._slot = limits, body_bytes, slot
        self._answered: RequestResponseCycle | None = None
        """The request being answered, or the last one; `cycle` is the one that arrived last."""
        self._unparsed = b""
        """Data held back until earlier requests are answered; reading pauses while there is any."""
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._arriving = self._ended = False
        """Whether a request is arriving; whether one was completed by the current data."""
        self._in_head = True
        self._framing = self._body = self._fields = 0
        """Of the current request: non-body bytes, body bytes, headers and trailers."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs while waiting for a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: not self._unparsed)
        if self._slot.refused is not None:
            self.loop.call_later(CROWDED_SECONDS, transport.abort)
        self._await(self._limits.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._slot.release()
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
        """Parse received data until too many requests wait for earlier ones."""
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
        """After parsing everything received: a request may be incomplete, or the connection may become idle."""
        if not self._slot.may_wait(partial=self._arriving):
            self._cut_off(HTTPStatus.TOO_MANY_REQUESTS, "too many incomplete requests from this address")
        # Any byte begins a request, and stops the idle timer.
        elif self._timer is None and not self._arriving and self._is_idle():
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
            self._cut_off(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request body is too large")

    def _feed(self, part: memoryview) -> None:
        """Replaces uvicorn's, which logs whatever clients do and drops data after an upgrade."""
        while part:
            try:
                self.parser.feed_data(part)
                return
            except httptools.HttpParserUpgrade as upgrade:  # may be ignored (RFC 9110, section 7.8)
                part = part[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._cut_off(*(self._refusal or (HTTPStatus.BAD_REQUEST, "this is not a valid HTTP request")))
                return

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving = self._in_head = True
        self._framing = self._body = self._fields = 0
        self._await(self._limits.head_seconds)
        # For aborting: close() would wait for buffers to drain.
        self.scope["state"]["abort"] = self.transport.abort

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        if self._fields > self._limits.header_count:
            most = f"the request has more than {self._limits.header_count} headers"
            raise self._refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, most)
        if self._in_head:  # trailers must not be taken for headers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        needed = self.parser.get_http_version() == "1.1"
        if len(hosts) > 1 or needed > len(hosts) or not all(map(_HOST.fullmatch, hosts)):
            raise self._refused(HTTPStatus.BAD_REQUEST, "the request must have one Host header")
        if self.parser.should_upgrade() and any(name in _OF_BODIES for name, _ in self.headers):
            # The parser would not treat the body as HTTP.
            raise self._refused(HTTPStatus.BAD_REQUEST, "a request with a body must not ask for an upgrade")
        super().on_headers_complete()
        self._in_head = False
        # Body readers time out before the connection does, and log it.
        self._await(2 * self._limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._arriving, self._ended = False, True
        self._stop()
        super().on_message_complete()

    def _refused(self, status: HTTPStatus, reason: str) -> Exception:
        """An error that stops parsing; the client then gets the response."""
        self._refusal = (status, reason)
        return httptools.HttpParserError(reason)

    def _cut_off(self, status: HTTPStatus, reason: str) -> None:
        """Close the connection; respond first if that cannot be mistaken for part or all of another response."""
        address = self.client[0] if self.client else "-"
        _log.warning("rejected a request", "rejected a request from %s with %d: %s", address, status, reason)
        if self.pipeline or not self._answerable():
            self.transport.abort()
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # drop whatever the application still sends
            self.cycle.message_event.set()
        self.transport.write(plain_answer(status, reason))
        self.transport.close()

    def _answerable(self) -> bool:
        """Whether the response to the current request is the only one sent or pending."""
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
        else:  # the body reader was starved, as on a busy machine
            self._cut_off(HTTPStatus.REQUEST_TIMEOUT, "the request body did not arrive in time")


class _Flow(FlowControl):
    """Resumes reading only when wanted; uvicorn would after every response, and whenever an application waits."""

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
        _log.warning(f"rejected with {refused.status}", "rejected a request from %s with %d: %s", address, *refused)
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
    """A complete response, after which the connection is closed."""
    retry = "retry-after: 1\r\n" if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) else ""
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n{retry}"
        f"content-length: {len(reason)}\r\nconnection: close\r\n\r\n{reason}"
    ).encode()
