"""One request and its response, as recorded in the log, the audit log and the metrics."""

from __future__ import annotations

import re
import time
import uuid
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeport.server.http.asgi import Scope, header

if TYPE_CHECKING:
    from lakeport.server.catalog.model import Recipient, Table

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that the current task or worker thread handles."""

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


class Exchange:
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


def exchange_of(scope: Scope) -> Exchange:
    found: Exchange = scope["state"]["exchange"]
    return found


def _logged_path(scope: Scope) -> str:
    """The path as sent, percent-encoded: a decoded one may contain spaces and so fake log fields."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]) if raw is None else str(raw, "latin-1")


def _request_id(given: str | None) -> str:
    """The id from the client or a proxy, if it is safe to log."""
    return given if given is not None and _SANE_ID.fullmatch(given) else uuid.uuid4().hex
