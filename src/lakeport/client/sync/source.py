"""What a sync needs of a shared table, by whichever way its provider offers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from lakeport.client.options import AccessMode
from lakeport.client.sync.plan import Wanted
from lakeport.kernel.changes import ChangeFile, TableChanges
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.names import TableName


@dataclass(frozen=True)
class SharedVersion:
    """One version, and the storage that reads its files."""

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
    """The files of changed rows of a version, and the storage that reads them."""

    files: list[Wanted]
    storage: StorageClient


class SyncSource(Protocol):
    """A shared table. All methods raise `SharingError` and `StorageError`."""

    access: AccessMode

    @property
    def name(self) -> TableName: ...

    def head(self) -> Snapshot:
        """The latest version; its files need not be there."""

    def versions(self, last: int, latest: int) -> Iterator[SharedVersion]:
        """The versions after `last`, as far as their history is shared and still there; and the latest one."""

    def at(self, version: int) -> SharedVersion:
        """A version that was the latest; where the history is not shared, the latest one now."""

    def changed_names(self, first: int, last: int) -> frozenset[str] | None:
        """The names of the files by which rows came or went from one version to another; None if nobody tells."""

    def change_files(self, version: int) -> ChangeFiles | None:
        """The files in which the provider's writer put the rows that a version changed; None if there are none."""


def change_files_in(feed: TableChanges, found: Iterable[ChangeFile]) -> ChangeFiles | None:
    """Those of the files of a feed that were written for it."""
    files = [Wanted(change.file, feed.root) for change in found if change.change_type is None]
    return ChangeFiles(files, feed.engine.storage) if files else None
