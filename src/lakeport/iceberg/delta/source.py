"""The source of a conversion: a Delta table at a version, and the changes of its commits, from the log alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lakeport.errors import MissingFileError, VersionNotFoundError
from lakeport.iceberg.delta.change import (
    COLUMNS,
    CommitDiff,
    InternalDeletionVector,
    KnownFiles,
    TableChange,
    VectorId,
    added_files,
    diff_commit,
    live_keys,
    removed_keys,
)
from lakeport.iceberg.delta.change import squash as squashed
from lakeport.iceberg.delta.kept_version import OtherHistoryError, open_kept
from lakeport.iceberg.table.metadata import is_in_step, mirrored_time
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.actions import TableState
from lakeport.kernel.changes import CommitRange
from lakeport.kernel.definition import is_catalog_managed
from lakeport.kernel.log import (
    Commit,
    CommitActions,
    LogReplay,
    LogSegment,
    checksum_path,
    is_checkpoint,
    read_checksum,
    read_lines,
)
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot, Table

_READ_AHEAD_BYTES = 32 << 20
"""Commits up to this size stay in memory once they are read."""

_RESTORE = "RESTORE"
"""Delta's name for the operation."""


class LogTruncatedError(VersionNotFoundError):
    """The log no longer has all changes since a version: only `plan_full` can describe the table."""


@dataclass(frozen=True)
class Ahead:
    latest: Snapshot
    increment: Increment | None = None
    """The new commits, if these and the mirror's kept state suffice."""
    is_followed: bool = True
    """False if the table's history has changed: its commits must not be applied to the mirror."""


def look_ahead(table: Table, mirror: Json) -> Ahead:
    """`mirror` is the mirror's metadata. Raises like `Table.latest_snapshot`."""
    if not is_in_step(mirror):
        return Ahead(table.latest_snapshot())
    try:
        kept = open_kept(table, mirror)
    except OtherHistoryError:
        return Ahead(table.latest_snapshot(), is_followed=False)
    if kept is not None:
        with suppress(LogTruncatedError):
            increment = Increment(kept, mirrored_time(mirror))
            latest = increment.read_latest()
            if latest is not None and not is_catalog_managed(latest.protocol):
                return Ahead(latest, increment)
    return Ahead(table.latest_snapshot())


def plan_full(snapshot: Snapshot) -> TableChange:
    """A whole version, as one commit."""
    files = tuple(snapshot.scan_builder().with_log_details().build().files())
    vectors = (InternalDeletionVector.of(file, snapshot.root) for file in files)
    latest = snapshot.segment.latest_file
    has_commit = not is_checkpoint(latest.path)
    info = read_lines(snapshot.engine.storage, latest).info if has_commit else {}
    return TableChange(
        version=snapshot.version,
        timestamp=snapshot.commit_times().of(snapshot.version, info) if has_commit else snapshot.timestamp,
        operation=str(info.get("operation", "")),
        snapshot=snapshot,
        files_added=files,
        files_removed=(),
        vectors_added=tuple(vector for vector in vectors if vector),
        vectors_removed=(),
        data_change=True,
    )


def open_increment(table: Table, after_version: int, time: int | None = None) -> Increment:
    """See `Increment` for `time`. Raises `LogTruncatedError`."""
    with _as_truncation():
        base = table.snapshot_at_version(after_version)
    return Increment(base, time)


@contextmanager
def _as_truncation() -> Iterator[None]:
    try:
        yield
    except VersionNotFoundError as error:
        raise LogTruncatedError(
            str(error), version=error.version, earliest=error.earliest, latest=error.latest
        ) from error


def _truncated(version: int, root: str) -> LogTruncatedError:
    return LogTruncatedError(
        f"the changes of version {version} are gone: its log files have been cleaned up; the table can only be "
        f"converted as a whole [{root}]",
        version=version,
    )


