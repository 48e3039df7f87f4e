"""Error responses of a server as exceptions."""

from __future__ import annotations

import re

import msgspec

from lakeport.client.http.answer import HttpAnswer
from lakeport.errors import AuthenticationError, PermissionDeniedError, SharingError

INVALID_ANSWER = "INVALID_ANSWER"
"""The code for errors that the client detects in a response."""

_MOST_BYTES = 64 * 1024
_MOST_CHARACTERS = 1000
_SECRETS = re.compile(r"(https?://[^\s?\"']+)\?[^\s\"']+|\b(Bearer|Basic)\s+[\w.~+/=-]{16,}", re.IGNORECASE)

_ADVICE = {
    401: "the token is wrong or has expired: ask the provider for a new profile",
    403: "ask the provider for access",
    404: "check the name, and that it is shared with you",
}


class _Body(msgspec.Struct, frozen=True):
    errorCode: str | None = None  # noqa: N815  # as on the wire
    message: str | None = None


def refusal(answer: HttpAnswer, about: str = "") -> SharingError:
    """The error for a response; reads its body. `about` names what was requested."""
    body = _read_body(answer)
    code = body.errorCode or f"HTTP_{answer.status}"
    where = f"{answer.server} rejected the request for {about}" if about else f"{answer.server} rejected the request"
    return sharing_error(where, answer.status, code, body.message or "")


def sharing_error(where: str, status: int, code: str, message: str) -> SharingError:
    """The error for a status: what happened, where, the server's message, and what to do."""
    kind = {401: AuthenticationError, 403: PermissionDeniedError}.get(status, SharingError)
    said = f": {without_secrets(message)}" if message else ""
    advice = f"; {_ADVICE[status]}" if status in _ADVICE else ""
    return kind(f"{where} with {status} {code}{said}{advice}", status=status, code=code)


def invalid_answer(server: str, about: str, problem: str) -> SharingError:
    """A response with a success status but invalid content."""
    return SharingError(
        f"{server} sent an invalid response about {about}: {problem}; tell the provider",
        status=200,
        code=INVALID_ANSWER,
    )


def without_secrets(text: str) -> str:
    """A server's message without signatures and tokens, and not too long."""
    shown = _SECRETS.sub(lambda match: f"{match[1]}?…" if match[1] else f"{match[2]} …", text)
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}…"


def _read_body(answer: HttpAnswer) -> _Body:
    """The protocol's error body, or the beginning of other text; nothing of an HTML page."""
    try:
        content = answer.beginning(_MOST_BYTES)
    except SharingError:  # truncated or not decompressible: the status is enough
        return _Body()
    try:
        return msgspec.json.decode(content, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if not answer.headers.get("content-type", "").lower().startswith("text/plain"):
        return _Body()
    return _Body(message=content.decode("utf-8", "replace").strip())
