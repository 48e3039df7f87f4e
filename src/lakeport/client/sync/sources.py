"""A shared table as a sync needs it, by signed URLs or in its own directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from lakeport.client.opening import AccessMode
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync.plan import Wanted, name_of
from lakeport.client.tables.by_directory import DirectoryStorage
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.local_log import LineReader
from lakeport.engine import engine_over
from lakeport.errors import ChangeFeedError, SharingError, VersionNotFoundError
from lakeport.kernel.actions import Add, Remove
from lakeport.kernel.changes import CommitRange, TableChanges, table_changes
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.log import FileColumns
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.sharing.models import QueryRequest
from lakeport.sharing.names import TableName
from lakeport.source import LATEST, At


@dataclass(frozen=True)
class SharedVersion:
    """One version, and the storage to read its files from."""

    snapshot: Snapshot
    is_last: bool

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def storage(self) -> StorageClient:
        return self.snapshot.engine.storage

    @cached_property
    def files(self) -> list[Wanted]:
        found = self.snapshot.scan_builder().with_log_details().build().files()
        return [Wanted(file, self.snapshot.root) for file in found]


@dataclass(frozen=True)
class ChangeFiles:
    """The files of a version's changed rows, and the storage to read them from."""

    files: list[Wanted]
    storage: StorageClient


class SyncSource(Protocol):
    """A shared table. All methods raise `SharingError` and `StorageError`."""

    access: AccessMode

    @property
    def name(self) -> TableName: ...

    def check(self) -> None:
        """Raises `SharingError` if the provider does not offer this access mode."""

    def head(self) -> Snapshot:
        """The latest version, possibly without its files."""

    def versions(self, last: int, latest: int) -> Iterator[SharedVersion]:
        """The versions after `last`, as far as their history is shared and available, then the latest."""

    def at(self, version: int) -> SharedVersion:
        """A version that was the latest; without shared history, the current latest."""

    def changed_names(self, first: int, last: int) -> frozenset[str] | None:
        """The names of files that added or removed rows between two versions; None if unknown."""

    def change_files(self, version: int) -> ChangeFiles | None:
        """The files that the provider's writer made for a version's changed rows; None if there are none."""


def _change_files(feed: TableChanges) -> ChangeFiles | None:
    """The files of a feed that were written for it."""
    found = feed.scan_builder().build().files()
    files = [Wanted(change.file, feed.root) for change in found if change.change_type is None]
    return ChangeFiles(files, feed.engine.storage) if files else None


_REFUSED = (400, 404)
"""Statuses for versions that a server does not share or no longer has."""


class UrlSource:
    """A `SyncSource` of files by signed URLs, for the versions that the server reports.

    Prefers the delta format: the other has less information."""

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
            logged = list(LineReader(answer.response_format, str(self.name)).read(answer.lines()))
        except SharingError as error:
            if error.status not in _REFUSED:
                raise
            return None
        return frozenset(
            name_of(resolve_path("", one.action.path), "") for one in logged if isinstance(one.action, Add | Remove)
        )

    def change_files(self, version: int) -> ChangeFiles | None:
        try:
            return _change_files(SharedTable(self._server, self.name).changes(At(version), At(version)))
        except (ChangeFeedError, VersionNotFoundError):
            return None
        except SharingError as error:
            if error.status not in _REFUSED:
                raise
            return None


class DirectorySource:
    """A `SyncSource` of the table's own log and files, read with temporary credentials.

    `storage_options` are obstore's, without the credentials."""

    access: AccessMode = "dir"

    def __init__(self, server: SharingServer, name: TableName, storage_options: Mapping[str, Any]) -> None:
        self.name = name
        self._storage = DirectoryStorage(server, name, storage_options)

    def check(self) -> None:
        _ = self._table  # asks for credentials

    @cached_property
    def _table(self) -> Table:
        return Table.for_path(engine_over(self._storage), self._storage.location)

    def head(self) -> Snapshot:
        return self._table.latest_snapshot()

    def versions(self, last: int, latest: int) -> Iterator[SharedVersion]:
        version = last + 1
        while version < latest:
            found = self._at_or_after(version)
            if found.version >= latest:
                break
            yield found
            version = found.version + 1
        yield self.at(latest)

    def at(self, version: int) -> SharedVersion:
        return SharedVersion(self._table.snapshot_at_version(version), is_last=True)

    def _at_or_after(self, version: int) -> SharedVersion:
        """A version, or the first one after it whose log has not been cleaned up."""
        try:
            return SharedVersion(self._table.snapshot_at_version(version), is_last=False)
        except VersionNotFoundError as error:
            if error.earliest is None or error.earliest <= version:
                raise
            return self._at_or_after(error.earliest)

    def changed_names(self, first: int, last: int) -> frozenset[str] | None:
        root, snapshot = self._table.root, self._table.snapshot_at_version(last)
        try:
            commits = CommitRange.until(snapshot, first)
        except VersionNotFoundError:
            return None
        read = (commits.read_changes(version, FileColumns()) for version in commits.versions)
        columns = (files.field("path") for commit in read for files in (*commit.adds, *commit.removes))
        return frozenset(name_of(resolve_path(root, uri), root) for uris in columns for uri in uris.to_pylist())

    def change_files(self, version: int) -> ChangeFiles | None:
        try:
            return _change_files(table_changes(self._table, version, version))
        except (ChangeFeedError, VersionNotFoundError):
            return None
