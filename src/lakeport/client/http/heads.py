"""Connections that detect truncated response heads.

`http.client` ends the head where the connection ends, even within a number: version 12 without its last digit would be
version 1.
"""

from __future__ import annotations

import http.client
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection


class _WholeLines:
    """The connection, as `http.client` reads the head: by lines. A partial line raises `RemoteDisconnected`."""

    def __init__(self, incoming: Any) -> None:
        self._incoming = incoming

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._incoming.readline(limit)
        if not line.endswith(b"\n") and len(line) != limit:
            raise http.client.RemoteDisconnected("the connection ended within the head of the answer")
        return line

    def close(self) -> None:
        self._incoming.close()


class _Response(http.client.HTTPResponse):
    def begin(self) -> None:
        incoming = self.fp
        self.fp = _WholeLines(incoming)  # type: ignore[assignment]  # all that is used of it
        try:
            super().begin()
        finally:
            if self.fp is not None:  # a response without a body closes it
                self.fp = incoming


class _HttpConnection(HTTPConnection):
    response_class = _Response


class _HttpsConnection(HTTPSConnection):
    response_class = _Response


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def read_whole_heads(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Make the manager use these connections, and return it."""
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager
