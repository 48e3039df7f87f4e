"""The versions of a shared table, in order, as far as the server reports them."""

from __future__ import annotations

from collections.abc import Iterator

from lakeport.client.opening import AccessMode
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync.names import name_of
from lakeport.client.sync.source import ChangeFiles, SharedVersion, change_files_in
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.local_log import LineReader
from lakeport.errors import ChangeFeedError, SharingError, VersionNotFoundError
from lakeport.kernel.actions import Add, Remove
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.models import QueryRequest
from lakeport.sharing.names import TableName
from lakeport.source import LATEST, At

_REFUSED = (400, 404)
"""Statuses for versions that a server does not share or no longer has."""


class UrlSource:
    """A `SyncSource` of files by signed URLs. Prefers the delta format: the other has less information."""

    access: AccessMode = "url"

    def __init__(self, server: SharingServer, name: TableName) -> None:
        self._server, self.name = server, name

    def check(self) -> None:
        self.head()

    def head(self) -> Snapshot:
        return SharedTable(self._server, self.name).head(LATEST)

    def versions(self, last: int, latest: int) -> Iterator[SharedVersion]:
        for version in range(last + 1, latest):
            if (found := self._at(version, is_last=False)) is not None:
                yield found
            elif not self._shares_history(latest):
                break
        yield self.at(latest)

    def at(self, version: int) -> SharedVersion:
        """A version; without shared history, the latest, which may be a later one by now."""
        return self._at(version, is_last=True) or self.latest()

    def latest(self) -> SharedVersion:
        snapshot = SharedTable(self._server, self.name).snapshot(LATEST)
        return SharedVersion(snapshot, is_last=True)

    def _at(self, version: int, *, is_last: bool) -> SharedVersion | None:
        # One table per version, so that its files and URLs are released with it.
        try:
            snapshot = SharedTable(self._server, self.name).snapshot(At(version))
        except SharingError as error:
            if error.status not in _REFUSED:
                raise
            return None
        return SharedVersion(snapshot, is_last)

    def _shares_history(self, latest: int) -> bool:
        return self._at(latest, is_last=True) is not None

    def changed_names(self, first: int, last: int) -> frozenset[str] | None:
        request = QueryRequest(starting_version=first, ending_version=last)
        try:
            answer = self._server.query(self.name, request)
            told = list(LineReader(answer.response_format, str(self.name)).read(answer.lines()))
        except SharingError as error:
            if error.status not in _REFUSED:
                raise
            return None
        return frozenset(
            name_of(resolve_path("", one.action.path), "") for one in told if isinstance(one.action, Add | Remove)
        )

    def change_files(self, version: int) -> ChangeFiles | None:
        try:
            feed = SharedTable(self._server, self.name).changes(At(version), At(version))
            return change_files_in(feed, feed.scan_builder().build().files())
        except (ChangeFeedError, VersionNotFoundError):
            return None
        except SharingError as error:
            if error.status not in _REFUSED:
                raise
            return None
