"""A shared table as a sync needs it, for any access mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from lakeport.client.opening import AccessMode
from lakeport.client.sync.plan import Wanted
from lakeport.kernel.changes import ChangeFile, TableChanges
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.names import TableName


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


def change_files_in(feed: TableChanges, found: Iterable[ChangeFile]) -> ChangeFiles | None:
    """The files of a feed that were written for it."""
    files = [Wanted(change.file, feed.root) for change in found if change.change_type is None]
    return ChangeFiles(files, feed.engine.storage) if files else None
