"""Signed tokens for pages, refreshes and queries; any server with the same key can read them.

A token holds its purpose, recipient and expiry. It is not secret, but cannot be forged or changed.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import TypeVar

import msgspec

from lakeport.server.http.refusals import invalid

_SIGNATURE_BYTES = 16

T = TypeVar("T", bound=msgspec.Struct)


class _Signed(msgspec.Struct, frozen=True, array_like=True):
    expires: int
    content: msgspec.Raw


class TokenSigner:
    """Signs and verifies tokens with one key. `now` returns seconds since the epoch."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        self._key, self._now = key, now

    def sign(self, kind: str, content: msgspec.Struct, seconds: float) -> str:
        """Return a URL-safe token of this kind, valid for `seconds`."""
        body = msgspec.msgpack.encode(_Signed(int(self._now() + seconds), msgspec.Raw(msgspec.msgpack.encode(content))))
        return urlsafe_b64encode(body + self._signature(kind, body)).decode().rstrip("=")

    def read(self, kind: str, token: str, content: type[T]) -> T:
        """Raises `SharingError` (400) if the token is forged, damaged, expired or of another kind."""
        body = self._verified(kind, token)
        try:
            signed = msgspec.msgpack.decode(body, type=_Signed)
            value = msgspec.msgpack.decode(signed.content, type=content)
        except msgspec.MsgspecError as error:
            raise invalid(f"the {kind} token is not valid; start again without it") from error
        if signed.expires < self._now():
            raise invalid(f"the {kind} token has expired; start again without it")
        return value

    def _verified(self, kind: str, token: str) -> bytes:
        try:
            data = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:  # not ASCII, not base64
            data = b""
        body, signature = data[:-_SIGNATURE_BYTES], data[-_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(kind, body)):
            raise invalid(f"the {kind} token was not issued by this server; start again without it")
        return body

    def _signature(self, kind: str, body: bytes) -> bytes:
        return hmac.digest(self._key, f"{kind} token:".encode() + body, hashlib.sha256)[:_SIGNATURE_BYTES]
