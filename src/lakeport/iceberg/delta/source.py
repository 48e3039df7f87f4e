"""The source of a conversion: a Delta table at a version, and the changes of its commits, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakeport.errors import MissingFileError, VersionNotFoundError
from lakeport.iceberg.delta.change import InternalDeletionVector, KnownFiles, TableChange
from lakeport.iceberg.delta.commit_diff import (
    CommitActions,
    CommitDiff,
    VectorId,
    diff_commit,
    live_keys,
    read_commit,
    vector_id,
)
from lakeport.iceberg.delta.squash import squash as squashed
from lakeport.kernel.actions import Metadata
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.log import (
    Commit,
    CommitTimes,
    LogListing,
    LogReplay,
    LogSegment,
    TableState,
    list_newer,
    log_path,
    read_checksum,
    read_commit_info,
    version_name,
)
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table

_READ_AHEAD_BYTES = 32 << 20
"""Commits up to this size stay in memory once they are read."""

_RESTORE = "RESTORE"
"""Delta's name for the operation."""


class LogTruncatedError(VersionNotFoundError):
    """The log no longer has all changes since a version: only `plan_full` can describe the table."""


def plan_full(snapshot: Snapshot) -> TableChange:
    """A whole version, as one commit."""
    files = tuple(snapshot.scan_builder().with_log_details().build().files())
    vectors = (InternalDeletionVector.of(file, snapshot.root) for file in files)
    latest = snapshot.segment.latest_file
    info = read_commit_info(snapshot.engine.storage, latest) if _is_commit(latest) else {}
    return TableChange(
        version=snapshot.version,
        timestamp=snapshot.commit_times().of(snapshot.version, info) if _is_commit(latest) else snapshot.timestamp,
        operation=str(info.get("operation", "")),
        snapshot=snapshot,
        files_added=files,
        files_removed=(),
        vectors_added=tuple(vector for vector in vectors if vector),
        vectors_removed=(),
        data_change=True,
    )


def plan_incremental(table: Table, after_version: int, *, squash: bool = False) -> Iterator[TableChange]:
    """The changes of each commit after a version; see `Increment.changes`.

    Raises `LogTruncatedError` if the table no longer has `after_version` or all commits after it: at once or, if the
    log is cleaned up meanwhile, later."""
    return open_increment(table, after_version).changes(squash=squash)


def open_increment(table: Table, after_version: int, time: int | None = None) -> Increment:
    """See `Increment` for `time`. Raises `LogTruncatedError`."""
    try:
        base = table.snapshot_at_version(after_version)
    except VersionNotFoundError as error:
        raise LogTruncatedError(
            str(error), version=error.version, earliest=error.earliest, latest=error.latest
        ) from error
    return Increment(base, time)


def _check_complete(newer: LogListing, after_version: int, root: str) -> None:
    latest = newer.latest or after_version
    missing = [version for version in range(after_version + 1, latest + 1) if version not in newer.commits]
    if missing:
        raise _truncated(missing[0], root)


def _truncated(version: int, root: str) -> LogTruncatedError:
    return LogTruncatedError(
        f"the changes of version {version} are gone: its log files have been cleaned up; the table can only be "
        f"converted as a whole [{root}]",
        version=version,
    )


class Increment:
    """The commits after a version, listed but not read yet."""

    def __init__(self, base: Snapshot, time: int | None = None) -> None:
        """`time` is when the version was made, if known: commits whose files have equal times get theirs from the ones
        before. Raises `LogTruncatedError`."""
        self._base, self._engine, self._root = base, base.engine, base.root
        self._base_time = base.segment.latest_file.modification_time if time is None else time
        newer = list_newer(self._engine.storage, self._root, base.version)
        _check_complete(newer, base.version, self._root)
        self._commits = dict(sorted(newer.commits.items()))
        self._read_ahead: dict[int, CommitActions] = {}

    def read_latest(self) -> Snapshot | None:
        """The version after the last commit. Reads all commits, unless they are large: then None.

        Raises `LogTruncatedError`, `CorruptTableError`, and `UnsupportedFeatureError` if it cannot be read."""
        if sum(file.size for file in self._commits.values()) > _READ_AHEAD_BYTES:
            return None
        state = TableState()
        for version in self._commits:
            self._read_ahead[version] = actions = self._read(version)
            state = actions.state.over(state)
        return _later_snapshot(self._base, self._commits, state)

    def changes(self, known: KnownFiles | None = None, *, squash: bool = False) -> Iterator[TableChange]:
        """The changes of each commit, oldest first; with `squash`, one change for all, or none. Each commit is read
        once, lazily.

        If a commit and the checksums leave its changes ambiguous, `known` decides; it must have taken in all earlier
        changes. If it cannot, the previous version's files are read from the log.

        Raises `LogTruncatedError` if the log is cleaned up meanwhile."""
        if squash and len(self._commits) > 1:
            return squashed(self._changes, known)
        return self._changes(known)

    def _changes(self, known: KnownFiles | None) -> Iterator[TableChange]:
        files, after, times = _Files(known), self._base, self._times(self._base.metadata)
        for version, file in self._commits.items():
            actions = self._read_ahead.pop(version, None) or self._read(version)
            before, after = after, _later_snapshot(after, {version: file}, actions.state)
            diff = files.diff(actions, before, after)
            if after.metadata is not before.metadata:
                times = self._times(after.metadata)
            yield TableChange(
                version=version,
                timestamp=times.of(version, actions.info),
                operation=str(actions.info.get("operation", "")),
                snapshot=after,
                files_added=diff.files_added,
                files_removed=diff.files_removed,
                vectors_added=diff.vectors_added,
                vectors_removed=diff.vectors_removed,
                data_change=actions.changes_data,
                restores=actions.info.get("operation") == _RESTORE,
            )

    def _read(self, version: int) -> CommitActions:
        try:
            return read_commit(self._engine, self._root, self._commits[version])
        except MissingFileError as error:
            raise _truncated(version, self._root) from error

    def _times(self, metadata: Metadata) -> CommitTimes:
        first = replace(self._base.segment.latest_file, modification_time=self._base_time)
        commits = self._commits | ({self._base.version: first} if _is_commit(first) else {})
        return CommitTimes(self._engine.storage, LogListing(commits=commits), metadata, self._root)


