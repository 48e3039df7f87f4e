"""A shared table as a frame's source: server responses, opened by the kernel, and the renewal of their URLs.

Renewals are picklable, so another process can renew by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import msgspec

from lakeport.client.rest.answers import TableAnswer
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import check_offered_by_urls
from lakeport.client.tables.file_cache import FileCache
from lakeport.client.tables.local_log import LOG, LineReader, LogLine, changes_log, snapshot_log, with_feed
from lakeport.client.tables.shared_storage import SharedStorage
from lakeport.client.tables.urls import FreshUrls
from lakeport.engine import engine_over
from lakeport.engine.storage.signing import SignedUrl
from lakeport.errors import SharingError, UnsupportedFeatureError
from lakeport.kernel.changes import ChangeFile, TableChanges, TableCommits, paths_of, table_changes
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table, to_milliseconds
from lakeport.sharing.models import ChangesRequest, QueryRequest
from lakeport.sharing.names import TableName
from lakeport.sharing.predicates import format_json_predicate
from lakeport.sharing.timestamps import format_timestamp
from lakeport.source import LATEST, At, Moment


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


@dataclass
class _Pin:
    """The first response, without files, and the token that leads back to its version, if any."""

    head: Snapshot
    refresh_token: str | None = None

    @property
    def version(self) -> int:
        return self.head.version


class SharedTable:
    """A table on a sharing server; a `lakeport.source.TableSource`."""

    prunes = True

    def __init__(self, server: SharingServer, name: TableName, cache: FileCache | None = None) -> None:
        self._server, self._name = server, name
        self._storage = SharedStorage(server.http, cache)
        self.engine = engine_over(self._storage)
        self._numbers = count()
        self._pins: dict[At, _Pin] = {}
        """The first response for each requested version; it fixes the version for all threads."""

    @property
    def target(self) -> str:
        return str(self._name)

    def head(self, at: At) -> Snapshot:
        """The protocol and metadata, without files. The first request about a table pins its version."""
        if at not in self._pins:
            self._pins.setdefault(at, _Pin(self._metadata(at)))
        return self._pins[at].head

    def _metadata(self, at: At) -> Snapshot:
        answer = self._server.metadata(self._name, version=at.version, timestamp=_format(at.timestamp))
        if at.version is not None:
            check_version(answer.version, at.version, self._name)
        reader = LineReader(answer.response_format, str(self._name))
        head = self._head(reader, answer)
        return self._open(answer.version, snapshot_log(answer.version, head, reader.read(answer.lines())))

    def snapshot(self, at: At, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        """The files left after the server's pruning by the condition; all views share one version."""
        pin = self._pins.get(at)
        hinted = None if condition is None else pin.head if pin else self._metadata(at)
        request = QueryRequest(
            version=at.version,
            timestamp=_format(at.timestamp),
            json_predicate_hints=_hints(condition, hinted),
            limit_hint=limit if condition is None else None,
            include_refresh_token=True if at == LATEST else None,
            refresh_token=pin.refresh_token if pin else None,
        )
        request, answer = self._query(request, pin) if pin else self._first_query(request, hinted)
        reader = LineReader(answer.response_format, str(self._name))
        head = self._head(reader, answer)
        log = snapshot_log(answer.version, head, reader.read(answer.lines()))
        token = answer.end.refresh_token if answer.end else None
        if pin is None:
            pin = self._pins.setdefault(at, _Pin(self._open(answer.version, snapshot_log(answer.version, head, ()))))
        if answer.version != pin.version:  # another thread has pinned it meanwhile
            return self.snapshot(at, condition, limit)
        pin.refresh_token = pin.refresh_token or token
        again = msgspec.structs.replace(request, refresh_token=token)
        return self._open(
            answer.version, log, reader.urls, SnapshotRenewal(self._server, self._name, again, answer.version)
        )

    def _first_query(self, request: QueryRequest, hinted: Snapshot | None) -> tuple[QueryRequest, TableAnswer]:
        """The response to a request, and the request. If the table has moved on, drops hints made for the columns of
        another version: they could mean something else to the server."""
        answer = self._server.query(self._name, request)
        if hinted is not None and hinted.version != answer.version:
            answer.close()
            request = msgspec.structs.replace(request, json_predicate_hints=None)
            answer = self._server.query(self._name, request)
        if request.version is not None:
            check_version(answer.version, request.version, self._name)
        return request, answer

    def _query(self, request: QueryRequest, pin: _Pin) -> tuple[QueryRequest, TableAnswer]:
        """The response to a request, and the request. If the table has moved on from the pinned version, asks for that
        version, which requires shared history. Raises `SharingError` if it is unavailable."""
        answer = self._server.query(self._name, request)
        if answer.version == pin.version:
            return request, answer
        answer.close()
        exact = msgspec.structs.replace(
            request, version=pin.version, timestamp=None, refresh_token=None, include_refresh_token=None
        )
        try:
            again = self._server.query(self._name, exact)
        except SharingError as error:
            if not 400 <= error.status < 500 or error.status in (401, 429):
                raise
            raise version_changed(answer.version, pin.version, self._name) from error
        check_version(again.version, pin.version, self._name)
        return exact, again

    def changes(self, start: At, end: At) -> TableChanges:
        request = ChangesRequest(
            starting_version=start.version,
            starting_timestamp=_format(start.timestamp),
            ending_version=end.version,
            ending_timestamp=_format(end.timestamp),
            include_historical_metadata=True,
        )
        answer = self._server.changes(self._name, request)
        reader = LineReader(answer.response_format, str(self._name))
        head = self._head(reader, answer)
        lines = list(reader.read(answer.lines()))
        if answer.response_format == "parquet":
            head, lines = [*map(with_feed, head)], [*map(with_feed, lines)]
        first = answer.version
        last = max([first, *(logged.version for logged in lines if logged.version is not None)])
        pinned = ChangesRequest(starting_version=first, ending_version=last, include_historical_metadata=True)
        renewal = ChangesRenewal(self._server, self._name, pinned)
        snapshot = self._open(last, changes_log(first, last, head, lines), reader.urls, renewal)
        return table_changes(Table.for_path(self.engine, snapshot.root), first, last)

    def history(self, snapshot: Snapshot, limit: int | None) -> Iterator[CommitInfo]:
        raise UnsupportedFeatureError(
            f"sharing servers do not expose the history of a table; read its changes instead [{self._name}]",
            features=["history of a shared table"],
        )

    def latest_version(self) -> int:
        return self._server.version(self._name)

    def version_since(self, moment: Moment) -> int:
        return self._server.version(self._name, _format(moment))

    def commits(self, start: int, end: int) -> TableCommits:
        """The commits of a version range, as the server reports them."""
        request = QueryRequest(starting_version=start, ending_version=end)
        answer = self._server.query(self._name, request)
        reader = LineReader(answer.response_format, str(self._name))
        head = self._head(reader, answer)
        log = changes_log(start, end, head, reader.read(answer.lines()))
        renewal = SnapshotRenewal(self._server, self._name, request, answer.version)
        snapshot = self._open(end, log, reader.urls, renewal)
        return TableCommits(Table.for_path(self.engine, snapshot.root), start, end)

    def forget(self, root: str) -> None:
        self._storage.forget(root)

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        return engine_over(self._storage.part(path for file in files for path in paths_of(file)))

    def _open(
        self,
        version: int,
        log: dict[str, tuple[bytes, int]],
        urls: Mapping[str, SignedUrl] | None = None,
        renewed: Callable[[], Mapping[str, SignedUrl]] | None = None,
    ) -> Snapshot:
        root = f"{LOG}/{next(self._numbers)}/{self._name}"
        self._storage.add_log(root, log)
        snapshot = Table.for_path(self.engine, root).snapshot_at_version(version)
        if urls:
            table = f"{self._server.host}/{snapshot.metadata.id}"
            self._storage.add_files(urls, FreshUrls(urls, renewed or dict), table, root)
        return snapshot

    def _head(self, reader: LineReader, answer: TableAnswer) -> list[LogLine]:
        check_offered_by_urls(answer.metadata_line, self._name)
        return list(reader.read([answer.protocol_line, answer.metadata_line]))


def _hints(condition: Expression | None, head: Snapshot | None) -> str | None:
    return None if condition is None or head is None else format_json_predicate(condition, head.schema)


def _format(moment: Moment | None) -> str | None:
    """A time in the wire format."""
    return None if moment is None else format_timestamp(to_milliseconds(moment))
