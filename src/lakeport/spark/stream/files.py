"""The files of a stream's versions, in a stable order.

Offsets count files, so after a restart the same number must mean the same file. A version never changes, but the order
of a response may. Files of the initial snapshot are ordered by modification time, then path, like in Delta's own
source: older rows come first, which suits watermarks. Files of a commit are ordered by path. For a shared table the
path contains the file's id, the only permanent name that a server gives it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from lakeport.errors import ChangeFeedError, SharingError, StreamError
from lakeport.kernel.changes import INSERT, ChangeFile, CommitFiles
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.source import At, TableSource
from lakeport.spark.stream.schema import StreamSchema

_REFUSED = 400
"""A server's status if changes are not recorded at some version of a range."""


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """The readable files of a version."""

    files: Sequence[ScanFile | ChangeFile] = ()
    whole: bool = False
    """Whether it must be read in one batch: otherwise the two halves of an update could be separated."""


@dataclass(frozen=True, slots=True)
class Window:
    """Versions fetched together, starting at `first`; `root` is that of their log."""

    first: int
    versions: tuple[VersionFiles, ...]
    root: str
    is_snapshot: bool = False

    @property
    def last(self) -> int:
        return self.first + len(self.versions) - 1

    def holds(self, version: int, is_snapshot: bool) -> bool:
        return self.is_snapshot == is_snapshot and self.first <= version <= self.last

    def files_of(self, version: int) -> VersionFiles:
        return self.versions[version - self.first]


class Supply(Protocol):
    """A source of a stream's files."""

    def snapshot(self, version: int) -> Window:
        """All files of a version."""

    def commits(self, start: int, end: int) -> Window:
        """The files of a range of commits; it may end early, before a version that the stream cannot read. Raises
        `StreamError` if that is the first one."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How a stream of rows handles commits that do more than add rows."""

    ignore_deletes: bool = False
    """Skip commits that only remove files."""
    ignore_changes: bool = False
    """Read files that a commit rewrites, including their old rows."""
    skip_change_commits: bool = False
    """Skip commits that remove anything."""

    def admitted(self, commit: CommitFiles, name: str) -> Sequence[ScanFile]:
        """The files of a commit to read. Raises `StreamError`."""
        if not commit.removes:
            return commit.added
        if self.skip_change_commits:
            return ()
        if self.ignore_changes or (self.ignore_deletes and not commit.added):
            return commit.added
        what, option = ("updates or deletes rows in", "ignoreChanges") if commit.added else ("deletes", "ignoreDeletes")
        raise StreamError(
            f"version {commit.version} {what} files that the stream has read, and a stream cannot take rows back; skip "
            f"such commits with the option skipChangeCommits, continue anyway with {option}, or read the changes with "
            f"readChangeFeed [{name}]",
            version=commit.version,
        )


@dataclass(frozen=True)
class RowSupply:
    """Rows added to a table."""

    source: TableSource
    schema: StreamSchema
    tolerance: Tolerance

    def snapshot(self, version: int) -> Window:
        snapshot = self.source.snapshot(At(version))
        self.schema.check(version, snapshot.protocol, snapshot.metadata)
        files = sorted(snapshot.scan_builder().build().files(), key=_age_and_path)
        return Window(version, (VersionFiles(files),), snapshot.root, is_snapshot=True)

    def commits(self, start: int, end: int) -> Window:
        commits = self.source.commits(start, end)
        found = list(commits)
        self._check_start(found, commits.snapshot)
        versions: list[VersionFiles] = []
        try:
            for commit in found:
                if commit.metadata is not None:
                    self.schema.check(commit.version, commits.snapshot.protocol, commit.metadata)
                files = self.tolerance.admitted(commit, self.schema.name)
                versions.append(VersionFiles(sorted(files, key=_path)))
        except StreamError:
            if not versions:
                raise
        return Window(start, tuple(versions), commits.snapshot.root)

    def _check_start(self, commits: Sequence[CommitFiles], last: Snapshot) -> None:
        """Check the schema at the first commit. If no commit has metadata, that of the last version applies."""
        if all(commit.metadata is None for commit in commits):
            self.schema.check(last.version, last.protocol, last.metadata)
        elif commits[0].metadata is None:
            first = self.source.head(At(commits[0].version))
            self.schema.check(first.version, first.protocol, first.metadata)


@dataclass(frozen=True)
class ChangeSupply:
    """The change data feed of a table. Rows of the initial snapshot are inserts at its version."""

    source: TableSource
    schema: StreamSchema

    def snapshot(self, version: int) -> Window:
        snapshot = self.source.snapshot(At(version))
        self.schema.check(version, snapshot.protocol, snapshot.metadata)
        time = snapshot.timestamp
        files = sorted(snapshot.scan_builder().build().files(), key=_age_and_path)
        inserts = [_inserted(file, version, time) for file in files]
        return Window(version, (VersionFiles(inserts),), snapshot.root, is_snapshot=True)

    def commits(self, start: int, end: int) -> Window:
        try:
            return self._commits(start, end)
        except (ChangeFeedError, StreamError, SharingError) as error:
            if start == end or (isinstance(error, SharingError) and error.status != _REFUSED):
                raise
        return self._commits(start, start)

    def _commits(self, start: int, end: int) -> Window:
        feed = self.source.changes(At(start), At(end))
        self.schema.check(feed.end, feed.snapshot.protocol, feed.snapshot.metadata)
        by_version = dict(_by_version(feed.scan_builder().build().files()))
        versions = tuple(by_version.get(version, VersionFiles()) for version in range(start, end + 1))
        return Window(start, versions, feed.root)


@dataclass(frozen=True)
class FromNow:
    """Changes after the latest version at stream start: the initial snapshot counts as read. Its batch is empty, and
    exists to record the version in the checkpoint."""

    later: Supply

    def snapshot(self, version: int) -> Window:
        return Window(version, (VersionFiles(),), "", is_snapshot=True)

    def commits(self, start: int, end: int) -> Window:
        return self.later.commits(start, end)


def _by_version(changes: Iterable[ChangeFile]) -> Iterator[tuple[int, VersionFiles]]:
    for version, group in groupby(changes, lambda change: change.commit_version):
        files = sorted(group, key=_path)
        yield version, VersionFiles(files, whole=any(change.change_type != INSERT for change in files))


def _inserted(file: ScanFile, version: int, time: int) -> ChangeFile:
    return ChangeFile(file=file, change_type=INSERT, commit_version=version, commit_timestamp=time)


def _path(file: ScanFile | ChangeFile) -> str:
    return file.path


def _age_and_path(file: ScanFile) -> tuple[int, str]:
    return file.modification_time, file.path
