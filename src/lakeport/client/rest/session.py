"""Requests to a profile's server: authorized, retried, with clear errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from lakeport.client.auth import authorization
from lakeport.client.http.answer import HttpAnswer
from lakeport.client.http.connections import origin_of
from lakeport.client.http.error_responses import INVALID_ANSWER, invalid_answer, refusal
from lakeport.client.http.limits import PAGE_BYTES
from lakeport.client.http.pool import HttpPool
from lakeport.client.rest.answers import Page, Pending, receive_page
from lakeport.errors import AuthenticationError, SharingError, UnavailableError
from lakeport.sharing.models import WireModel
from lakeport.sharing.names import TableName
from lakeport.sharing.profile import Profile

_JSON = {"content-type": "application/json; charset=utf-8"}

T = TypeVar("T")


class Session:
    """A profile and the connections to its server. Paths are relative to the endpoint; `about` names the subject in
    messages. All methods raise `SharingError` unless the request succeeds. Thread-safe."""

    def __init__(self, profile: Profile, http: HttpPool) -> None:
        self.http = http
        self.host = str(origin_of(profile.endpoint))
        self._endpoint = profile.endpoint
        self._authorization = authorization(profile, http)

    def json(
        self,
        method: str,
        path: str,
        kind: type[T],
        about: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: WireModel | None = None,
    ) -> T:
        """The response body, decoded as one object."""
        return self.receive(method, path, partial(_decode, kind, about), about, parameters=parameters, body=body)

    def page(
        self,
        method: str,
        path: str,
        about: str,
        *,
        capabilities: Mapping[str, str],
        parameters: Mapping[str, str] | None = None,
        body: WireModel | None = None,
        most_bytes: int = PAGE_BYTES,
    ) -> Page | Pending:
        """A page of lines about a table."""
        read = partial(receive_page, about=about, most_bytes=most_bytes)
        return self.receive(method, path, read, about, parameters=parameters, body=body, headers=capabilities)

    def receive(
        self,
        method: str,
        path: str,
        read: Callable[[HttpAnswer], T],
        about: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: WireModel | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Send a request and return `read` of its successful response. Renews a rejected token, once."""
        url = f"{self._endpoint}/{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        content = None if body is None else msgspec.json.encode(body)
        sent = {**(headers or {}), **(_JSON if body is not None else {})}

        def send(token: str) -> T:
            authorized = {**sent, "authorization": token}
            checked = partial(_read_success, read, about)
            return self.http.receive(method, url, checked, headers=authorized, body=content, about=about)

        token = self._authorization.header()
        try:
            return send(token)
        except AuthenticationError:
            renewed = self._authorization.renewed(token)
            if renewed is None:
                raise
        return send(renewed)


def _read_success(read: Callable[[HttpAnswer], T], about: str, answer: HttpAnswer) -> T:
    with answer:
        if answer.status != 200:
            raise refusal(answer, about)
        try:
            return read(answer)
        except SharingError as error:
            if error.code != INVALID_ANSWER or answer.tells_its_length:
                raise
            # Probably truncated: without a length, that looks like the end.
            raise UnavailableError(str(error), status=0, code="CONNECTION_FAILED") from None


def _decode(kind: type[T], about: str, answer: HttpAnswer) -> T:
    try:
        content = msgspec.json.decode(answer.read(about))
        return msgspec.convert(_without_nulls(content), kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise invalid_answer(answer.server, about, "it is not valid JSON of the protocol") from None


def _without_nulls(value: Any) -> Any:
    """Treat null fields as missing."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def segment(name: str) -> str:
    """A name as one path segment. Raises `ValueError` for an invalid one."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a valid name")
    return quote(name, safe="")


def table_path(table: TableName) -> str:
    return f"shares/{segment(table.share)}/schemas/{segment(table.schema)}/tables/{segment(table.table)}"
