"""The source of a conversion: what a Delta table is at a version, and what its commits change, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakeport.errors import MissingFileError, VersionNotFoundError
from lakeport.iceberg.commit_diff import (
    CommitActions,
    CommitDiff,
    Key,
    VectorId,
    diff_commit,
    live_keys,
    read_commit,
    vector_id,
)
from lakeport.iceberg.model import InternalDeletionVector, TableChange
from lakeport.kernel.checksum import read_checksum
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.history import CommitTimes, read_commit_info
from lakeport.kernel.log import Commit, LogListing, LogSegment, list_newer, log_path, version_name
from lakeport.kernel.replay import LogReplay
from lakeport.kernel.scan_files import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table


class LogTruncatedError(VersionNotFoundError):
    """The log no longer tells what changed since a version: only `plan_full` tells what the table is now."""


def plan_full(snapshot: Snapshot) -> TableChange:
    """A whole version, as if one commit had made it."""
    files = tuple(snapshot.scan_builder().with_log_details().build().files())
    vectors = (InternalDeletionVector.of(file, snapshot.root) for file in files)
    latest = snapshot.segment.latest_file
    info = read_commit_info(snapshot.engine.storage, latest) if _is_commit(latest) else {}
    return TableChange(
        version=snapshot.version,
        timestamp=snapshot.timestamp,
        operation=str(info.get("operation", "")),
        snapshot=snapshot,
        files_added=files,
        files_removed=(),
        vectors_added=tuple(vector for vector in vectors if vector),
        vectors_removed=(),
        data_change=True,
    )


def plan_incremental(table: Table, after_version: int, *, squash: bool = False) -> Iterator[TableChange]:
    """What each commit after a version changed, oldest first; with `squash`, what all of them changed together: one
    change, or none. Each commit is read once, when it is asked for; the files of the version before it only where the
    commit and the checksums do not tell what it changes.

    Raises `LogTruncatedError` if the table does not have `after_version` any more, or not all commits after it; at once
    or, where the log is cleaned up meanwhile, later."""
    try:
        base = table.snapshot_at_version(after_version)
    except VersionNotFoundError as error:
        raise LogTruncatedError(
            str(error), version=error.version, earliest=error.earliest, latest=error.latest
        ) from error
    newer = list_newer(table.engine.storage, table.root, after_version)
    _check_complete(newer, after_version, table.root)
    changes = _Commits(base, newer.commits).changes()
    return _squashed(changes) if squash else changes


def _check_complete(newer: LogListing, after_version: int, root: str) -> None:
    latest = newer.latest or after_version
    missing = [version for version in range(after_version + 1, latest + 1) if version not in newer.commits]
    if missing:
        raise _truncated(missing[0], root)


def _truncated(version: int, root: str) -> LogTruncatedError:
    return LogTruncatedError(
        f"the changes of version {version} are gone: its commit file has been cleaned up; the table can only be "
        f"converted as a whole [{root}]",
        version=version,
    )


class _Commits:
    """The commits that follow a snapshot, one by one."""

    def __init__(self, base: Snapshot, commits: Mapping[int, FileStatus]) -> None:
        self._snapshot, self._commits = base, dict(commits)
        self._engine, self._root = base.engine, base.root
        self._files = _Files(base)
        latest = base.segment.latest_file
        self._listing = LogListing(commits=self._commits | ({base.version: latest} if _is_commit(latest) else {}))

    def changes(self) -> Iterator[TableChange]:
        for version, file in sorted(self._commits.items()):
            try:
                actions = read_commit(self._engine, self._root, file)
            except MissingFileError as error:
                raise _truncated(version, self._root) from error
            before, self._snapshot = self._snapshot, _next_snapshot(self._snapshot, version, file, actions)
            diff = self._files.diff(actions, before, self._snapshot)
            yield TableChange(
                version=version,
                timestamp=self._timestamp(version, actions),
                operation=str(actions.info.get("operation", "")),
                snapshot=self._snapshot,
                files_added=diff.files_added,
                files_removed=diff.files_removed,
                vectors_added=diff.vectors_added,
                vectors_removed=diff.vectors_removed,
                data_change=actions.changes_data,
            )

    def _timestamp(self, version: int, actions: CommitActions) -> int:
        times = CommitTimes(self._engine.storage, self._listing, self._snapshot.metadata, self._root)
        return times.of(version, actions.info)


def _next_snapshot(before: Snapshot, version: int, file: FileStatus, actions: CommitActions) -> Snapshot:
    """The version that a commit makes of the one before. Raises `UnsupportedFeatureError` if it cannot be read."""
    old = before.segment
    segment = LogSegment(version, old.checkpoint, (*old.commits, Commit(version, version, file)), None, file)
    return Snapshot(
        before.engine,
        before.root,
        LogReplay(before.engine, before.root, segment),
        actions.state.protocol or before.protocol,
        actions.state.metadata or before.metadata,
    )


class _Files:
    """What has to be known of the table's files to tell what a commit changes: mostly how many there are. Their paths
    are read, once, only where a commit's own actions and the checksums of the two versions leave it open."""

    def __init__(self, base: Snapshot) -> None:
        self._count = _count_files(base)
        self._vectors: dict[str, VectorId] | None = None

    def diff(self, actions: CommitActions, before: Snapshot, after: Snapshot) -> CommitDiff:
        """What the commit between the two versions changes; to be asked for one commit after the other."""
        added, removed = actions.added_files(after), actions.removed_keys(after.root)
        if self._vectors is None:
            diff = self._diff_by_count(actions, added, removed, after)
            if diff is not None:
                return diff
            self._vectors = dict(live_keys(before))
        diff = diff_commit(added, removed, self._vectors, after.root)
        for path in diff.files_removed:
            del self._vectors[path]
        self._vectors.update((path, vector_id(file)) for path, file in added.items())
        return diff

    def _diff_by_count(
        self, actions: CommitActions, added: Mapping[str, ScanFile], removed: list[Key], after: Snapshot
    ) -> CommitDiff | None:
        """What the commit changes if every file that it removes was there and every other that it adds was not; None
        if that is not certain."""
        diff = diff_commit(added, removed, dict(removed), after.root)
        before_count, self._count = self._count, _count_files(after)
        if len(dict(removed)) < len(removed):
            return None  # one path with two vectors: only one of them can have been there
        if not diff.files_added and not diff.files_removed:
            return diff
        if not actions.changes_data and not diff.files_removed:
            return None  # the rows of its files must have been in the table already, so these files were
        adds_up = before_count is not None and self._count == before_count + diff.growth
        return diff if adds_up else None


