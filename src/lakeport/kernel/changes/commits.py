"""A table's commits in order: the files that each one added, and whether it removed rows.

Streams follow these. Unlike the change data feed, this needs no table property, but it does not identify new rows
within a file."""

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
    """A commit's effect on the table's rows. Files that it only rearranged are left out."""

    version: int
    timestamp: int
    """Milliseconds since the epoch."""
    added: tuple[ScanFile, ...]
    removes: bool
    """Whether it also removed files, or rows through deletion vectors."""
    protocol: Protocol | None
    metadata: Metadata | None
    """The table's new metadata, if the commit has any."""


class TableCommits:
    """The commits of versions `start` to `end`."""

    def __init__(self, table: Table, start: int, end: int) -> None:
        """Raises `VersionNotFoundError` for versions that do not exist or have been cleaned up."""
        self.start, self.end, self._table = start, end, table
        self.snapshot = table.snapshot_at_version(end)
        """The snapshot at `end`."""
        self._times = self.snapshot.commit_times()
        check_commits_are_there(self._times, start, end, table.root)

    def __repr__(self) -> str:
        return f"<TableCommits of {self._table.root}, versions {self.start} to {self.end}>"

    def __iter__(self) -> Iterator[CommitFiles]:
        """Oldest first; each is read lazily, once. Raises `UnsupportedFeatureError` at a commit that makes the table
        unreadable."""
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
