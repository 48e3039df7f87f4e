"""ASGI types, and responses that are complete before the first byte is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

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