def _later_snapshot(before: Snapshot, commits: Mapping[int, FileStatus], state: TableState) -> Snapshot:
    """The version that commits with `state` produce from the previous one.

    Raises `UnsupportedFeatureError` if it cannot be read."""
    if not commits:
        return before
    old, version = before.segment, max(commits)
    added = (Commit(number, number, file) for number, file in commits.items())
    segment = LogSegment(version, old.checkpoint, (*old.commits, *added), None, commits[version])
    return Snapshot(
        before.engine,
        before.root,
        LogReplay(before.engine, before.root, segment),
        state.protocol or before.protocol,
        state.metadata or before.metadata,
    )


class _Files:
    """Tracks the table's files as far as commit diffs need it: usually only their number. Paths are read once, and only
    if nothing else is conclusive."""

    def __init__(self, known: KnownFiles | None) -> None:
        self._known = known
        self._counts: dict[int, int | None] = {}
        self._vectors: dict[str, VectorId] | None = None

    def diff(self, actions: CommitActions, before: Snapshot, after: Snapshot) -> CommitDiff:
        """The changes of the commit between the two versions; call in commit order."""
        added, removed = actions.added_files(after), actions.removed_keys(after.root)
        if self._vectors is None:
            # Assumes that every removed file existed, and that no other added file did.
            diff = diff_commit(added, removed, dict(removed), after.root)
            is_plain = len(dict(removed)) == len(removed)  # no path with two vectors
            if is_plain and (self._adds_up(actions, diff, before, after) or self._agrees(added, dict(removed))):
                return diff
            try:
                self._vectors = dict(live_keys(before))
            except MissingFileError as error:
                raise _truncated(before.version, before.root) from error
        diff = diff_commit(added, removed, self._vectors, after.root)
        for path in diff.files_removed:
            del self._vectors[path]
        self._vectors.update((path, vector_id(file)) for path, file in added.items())
        return diff

    def _adds_up(self, actions: CommitActions, diff: CommitDiff, before: Snapshot, after: Snapshot) -> bool:
        """Whether file counts in the checksums match the diff. They prove nothing for a commit that both adds and
        removes: it might add an existing file and remove a missing one."""
        if actions.adds and actions.removes:
            return False
        if not diff.files_added and not diff.files_removed:
            return True
        if not actions.changes_data and not diff.files_removed:
            return False  # the rows, and so the files, must have been in the table already
        count, count_before = self._count(after), self._count(before)
        return count is not None and count_before is not None and count == count_before + diff.growth

    def _agrees(self, added: Mapping[str, ScanFile], removed: Mapping[str, VectorId]) -> bool:
        return self._known is not None and self._known.agrees(removed, added.keys() - removed.keys())

    def _count(self, snapshot: Snapshot) -> int | None:
        if snapshot.version not in self._counts:
            self._counts[snapshot.version] = _count_files(snapshot)
        return self._counts[snapshot.version]


def _count_files(snapshot: Snapshot) -> int | None:
    """The number of files in a version, if its checksum has it."""
    path = f"{log_path(snapshot.root)}/{version_name(snapshot.version)}.crc"
    checksum = read_checksum(snapshot.engine, FileStatus(path, 0))
    return None if checksum is None else checksum.num_files


def _is_commit(file: FileStatus) -> bool:
    return ".checkpoint." not in file.path.rpartition("/")[2]
