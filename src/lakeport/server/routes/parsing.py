"""Parse requests: parameters, body, recipient and table."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from litestar import Request
from litestar.exceptions import InternalServerException

from lakeport.server.answers.table_request import TableRequest
from lakeport.server.http.asgi import Scope, header, record_of
from lakeport.server.http.refusals import Refusal, invalid, unavailable
from lakeport.server.services import services_of
from lakeport.sharing.capabilities import parse_capabilities

HttpRequest: TypeAlias = Request[Any, Any, Any]

CAPABILITIES = b"delta-sharing-capabilities"
FILE_ID_HASH = b"fileidhash"

_MOST_PARAMETERS = 100
_HASHES = ("parquet", "delta")


def scope_of(request: HttpRequest) -> Scope:
    return request.scope  # type: ignore[return-value]  # a dict with known keys


def query_parameters(scope: Scope) -> dict[str, str]:
    """The query parameters; the last one wins if repeated. Raises `SharingError` (400) if there are too many."""
    text = scope["query_string"]
    if not text:
        return {}
    try:
        return dict(parse_qsl(str(text, "latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise invalid(f"the request has more than {_MOST_PARAMETERS} parameters") from None


async def read_body(request: HttpRequest) -> bytes:
    """Read the body. Raises `Refusal`: 408 if it does not arrive in time, 400 if the connection closes first."""
    seconds = services_of(scope_of(request)).config.limits.body_seconds
    try:
        async with asyncio.timeout(seconds):
            return await request.body()
    except TimeoutError:
        message = f"the request body did not arrive within {seconds:g} s"
        close = ((b"connection", b"close"),)
        raise Refusal(message, status=408, code="REQUEST_TIMEOUT", headers=close) from None
    except InternalServerException:  # the framework's name for it
        message = "the connection was closed within the request body"
        raise Refusal(message, status=400, code="MALFORMED_REQUEST") from None


def open_table_request(scope: Scope, operation: str) -> TableRequest:
    """Authenticate a request and find its table. Raises `SharingError`: 401, 403, 404, 429; 400 for bad headers."""
    services, record = services_of(scope), record_of(scope)
    record.operation = operation
    names = [scope["path_params"][name] for name in ("share", "schema", "table")]
    record.asked = ".".join(names)
    found = services.view(scope).table(*names)
    record.table = found
    assert record.recipient is not None
    return TableRequest(
        table=found,
        recipient=record.recipient,
        capabilities=parse_capabilities(header(scope, CAPABILITIES)),
        public_url=services.public_url(scope),
        file_id_hash=parse_file_id_hash(header(scope, FILE_ID_HASH)),
    )


def parse_file_id_hash(text: str | None) -> str | None:
    """The format of the requested file ids. Raises `SharingError` (400)."""
    if text is None:
        return None
    value = text.strip().lower()
    if value not in _HASHES:
        raise invalid(f"the header fileidhash must be one of {', '.join(_HASHES)}, not {text[:100]!r}")
    return value


def parse_version(text: str | None) -> int | None:
    """Raises `SharingError` (400) for an invalid version."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise invalid(f"version must be a number, 0 or more, not {text[:100]!r}")
    return int(text)


def too_slow(seconds: float) -> Refusal:
    return unavailable(
        f"the response was not ready within {seconds:g} s; retry with a smaller request (maxFiles, a predicate, fewer "
        "versions), or with the capability asyncquery=true"
    )
