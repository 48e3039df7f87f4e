"""The words of ASGI, and answers that are whole before the first byte is sent."""

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
    """An answer that sends itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Reply:
    """An answer with its body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Sequence[Header], body: bytes = b"") -> None:
        self.status, self.body = status, body
        self.headers = [*headers, (b"content-length", str(len(body)).encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        # The body of an answer to HEAD is told by its length only.
        body = b"" if scope["method"] == "HEAD" else self.body
        await send({"type": "http.response.body", "body": body, "more_body": False})


def json_reply(content: msgspec.Struct | dict[str, Any], status: int = 200, headers: Sequence[Header] = ()) -> Reply:
    """One line of JSON."""
    return Reply(status, [(b"content-type", JSON), *headers], _ENCODER.encode(content))


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a request header by its lower-case name; of several, the first."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


async def disconnection(receive: Receive) -> None:
    """Returns when the client has gone away. The body of the request must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def abort(scope: Scope) -> None:
    """Cuts the connection off at once, with what is still in its buffers."""
    cut = scope["state"].get("abort")
    if cut is not None:
        cut()
