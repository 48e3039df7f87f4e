"""Requests, parsed from bodies and parameters, and validated as far as possible without the table.

Bodies that are not JSON, or have wrong types, are refused with MALFORMED_REQUEST; values that are invalid, alone or
together, with INVALID_PARAMETER_VALUE; both with status 400.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from lakeport.errors import SharingError
from lakeport.sharing.models import ChangesRequest, CredentialsRequest, QueryRequest, QueryStatusRequest, WireModel

_MOST = 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)

T = TypeVar("T", bound=WireModel)


class _SparkKey(WireModel, frozen=True, rename=None):
    """The idempotency key as Spark's client names it."""

    idempotency_key: str | None = None


def decode_query(body: bytes) -> QueryRequest:
    """The body of `POST …/query`. Raises `SharingError` (400)."""
    request = _decode(body, QueryRequest)
    if request.idempotency_key is None and b"idempotency_key" in body:
        request = msgspec.structs.replace(request, idempotency_key=_decode(body, _SparkKey).idempotency_key)
    request = _without_empty(request, "page_token", "refresh_token", "json_predicate_hints")
    _check_numbers(request, "version", "starting_version", "ending_version", "limit_hint", "max_files")
    _check_query(request)
    return request


def decode_query_status(body: bytes) -> QueryStatusRequest:
    """The body of `POST …/queries/{queryId}`. Raises `SharingError` (400)."""
    request = _without_empty(_decode(body, QueryStatusRequest), "page_token")
    _check_numbers(request, "max_files")
    return request


def decode_credentials_request(body: bytes) -> CredentialsRequest:
    """The body of `POST …/temporary-table-credentials`. Raises `SharingError` (400)."""
    return _without_empty(_decode(body, CredentialsRequest), "location")


def parse_changes_request(parameters: Mapping[str, str]) -> ChangesRequest:
    """The parameters of `GET …/changes`; unknown ones are ignored. Raises `SharingError` (400)."""
    request = ChangesRequest(
        starting_version=_parse_integer(parameters, "startingVersion"),
        starting_timestamp=parameters.get("startingTimestamp"),
        ending_version=_parse_integer(parameters, "endingVersion"),
        ending_timestamp=parameters.get("endingTimestamp"),
        include_historical_metadata=_parse_flag(parameters, "includeHistoricalMetadata"),
        include_historical_protocol=_parse_flag(parameters, "includeHistoricalProtocol"),
        max_files=_parse_integer(parameters, "maxFiles"),
        page_token=parameters.get("pageToken") or None,
    )
    _check_numbers(request, "starting_version", "ending_version", "max_files")
    _check_changes(request)
    return request


def _decode(body: bytes, kind: type[T]) -> T:
    """Decode a JSON object; no body means an empty one. Numbers may be text, as in Protobuf's JSON."""
    try:
        return msgspec.json.decode(body if body.strip() else b"{}", type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _malformed(f"the request body is invalid: {error}") from None
    except RecursionError:
        raise _malformed("the request body is nested too deeply") from None


def _without_empty(request: T, *names: str) -> T:
    """Treat empty text as None."""
    return msgspec.structs.replace(request, **{name: getattr(request, name) or None for name in names})


def _check_numbers(request: WireModel, *names: str) -> None:
    """Refuse negative numbers, 0 files, and anything beyond a 64-bit integer."""
    for name in names:
        number = getattr(request, name)
        least = 1 if name == "max_files" else 0
        if number is not None and not least <= number <= _MOST:
            raise _invalid(f"{_wire_name(name)} must be {least} or more, and less than 2^63, not {_shown(number)}")


def _check_query(request: QueryRequest) -> None:
    at = _only_one(request, "version", "timestamp", "starting_version")
    asked = (
        "refresh_token" if request.refresh_token else "include_refresh_token" if request.include_refresh_token else ""
    )
    if asked and at:
        raise _invalid(f"{_wire_name(asked)} applies only to the latest version: remove {_wire_name(at)}")
    if asked and request.page_token:
        raise _invalid(f"{_wire_name(asked)} applies only to the first page: remove pageToken")
    _check_order(request.starting_version, request.ending_version)


def _check_changes(request: ChangesRequest) -> None:
    if _only_one(request, "starting_version", "starting_timestamp") is None:
        raise _invalid("changes need a start: pass startingVersion or startingTimestamp")
    _only_one(request, "ending_version", "ending_timestamp")
    _check_order(request.starting_version, request.ending_version)


def _only_one(request: WireModel, *names: str) -> str | None:
    """Which of these parameters is set, if any."""
    found = [name for name in names if getattr(request, name) is not None]
    if len(found) > 1:
        raise _invalid(f"pass only one of {', '.join(map(_wire_name, names))}")
    return found[0] if found else None


def _check_order(start: int | None, end: int | None) -> None:
    if start is not None and end is not None and start > end:
        raise _invalid(f"startingVersion {start} is after endingVersion {end}")


def _parse_integer(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not _INTEGER.fullmatch(text.strip()):
        raise _invalid(f"{name} is not a valid number: {_shown(text)}")
    return int(text)


def _parse_flag(parameters: Mapping[str, str], name: str) -> bool:
    """True in any case, because the Python client capitalises it; anything else is false."""
    return parameters.get(name, "").strip().lower() == "true"


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _shown(value: object) -> str:
    return repr(value)[:50]


def _malformed(message: str) -> SharingError:
    return SharingError(message, status=400, code="MALFORMED_REQUEST")


def _invalid(message: str) -> SharingError:
    return SharingError(message, status=400, code="INVALID_PARAMETER_VALUE")
