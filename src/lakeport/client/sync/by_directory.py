"""The versions of a shared table in its own directory, by its own log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from lakeport.client.opening import AccessMode
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync.names import name_of
from lakeport.client.sync.source import ChangeFiles, SharedVersion, change_files_in
from lakeport.client.tables.by_directory import DirectoryStorage
from lakeport.engine import engine_over
from lakeport.errors import ChangeFeedError, VersionNotFoundError
from lakeport.kernel.changes import CommitRange, table_changes
from lakeport.kernel.log import FileColumns
from lakeport.kernel.paths import resolve_path
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.sharing.names import TableName


class DirectorySource:
    """A `SyncSource` of files read with temporary credentials. `storage_options` are obstore's, without the
    credentials."""

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
            feed = table_changes(self._table, version, version)
            return change_files_in(feed, feed.scan_builder().build().files())
        except (ChangeFeedError, VersionNotFoundError):
            return None
