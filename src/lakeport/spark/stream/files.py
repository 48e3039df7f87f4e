"""The files of the versions that a stream reads, in an order that is the same whenever they are asked for.

An offset counts files, so after a restart the same number has to mean the same file. What the log or a server says of a
version does not change, but the order of an answer may. Files of the initial snapshot are ordered by the time at which
they were written and then by path, as Delta's own source has them: so older rows come first, which is what watermarks
want. Files of a commit are ordered by path. For a shared table the path is made of the file's id, the only name that a
server gives it for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from lakeport.errors import ChangeFeedError, SharingError, StreamError
from lakeport.kernel.changes import INSERT, ChangeFile, CommitFiles
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.source import TableSource
from lakeport.spark.stream.schema import StreamSchema

_REFUSED = 400
"""What a server answers if changes are not recorded at some version of a range."""


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """What there is to read of a version."""

    files: Sequence[ScanFile | ChangeFile] = ()
    whole: bool = False
    """Whether it is only read in one batch: otherwise what an update made of a row could come without what it was."""


@dataclass(frozen=True, slots=True)
class Window:
    """Versions that were asked for together, from `first` on; `root` is that of their log."""

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
    """Where a stream gets its files from."""

    def snapshot(self, version: int) -> Window:
        """All files of a version."""

    def commits(self, start: int, end: int) -> Window:
        """The files of the commits of a range; it may end earlier, before a version that the stream cannot read. Raises
        `StreamError` if that is the first one."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a stream of rows does about commits that do more than add rows."""

    ignore_deletes: bool = False
    """Commits that only remove files are passed over."""
    ignore_changes: bool = False
    """Files that a commit writes in place of others are read, with the rows in them that are not new."""
    skip_change_commits: bool = False
    """Commits that remove anything are passed over."""

    def admitted(self, commit: CommitFiles, name: str) -> Sequence[ScanFile]:
        """The files of a commit that are read. Raises `StreamError`."""
        if not commit.removes:
            return commit.added
        if self.skip_change_commits:
            return ()
        if self.ignore_changes or (self.ignore_deletes and not commit.added):
            return commit.added
        what, option = ("updates or deletes rows in", "ignoreChanges") if commit.added else ("deletes", "ignoreDeletes")
        raise StreamError(
            f"version {commit.version} {what} files that the stream has read, and a stream cannot take rows back; pass "
            f"over such commits with the option skipChangeCommits, go on regardless with {option}, or read the changes "
            f"with readChangeFeed [{name}]",
            version=commit.version,
        )


@dataclass(frozen=True)
class RowSupply:
    """Rows that are added to a table."""

    source: TableSource
    schema: StreamSchema
    tolerance: Tolerance

    def snapshot(self, version: int) -> Window:
        snapshot = self.source.snapshot(version, None, None, None)
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
        """What the first commit was made under: it says so, or, if no other one does, the last version has it still."""
        if all(commit.metadata is None for commit in commits):
            self.schema.check(last.version, last.protocol, last.metadata)
        elif commits[0].metadata is None:
            first = self.source.head(commits[0].version, None)
            self.schema.check(first.version, first.protocol, first.metadata)


@dataclass(frozen=True)
class ChangeSupply:
    """The change data feed of a table. The rows of the initial snapshot are inserted by its version."""

    source: TableSource
    schema: StreamSchema

    def snapshot(self, version: int) -> Window:
        snapshot = self.source.snapshot(version, None, None, None)
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
        feed = self.source.changes(start, end, None, None)
        self.schema.check(feed.end, feed.snapshot.protocol, feed.snapshot.metadata)
        by_version = dict(_by_version(feed.scan_builder().build().files()))
        versions = tuple(by_version.get(version, VersionFiles()) for version in range(start, end + 1))
        return Window(start, versions, feed.root)


@dataclass(frozen=True)
class FromNow:
    """What comes after the latest version when the stream starts: the initial snapshot counts as read. Its batch is
    empty, and it is there so that the version is kept in the checkpoint."""

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
