"""`sync_table`: create or update a copy of a shared table.

The files of a version are fetched first; then one commit adds the version to the copy. However a sync ends, the copy is
at a complete version, and the next sync continues from there with the files already present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeport.client.opening import AccessMode, ClientOptions, open_server, read_first_offered
from lakeport.client.rest.server import SharingServer
from lakeport.client.sync.destination import Arrived, Destination
from lakeport.client.sync.fetch import Fetcher, Progress
from lakeport.client.sync.plan import VersionPlan, plan_version, planned_files
from lakeport.client.sync.sources import DirectorySource, SharedVersion, SyncSource, UrlSource
from lakeport.client.sync.verify import find_lost, verify_copy
from lakeport.engine import default_engine
from lakeport.errors import AuthenticationError, MissingFileError, SharingError, SyncError, UnavailableError
from lakeport.kernel.actions import AddCdc
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED
from lakeport.kernel.engine import Engine
from lakeport.kernel.paths import parse_target
from lakeport.kernel.write import CHANGE_DIRECTORY
from lakeport.sharing.names import TableName, parse_table_url
from lakeport.workers import Workers, open_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_ATTEMPTS = 10
"""How often to try, when the latest version changes while URLs have to be renewed."""


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """`version` is the copy's; -1 if there is no copy, as before the first sync in a dry run."""

    version: int
    source_version: int
    """The version of the shared table that the copy has, or would have."""
    commits: int = 0
    """The number of versions added to the copy."""
    added_files: int = 0
    removed_files: int = 0
    """No longer in the table; their bytes stay until a vacuum, for older versions."""
    fetched_files: int = 0
    """Data files, of rows and changes, that were not present already."""
    fetched_bytes: int = 0
    verified_files: int | None = None
    """The number of data files found equal to those of the share."""
    dry_run: bool = False


def sync_table(
    target: str,
    dest: str,
    *,
    full: bool = False,
    squash: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    client: ClientOptions = ClientOptions(),  # noqa: B008  # frozen
    spark: SparkSession | None = None,
) -> SyncResult:
    """Create or update the Delta table at `dest`, a path or URL, as a copy of the shared table
    `profile#share.schema.table`. Copies data files and deletion vectors byte for byte; schema, partitioning, properties
    and protocol follow. The first sync adds a single version. If the history is shared, later syncs add one version,
    with its timestamp, per provider version. Otherwise, or with `squash`, they add a single version. Files removed from
    the share are removed from the table; their bytes stay, for older versions, until a vacuum.

    `full` resets the copy to what the share has now, even if others changed the copy or the shared table was replaced;
    lost files are fetched again. `verify` compares all files with the share, byte for byte. `dry_run` writes nothing.
    `progress` receives bytes. `storage_options` are obstore's, for `dest`; `client` sets how to read the share: a table
    offered only by directory, or with `access="dir"`, is copied from there. With a `spark` session, its tasks copy the
    files, with the same result; this process talks to the server and commits.

    Raises `SyncError` if the copy cannot be updated or differs from the share, `SharingError`, `StorageError`, and
    `CommitConflictError` if another writer changes the copy meanwhile."""
    url = parse_table_url(parse_target(target))
    with open_server(url.profile, replace(client, formats=("delta",))) as server:
        destination = Destination(engine or default_engine(storage_options), parse_target(dest))
        return sync_from(
            _open_source(server, url.name, client, destination.synced_access),
            destination,
            full=full,
            squash=squash,
            verify=verify,
            dry_run=dry_run,
            progress=progress,
            workers=open_workers(destination.engine, spark),
        )


def _open_source(server: SharingServer, name: TableName, client: ClientOptions, known: AccessMode) -> SyncSource:
    """The table by the chosen access mode; otherwise by `known`, the last sync's mode, if still offered: the other mode
    names files differently, so everything would be fetched again. Raises `SharingError`."""
    by_urls, by_directory = UrlSource(server, name), DirectorySource(server, name, client.storage_options)
    if client.access is not None:
        return by_directory if client.access == "dir" else by_urls
    if known == "dir" and _gives_credentials(by_directory):
        return by_directory
    sources: tuple[SyncSource, ...] = (by_urls, by_directory)
    return read_first_offered(sources, lambda source: source.check())[0]


def _gives_credentials(source: DirectorySource) -> bool:
    try:
        source.check()
    except (AuthenticationError, UnavailableError):
        raise
    except SharingError:
        return False
    return True


