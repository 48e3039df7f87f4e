"""ASGI types, responses that are complete before the first byte is sent, and the record of a request and its response
for the log, the audit log and the metrics."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from lakeport.server.catalog.model import Recipient, Table

Scope: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

JSON = b"application/json; charset=utf-8"
NDJSON = b"application/x-ndjson; charset=utf-8"

_ENCODER = msgspec.json.Encoder()


class Replying(Protocol):
    """A response that sends itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Reply:
    """A response with its body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Sequence[Header], body: bytes = b"") -> None:
        self.status, self.body = status, body
        self.headers = [*headers, (b"content-length", str(len(body)).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        # A response to HEAD has a Content-Length but no body.
        body = b"" if scope["method"] == "HEAD" else self.body
        await send({"type": "http.response.body", "body": body, "more_body": False})


def json_reply(content: msgspec.Struct | dict[str, Any], status: int = 200, headers: Sequence[Header] = ()) -> Reply:
    """One line of JSON."""
    return Reply(status, [(b"content-type", JSON), *headers], _ENCODER.encode(content))


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a request header by its lower-case name; the first if there are several."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


async def disconnection(receive: Receive) -> None:
    """Wait until the client disconnects. The request body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def abort(scope: Scope) -> None:
    """Abort the connection at once, discarding its buffers."""
    cut = scope["state"].get("abort")
    if cut is not None:
        cut()


REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that the current task or worker thread handles."""

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class RequestRecord:
    """The record of a request, filled in while it is handled."""

    __slots__ = (
        "address",
        "asked",
        "bytes",
        "complete",
        "details",
        "error",
        "files",
        "method",
        "operation",
        "path",
        "received",
        "recipient",
        "request_id",
        "sent",
        "started",
        "status",
        "table",
    )

    def __init__(self, scope: Scope, address: str) -> None:
        self.request_id = _request_id(header(scope, b"x-request-id"))
        self.received = time.time()
        self.started = time.perf_counter()
        self.method: str = scope["method"]
        self.path = _logged_path(scope)
        self.address = address
        self.operation = "other"
        self.recipient: Recipient | None = None
        self.asked: str | None = None
        """The name of the requested table, whether it exists or not."""
        self.table: Table | None = None
        self.details: dict[str, Any] = {}
        self.files = self.bytes = 0
        """The files that the response grants access to, and their total size."""
        self.status = 0
        self.sent = 0
        self.complete = False
        """Whether the last byte was handed to the connection."""
        self.error: str | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started


def record_of(scope: Scope) -> RequestRecord:
    found: RequestRecord = scope["state"]["record"]
    return found


def _logged_path(scope: Scope) -> str:
    """The path as sent, percent-encoded: a decoded one may contain spaces and so fake log fields."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if raw is None else str(raw, "latin-1")


def _request_id(given: str | None) -> str:
    """The id from the client or a proxy, if it is safe to log."""
    return given if given is not None and _SANE_ID.fullmatch(given) else uuid.uuid4().hex
