"""Renew the URLs of a response's files. Renewals are picklable, so another process can renew by itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakeport.client.rest.answers import TableAnswer
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.local_log import LineReader
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import SharingError
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.sharing.names import TableName


class SnapshotRenewal:
    """Requests the files of a version. Each response has the token for the next request."""

    def __init__(self, server: SharingServer, name: TableName, request: QueryRequest, version: int) -> None:
        self._server, self._name, self._request, self._version = server, name, request, version

    def __call__(self) -> Mapping[str, SignedUrl]:
        """Raises `SharingError` if the server no longer has the version."""
        answer = self._server.query(self._name, self._request)
        check_version(answer.version, self._version, self._name)
        urls = _urls(answer, self._name)
        if answer.end is not None and answer.end.refresh_token:
            self._request = msgspec.structs.replace(self._request, refresh_token=answer.end.refresh_token)
        return urls


class ChangesRenewal:
    """Requests the change files between two versions."""

    def __init__(self, server: SharingServer, name: TableName, request: ChangesRequest) -> None:
        self._server, self._name, self._request = server, name, request

    def __call__(self) -> Mapping[str, SignedUrl]:
        return _urls(self._server.changes(self._name, self._request), self._name)


def check_version(found: int, wanted: int, name: TableName) -> None:
    """Raises `SharingError` if a response is for another version than the one being read."""
    if found != wanted:
        raise version_changed(found, wanted, name)


def version_changed(found: int, wanted: int, name: TableName) -> SharingError:
    message = f"this reads version {wanted} of {name}, but the server now serves version {found}; scan the table again"
    return SharingError(message, status=409, code="VERSION_CHANGED")


def _urls(answer: TableAnswer, name: TableName) -> Mapping[str, SignedUrl]:
    reader = LineReader(answer.response_format, str(name))
    for _ in reader.read(answer.lines()):
        pass
    return reader.urls