def _count_files(snapshot: Snapshot) -> int | None:
    """How many files a version has, if its checksum tells."""
    path = f"{log_path(snapshot.root)}/{version_name(snapshot.version)}.crc"
    checksum = read_checksum(snapshot.engine, FileStatus(path, 0))
    return None if checksum is None else checksum.num_files


def _is_commit(file: FileStatus) -> bool:
    return ".checkpoint." not in file.path.rpartition("/")[2]


@dataclass
class _Net:
    """What is left of changes that follow each other."""

    added: dict[str, ScanFile] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    vectors: dict[str, InternalDeletionVector] = field(default_factory=dict)
    former_vectors: dict[str, None] = field(default_factory=dict)
    """Files that the first version had, with vectors that count no more."""

    def include(self, change: TableChange) -> None:
        for path in change.vectors_removed:
            if self.vectors.pop(path, None) is None and path not in self.added:
                self.former_vectors[path] = None
        for path in change.files_removed:
            if self.added.pop(path, None) is None:
                self.removed[path] = None
        for file in change.files_added:
            if file.path in self.removed:  # the first version had it, the last one has it again
                del self.removed[file.path]
            else:
                self.added[file.path] = file
        self.vectors.update((vector.data_file_path, vector) for vector in change.vectors_added)


def _squashed(changes: Iterator[TableChange]) -> Iterator[TableChange]:
    net, last, data_change = _Net(), None, False
    for last in changes:
        net.include(last)
        data_change |= last.data_change
    if last is not None:
        yield replace(
            last,
            files_added=tuple(net.added.values()),
            files_removed=tuple(net.removed),
            vectors_added=tuple(net.vectors.values()),
            vectors_removed=tuple(net.former_vectors),
            data_change=data_change,
        )