def sync_from(
    source: SyncSource,
    destination: Destination,
    *,
    full: bool = False,
    squash: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> SyncResult:
    """`sync_table` for an opened table and copy; threads copy the files unless there are workers."""
    run = _Run(source, destination, Fetcher(destination.engine.storage, destination.root, progress, workers))
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        try:
            return run.run(full, squash, verify, dry_run)
        except SharingError as error:
            if error.code != "VERSION_CHANGED" or attempt == _MOST_ATTEMPTS:
                raise
    raise AssertionError


class _Run:
    def __init__(self, source: SyncSource, destination: Destination, fetcher: Fetcher) -> None:
        self._source, self._destination, self._fetcher = source, destination, fetcher
        self._table = str(source.name)
        self._commits = self._added = self._removed = 0
        self._continues = True
        """Whether the copy is an earlier version of the shared table, so that changes since then are known."""

    def run(self, full: bool, squash: bool, verify: bool, dry_run: bool) -> SyncResult:
        head = self._source.head()
        self._destination.check(head, self._table, full=full)
        known = None if full else self._destination.synced_version
        versions = iter(()) if known == head.version else self._versions(None if squash else known, head.version)
        self._continues = not full
        last = self._plan_all(versions) if dry_run else self._copy_all(versions)
        verified = None
        if verify and not dry_run:
            last = last or self._source.at(head.version)
            verified = self._verify(last)
        return self._result(last.version if last else head.version, verified, dry_run)

    def _verify(self, shared: SharedVersion) -> int:
        destination = self._destination
        if not self._names_stay:
            raise SyncError(
                f"the copy was made in the other access mode: pass access={destination.synced_access!r} to verify it "
                f"[{destination.root}]"
            )
        return verify_copy(
            destination.engine.storage, destination.root, destination.live(), shared.storage, shared.files
        )

    def _versions(self, known: int | None, latest: int) -> Iterator[SharedVersion]:
        if known is None:
            yield self._source.at(latest)
        else:
            yield from self._source.versions(known, latest)

    def _copy_all(self, versions: Iterator[SharedVersion]) -> SharedVersion | None:
        """Copy the versions; return the last one, if any."""
        shared = None
        for shared in versions:
            try:
                self._copy(shared)
            except MissingFileError:
                if shared.is_last:
                    raise
                # The provider has vacuumed this version's files: its changes come with a later one.
        return shared

    def _copy(self, shared: SharedVersion) -> None:
        plan = self._plan(shared)
        before = self._destination.synced_version if self._continues and self._names_stay else None
        paths = self._fetcher.fetch(plan, shared.storage)
        changes = self._changes(shared, before)
        changed = None if before is None else self._source.changed_names(before + 1, shared.version)
        arrived = Arrived(plan, paths, changed, changes)
        self._destination.commit(shared.snapshot, self._table, self._source.access, arrived)
        self._count(len(plan.added), len(plan.removed))

    @property
    def _names_stay(self) -> bool:
        """Whether the copy's files are named like the new ones; if not, the changed files are unknown."""
        return self._destination.synced_access == self._source.access

    def _plan(self, shared: SharedVersion) -> VersionPlan:
        live = self._destination.live()
        lost = frozenset() if self._continues else find_lost(self._destination.engine.storage, live.values())
        return plan_version(live, shared.files, lost)

    def _changes(self, shared: SharedVersion, before: int | None) -> list[AddCdc]:
        """The version's change data, if it is the next one."""
        if before is None or before + 1 != shared.version or not ENABLE_CHANGE_DATA_FEED.of(shared.snapshot.properties):
            return []
        found = self._source.change_files(shared.version)
        if found is None:
            return []
        try:
            paths = self._fetcher.fetch_changes(found.files, found.storage, CHANGE_DIRECTORY)
        except MissingFileError:  # vacuumed: added and removed files show the changes too, if less exactly
            return []
        return [
            AddCdc(
                path=paths[one.name],
                partition_values=one.file.partition_values,
                size=one.file.size,
                data_change=False,
            )
            for one in found.files
        ]

    def _plan_all(self, versions: Iterator[SharedVersion]) -> SharedVersion | None:
        """Like `_copy_all`, without doing it."""
        shared, live = None, self._destination.live()
        for shared in versions:
            plan = plan_version(live, shared.files)
            self._fetcher.expect(plan)
            self._count(len(plan.added), len(plan.removed))
            live = planned_files(shared.files)
        return shared

    def _count(self, added: int, removed: int) -> None:
        self._commits, self._added, self._removed = self._commits + 1, self._added + added, self._removed + removed

    def _result(self, source_version: int, verified: int | None, dry_run: bool) -> SyncResult:
        return SyncResult(
            version=self._destination.version,
            source_version=source_version,
            commits=self._commits,
            added_files=self._added,
            removed_files=self._removed,
            fetched_files=self._fetcher.files,
            fetched_bytes=self._fetcher.bytes,
            verified_files=verified,
            dry_run=dry_run,
        )
