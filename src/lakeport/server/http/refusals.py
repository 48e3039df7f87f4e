"""Maps failures to a status, a code and a message that reveals nothing about the provider's storage."""

from __future__ import annotations

import logging
import re

from litestar.exceptions import HTTPException

from lakeport.errors import (
    AccessDeniedError,
    ChangeFeedError,
    CorruptTableError,
    InvalidFilterError,
    LakeportError,
    MissingFileError,
    SharingError,
    StorageError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnusableStorageError,
    VersionNotFoundError,
)
from lakeport.server.http.asgi import Header, Reply, RequestRecord, json_reply
from lakeport.sharing.models import ErrorBody

_log = logging.getLogger(__name__)

_UNREADABLE = (
    "files of the table are missing, or the server has no access to them: ask the provider of the share to check"
)
_DAMAGED = "the log of the table is damaged: ask the provider of the share to check"

# The first matching type wins; without a message, the error's own is used, minus locations.
_REFUSALS: tuple[tuple[type[LakeportError], int, str, str | None], ...] = (
    (VersionNotFoundError, 400, "INVALID_PARAMETER_VALUE", None),
    (ChangeFeedError, 400, "INVALID_PARAMETER_VALUE", None),
    (InvalidFilterError, 400, "INVALID_PARAMETER_VALUE", None),
    (UnknownColumnError, 400, "INVALID_PARAMETER_VALUE", None),
    (TableNotFoundError, 400, "RESOURCE_DOES_NOT_EXIST", _UNREADABLE),
    (MissingFileError, 400, "RESOURCE_DOES_NOT_EXIST", _UNREADABLE),
    (AccessDeniedError, 400, "RESOURCE_DOES_NOT_EXIST", _UNREADABLE),
    (UnusableStorageError, 400, "RESOURCE_DOES_NOT_EXIST", _UNREADABLE),
    (CorruptTableError, 400, "RESOURCE_DOES_NOT_EXIST", _DAMAGED),
)
_PROVIDERS_FAULT = (TableNotFoundError, CorruptTableError, StorageError, UnsupportedFeatureError)
"""Logged for the provider even if they are refused."""
_CODES = {
    400: "MALFORMED_REQUEST",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    405: "METHOD_NOT_ALLOWED",
    408: "REQUEST_TIMEOUT",
    413: "REQUEST_TOO_LARGE",
    429: "RATE_LIMIT_EXCEEDED",
}
_MESSAGES = {
    404: "no such API; the API is described at {endpoint}/docs",
    405: "this API does not support the method {method}",
    413: "the request body is too large",
}
_LOCATION = re.compile(r"\s*\[[^\[\]]*\]")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s,;)\]'\"]+", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w/])/(?:[^\s/,;:)\]'\"]+/)+[^\s,;:)\]'\"]*")


class Refusal(SharingError):  # noqa: N818  # a response more than an error
    """A refusal with extra headers."""

    def __init__(self, message: str, *, status: int, code: str, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(message, status=status, code=code)
        self.headers = headers


def invalid(message: str) -> Refusal:
    """The refusal of an invalid parameter."""
    return Refusal(message, status=400, code="INVALID_PARAMETER_VALUE")


def not_found(message: str) -> Refusal:
    return Refusal(message, status=404, code="RESOURCE_DOES_NOT_EXIST")


def too_many(message: str, seconds: int) -> Refusal:
    """`seconds` is how long the client should wait."""
    retry = ((b"retry-after", str(seconds).encode()),)
    return Refusal(message, status=429, code="RATE_LIMIT_EXCEEDED", headers=retry)


def unavailable(message: str, *headers: Header) -> Refusal:
    return Refusal(message, status=503, code="TEMPORARILY_UNAVAILABLE", headers=headers)


def refusal_of(error: BaseException, record: RequestRecord, endpoint: str) -> SharingError:
    """Convert a failure to a refusal. Errors that are not the recipient's fault are logged with their cause."""
    if isinstance(error, SharingError):
        return error
    if isinstance(error, HTTPException):
        return _of_framework(error, record, endpoint)
    if isinstance(error, _PROVIDERS_FAULT):
        _log.error("%s %s: %s", record.method, record.path, error)
    if isinstance(error, UnsupportedFeatureError):
        return _unreadable_version(error)
    for kind, status, code, message in _REFUSALS:
        if isinstance(error, kind):
            return SharingError(message or without_locations(str(error)), status=status, code=code)
    if not isinstance(error, _PROVIDERS_FAULT):
        _log.error("%s %s failed", record.method, record.path, exc_info=error)
    return _internal(record)


def error_reply(refusal: SharingError) -> Reply:
    """The response with the protocol's JSON body."""
    headers = refusal.headers if isinstance(refusal, Refusal) else ()
    return json_reply(ErrorBody(error_code=refusal.code, message=str(refusal)), refusal.status, headers)


def without_locations(message: str) -> str:
    """Remove locations from a message: they are private to the provider."""
    return _PATH.sub("…", _URL.sub("…", _LOCATION.sub("", message)))


def _unreadable_version(error: UnsupportedFeatureError) -> SharingError:
    message = (
        f"the server cannot read this version of the table, which needs {', '.join(error.features)}: ask the provider "
        "of the share to check, or read an older version"
    )
    return SharingError(message, status=400, code="UNSUPPORTED_OPERATION")


def _internal(record: RequestRecord) -> SharingError:
    message = f"the server failed; its provider can find the reason in the log, under request id {record.request_id}"
    return SharingError(message, status=500, code="INTERNAL_ERROR")


def _of_framework(error: HTTPException, record: RequestRecord, endpoint: str) -> SharingError:
    """Convert errors of the router and the body reader."""
    if error.status_code >= 500:
        _log.error("%s %s failed", record.method, record.path, exc_info=error)
        return _internal(record)
    message = _MESSAGES.get(error.status_code, error.detail).format(endpoint=endpoint, method=record.method)
    allow = (error.headers or {}).get("allow")
    return Refusal(
        message,
        status=error.status_code,
        code=_CODES.get(error.status_code, "MALFORMED_REQUEST"),
        headers=((b"allow", allow.encode()),) if allow else (),
    )
