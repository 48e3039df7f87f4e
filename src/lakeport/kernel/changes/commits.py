"""A table's commits in order: `CommitRange`, and `TableCommits` on top.

Streams follow the latter: the files that each commit added, and whether it removed rows. Unlike the change data feed,
this needs no table property, but it does not identify new rows within a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakeport.errors import VersionNotFoundError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition import check_readable
from lakeport.kernel.engine import Engine
from lakeport.kernel.log import (
    FILE_KINDS,
    CommitActions,
    CommitLines,
    CommitTimes,
    FileColumns,
    LogListing,
    is_checkpoint,
    list_newer,
    read_commit,
    to_file_batch,
)
from lakeport.kernel.scan import ScanFile, scan_files_in
from lakeport.kernel.snapshot import Snapshot, Table


class CommitRange:
    """The commits of versions `start` to `end`, listed but not read yet; none if `start` is greater."""

    def __init__(self, engine: Engine, root: str, times: CommitTimes, start: int, end: int) -> None:
        """Raises `VersionNotFoundError` if a commit of the range has been cleaned up."""
        self.engine, self.root, self.times = engine, root, times
        self.versions = range(start, end + 1)
        if missing := [version for version in self.versions if version not in times.listing.commits]:
            earliest = missing[-1] + 1 if missing[-1] < end else None
            advice = "no later commit of the range is left" if earliest is None else f"start at version {earliest}"
            raise VersionNotFoundError(
                f"the changes of version {missing[0]} are gone: its commit file has been cleaned up; {advice} [{root}]",
                version=missing[0],
                earliest=earliest,
                latest=end,
            )

    @classmethod
    def until(cls, last: Snapshot, start: int) -> CommitRange:
        """The commits from a version to a snapshot's own."""
        return cls(last.engine, last.root, last.commit_times(), start, last.version)

    @classmethod
    def after(cls, base: Snapshot, time: int | None = None) -> CommitRange:
        """All commits newer than a snapshot, found without reading them. `time` is the snapshot's commit time, if
        known: commits whose files have equal times get theirs from the ones before."""
        newer = list_newer(base.engine.storage, base.root, base.version)
        own, end = base.segment.latest_file, newer.latest or base.version
        commits = {} if is_checkpoint(own.path) else {base.version: own}
        if commits and time is not None:
            commits = {base.version: replace(own, modification_time=time)}
        listing = LogListing(commits=commits | newer.commits)
        times = CommitTimes(base.engine.storage, listing, base.metadata, base.root)
        return cls(base.engine, base.root, times, base.version + 1, end)

    @property
    def size(self) -> int:
        """The size of the commit files in bytes."""
        return sum(self.times.listing.commits[version].size for version in self.versions)

    def read(self, version: int, columns: Mapping[str, FileColumns], *, with_operation: bool = False) -> CommitActions:
        """Read a commit with the given columns of each kind of file action."""
        file = self.times.listing.commits[version]
        return read_commit(self.engine, self.root, version, file, columns, with_operation=with_operation)

    def read_changes(self, version: int, columns: FileColumns) -> CommitActions:
        """Read a commit with the file actions that changed rows."""
        return self.read(version, dict.fromkeys(FILE_KINDS, columns)).changing()

    def read_lines(self, start: int) -> Iterator[tuple[int, CommitLines]]:
        """The commits from a version on, to be decoded by lines; in order."""
        versions = range(start, self.versions.stop)
        files = [self.times.listing.commits[version] for version in versions]
        for version, file, data in zip(versions, files, self.engine.storage.read_many(files), strict=True):
            yield version, CommitLines(file.path, data)

    def time_of(self, commit: CommitActions) -> int:
        """The commit time in milliseconds since the epoch."""
        return self.times.of(commit.version, commit.info)


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
        self._commits = CommitRange.until(self.snapshot, start)

    def __repr__(self) -> str:
        return f"<TableCommits of {self._table.root}, versions {self.start} to {self.end}>"

    def __iter__(self) -> Iterator[CommitFiles]:
        """Oldest first; each is read lazily, once. Raises `UnsupportedFeatureError` at a commit that makes the table
        unreadable."""
        scan = self.snapshot.scan_builder().build()
        root = self.snapshot.root
        for version in self._commits.versions:
            commit = self._commits.read_changes(version, scan.columns)
            if commit.state.protocol is not None:
                check_readable(commit.state.protocol, root)
            batches = (scan.select(to_file_batch(actions, scan.columns, root)) for actions in commit.adds)
            yield CommitFiles(
                version=version,
                timestamp=self._commits.time_of(commit),
                added=tuple(file for batch in batches for file in scan_files_in(batch, root)),
                removes=bool(commit.removes),
                protocol=commit.state.protocol,
                metadata=commit.state.metadata,
            )