class Increment:
    """The commits after a version, listed but not read yet."""

    def __init__(self, base: Snapshot, time: int | None = None) -> None:
        """See `CommitRange.after` for `time`. Raises `LogTruncatedError`."""
        self._base = base
        with _as_truncation():
            self._commits = CommitRange.after(base, time)
        self._read_ahead: dict[int, CommitActions] = {}

    def read_latest(self) -> Snapshot | None:
        """The version after the last commit. Reads all commits, unless they are large: then None.

        Raises `LogTruncatedError`, `CorruptTableError`, and `UnsupportedFeatureError` if it cannot be read."""
        if self._commits.size > _READ_AHEAD_BYTES:
            return None
        state = TableState()
        for version in self._commits.versions:
            self._read_ahead[version] = commit = self._read(version)
            state = commit.state.over(state)
        return _later_snapshot(self._base, list(self._read_ahead.values()), state)

    def changes(self, known: KnownFiles | None = None, *, squash: bool = False) -> Iterator[TableChange]:
        """The changes of each commit, oldest first; with `squash`, one change for all, or none. Each commit is read
        once, lazily.

        If a commit and the checksums leave its changes ambiguous, `known` decides; it must have taken in all earlier
        changes. If it cannot, the previous version's files are read from the log.

        Raises `LogTruncatedError` if the log is cleaned up meanwhile."""
        if squash and len(self._commits.versions) > 1:
            return squashed(self._changes, known)
        return self._changes(known)

    def _changes(self, known: KnownFiles | None) -> Iterator[TableChange]:
        files, after, times = _Files(known), self._base, self._commits.times
        for version in self._commits.versions:
            commit = self._read_ahead.pop(version, None) or self._read(version)
            before, after = after, _later_snapshot(after, [commit], commit.state)
            diff = files.diff(commit, before, after)
            if after.metadata is not before.metadata:
                times = times.under(after.metadata)
            yield TableChange(
                version=version,
                timestamp=times.of(version, commit.info),
                operation=str(commit.info.get("operation", "")),
                snapshot=after,
                files_added=diff.files_added,
                files_removed=diff.files_removed,
                vectors_added=diff.vectors_added,
                vectors_removed=diff.vectors_removed,
                data_change=commit.changes_data,
                restores=commit.info.get("operation") == _RESTORE,
            )

    def _read(self, version: int) -> CommitActions:
        try:
            return self._commits.read(version, COLUMNS, with_operation=True)
        except MissingFileError as error:
            raise _truncated(version, self._base.root) from error


def _later_snapshot(before: Snapshot, commits: Sequence[CommitActions], state: TableState) -> Snapshot:
    """The version that commits with `state` produce from the previous one.

    Raises `UnsupportedFeatureError` if it cannot be read."""
    if not commits:
        return before
    old, last = before.segment, commits[-1]
    added = (Commit(commit.version, commit.version, commit.file) for commit in commits)
    segment = LogSegment(last.version, old.checkpoint, (*old.commits, *added), None, last.file)
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

    def diff(self, commit: CommitActions, before: Snapshot, after: Snapshot) -> CommitDiff:
        """The changes of the commit between the two versions; call in commit order."""
        added, removed = added_files(commit, after), removed_keys(commit, after.root)
        if self._vectors is None:
            # Assumes that every removed file existed, and that no other added file did.
            diff = diff_commit(added, removed, dict(removed), after.root)
            is_plain = len(dict(removed)) == len(removed)  # no path with two vectors
            if is_plain and (self._adds_up(commit, diff, before, after) or self._agrees(added, dict(removed))):
                return diff
            try:
                self._vectors = dict(live_keys(before))
            except MissingFileError as error:
                raise _truncated(before.version, before.root) from error
        diff = diff_commit(added, removed, self._vectors, after.root)
        for path in diff.files_removed:
            del self._vectors[path]
        self._vectors.update((path, file.vector_id) for path, file in added.items())
        return diff

    def _adds_up(self, commit: CommitActions, diff: CommitDiff, before: Snapshot, after: Snapshot) -> bool:
        """Whether file counts in the checksums match the diff. They prove nothing for a commit that both adds and
        removes: it might add an existing file and remove a missing one."""
        if commit.adds and commit.removes:
            return False
        if not diff.files_added and not diff.files_removed:
            return True
        if not commit.changes_data and not diff.files_removed:
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
    checksum = read_checksum(snapshot.engine, checksum_path(snapshot.root, snapshot.version))
    return None if checksum is None else checksum.num_files
