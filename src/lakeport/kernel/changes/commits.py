"""The commits of a table, one after the other: which files each of them added, and whether it took rows away.

It is what a stream follows. Unlike the change data feed it needs nothing to be switched on, and it does not tell which
rows of a file are new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition import check_readable
from lakeport.kernel.log import check_commits_are_there, read_commit_changes, to_file_batch
from lakeport.kernel.scan import ScanFile, scan_files_in
from lakeport.kernel.snapshot import Table


@dataclass(frozen=True)
class CommitFiles:
    """What a commit did to the rows of the table. Files that it only rearranged are not told."""

    version: int
    timestamp: int
    """Milliseconds since the epoch."""
    added: tuple[ScanFile, ...]
    removes: bool
    """Whether it also removed files, or rows of them by deletion vectors."""
    protocol: Protocol | None
    metadata: Metadata | None
    """What it says of the table itself, if anything."""


class TableCommits:
    """The commits of the versions `start` to `end`."""

    def __init__(self, table: Table, start: int, end: int) -> None:
        """Raises `VersionNotFoundError` for versions that the table does not have, or no longer has."""
        self.start, self.end, self._table = start, end, table
        self.snapshot = table.snapshot_at_version(end)
        """The last of them."""
        self._times = self.snapshot.commit_times()
        check_commits_are_there(self._times, start, end, table.root)

    def __repr__(self) -> str:
        return f"<TableCommits of {self._table.root}, versions {self.start} to {self.end}>"

    def __iter__(self) -> Iterator[CommitFiles]:
        """Oldest first; each is read once, when it is asked for. Raises `UnsupportedFeatureError` at one from which on
        the table cannot be read."""
        scan = self.snapshot.scan_builder().build()
        root = self.snapshot.root
        for version in range(self.start, self.end + 1):
            commit = read_commit_changes(self.snapshot.engine, self._times, version, scan.columns)
            if commit.state.protocol is not None:
                check_readable(commit.state.protocol, root)
            batches = (scan.select(to_file_batch(actions, scan.columns, root)) for actions in commit.adds)
            yield CommitFiles(
                version=version,
                timestamp=commit.timestamp,
                added=tuple(file for batch in batches for file in scan_files_in(batch, root)),
                removes=bool(commit.removes),
                protocol=commit.state.protocol,
                metadata=commit.state.metadata,
            )
