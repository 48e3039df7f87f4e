"""The file changes in a range of versions, for streams and for the change data feed.

Two passes: the first reads only protocol and metadata changes, so that refusals come before the answer begins; the
second yields the files, commit by commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from lakeport.errors import ChangeFeedError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.changes import CommitRange
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED, check_readable
from lakeport.kernel.log import CommitActions, FileColumns
from lakeport.kernel.paths import whole_path
from lakeport.kernel.snapshot import Snapshot
from lakeport.server.answers.answer import CHUNK_FILES, FileLines, chunked
from lakeport.server.answers.file_rows import FileRow, rows_of_actions
from lakeport.server.answers.lines import ADD, CDC, REMOVE, LineWriter, Moment

_COLUMNS = FileColumns(row_tracking=True, stats=True)


class SharedRange:
    """The commits from the version of `first` to that of `last`, with what their answer depends on."""

    def __init__(self, first: Snapshot, last: Snapshot) -> None:
        """Raises `VersionNotFoundError` if a commit of the range has been cleaned up."""
        self.first, self.last, self.root = first, last, last.root
        self.start, self.end = first.version, last.version
        self._commits = CommitRange.until(last, self.start)
        self._may_have_vectors = {self.start}
        self._has_vectors: dict[bool, bool] = {}
        self.states = dict(self._state_changes())
        """Commits after the first that change the protocol or the metadata, by version."""

    def all_states(self) -> Iterator[tuple[Protocol, Metadata]]:
        """Every protocol and metadata in force at some version of the range."""
        protocol, metadata = self.first.protocol, self.first.metadata
        yield protocol, metadata
        for new_protocol, new_metadata in self.states.values():
            protocol, metadata = new_protocol or protocol, new_metadata or metadata
            yield protocol, metadata

    def check_feed(self) -> None:
        """Raises `ChangeFeedError` if the change data feed is disabled at some version of the range."""
        for version, (_, metadata) in {self.start: (None, self.first.metadata), **self.states}.items():
            if metadata and not ENABLE_CHANGE_DATA_FEED.of(metadata.configuration, path=self.root):
                raise ChangeFeedError(
                    f"the change data feed is not enabled at version {version}: changes are not recorded in the whole "
                    f"range from version {self.start} to {self.end}",
                    version=version,
                )

    def commit(self, version: int) -> CommitActions:
        return self._commits.read_changes(version, _COLUMNS)

    def moment(self, commit: CommitActions) -> Moment:
        return Moment(commit.version, self._commits.time_of(commit))

    def has_vectors(self, feed: bool) -> bool:
        """Whether a file in the answer has a deletion vector."""
        found = self._has_vectors.get(feed)
        if found is None:
            commits = map(self.commit, sorted(self._may_have_vectors))
            found = self._has_vectors[feed] = any(_has_vector(commit, feed) for commit in commits)
        return found

    def _state_changes(self) -> Iterator[tuple[int, tuple[Protocol | None, Metadata | None]]]:
        for version, lines in self._commits.read_lines(self.start + 1):
            if lines.may_have_vectors:
                self._may_have_vectors.add(version)
            protocol, metadata = lines.state()
            if protocol:
                check_readable(protocol, self.root)
            if protocol or metadata:
                yield version, (protocol, metadata)


def _files_told(commit: CommitActions, feed: bool) -> list[tuple[str, pa.StructArray]]:
    """The file actions of a commit that belong in an answer, in order."""
    if feed and commit.cdc:
        return [(CDC, column) for column in commit.cdc]
    return [(ADD, column) for column in commit.adds] + [(REMOVE, column) for column in commit.removes]


def _has_vector(commit: CommitActions, feed: bool) -> bool:
    vectors = [column.field("deletionVector") for _, column in _files_told(commit, feed)]
    return any(vector.null_count < len(vector) for vector in vectors)


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: a version, and the index of a file action in it."""

    version: int
    index: int = 0


@dataclass(frozen=True)
class RangeOptions:
    """The contents of an answer besides the files."""

    feed: bool
    """The change data feed: a commit's change files, if it has any, instead of those it added and removed."""
    metadata: bool
    """Later metadata, each at its version."""
    protocol: bool


class RangeFiles:
    """The lines of a range of commits."""

    def __init__(self, commits: SharedRange, options: RangeOptions, writer: LineWriter, lines: FileLines) -> None:
        self._commits, self._options = commits, options
        self._writer, self._lines = writer, lines
        self.next: Cursor | None = None
        """The start of the next page, set once `chunks` is exhausted; None if nothing is left."""

    def chunks(self, cursor: Cursor, size: int | None) -> Iterator[bytes]:
        """The lines from the cursor on, with at most `size` files."""
        left = size
        told = b""  # state lines, held back until they are known to be on this page
        told_since = cursor.version
        for version in range(cursor.version, self._commits.end + 1):
            index = cursor.index if version == cursor.version else 0
            told_since = told_since if told else version
            told += b"" if index else self._state_lines(version)
            commit = self._commits.commit(version)
            moment = self._commits.moment(commit)
            for kind, rows in self._rows(commit, index):
                taken = rows if left is None else rows[:left]
                if taken:
                    yield told + self._lines.lines(kind, self._lines.sign(taken), moment)
                    told, index, left = b"", index + len(taken), None if left is None else left - len(taken)
                if len(taken) < len(rows):
                    self.next = Cursor(told_since) if told else Cursor(version, index)
                    return
        yield told

    def _state_lines(self, version: int) -> bytes:
        protocol, metadata = self._commits.states.get(version, (None, None))
        lines = self._writer.protocol(protocol, version) if protocol and self._options.protocol else b""
        return lines + (self._writer.metadata(metadata, version) if metadata and self._options.metadata else b"")

    def _rows(self, commit: CommitActions, index: int) -> Iterator[tuple[str, list[FileRow]]]:
        """The files of a commit from `index` on, in batches."""
        in_place: list[str] = []
        if not (self._options.feed and commit.cdc):
            root = self._commits.root
            in_place = [whole_path(path, root) for path in commit.replaced_paths(root).to_pylist()]
            self._lines.sign_alike(in_place)
        for kind, column in _files_told(commit, self._options.feed):
            rest = column.slice(index)
            index = max(0, index - len(column))
            for rows in chunked(rows_of_actions(rest, self._commits.root), CHUNK_FILES):
                yield kind, self._completed(rows, commit.version, in_place) if kind == REMOVE else rows

    def _completed(self, rows: list[FileRow], version: int, in_place: list[str]) -> list[FileRow]:
        """Fill in sizes, which a remove may omit but clients need. Raises `ChangeFeedError` if a remove omits the
        partition, because its deleted rows are then unknown."""
        if self._options.feed and self._commits.last.metadata.partition_columns:
            unknown = [row.key for row in rows if not row.partition_values and row.path not in in_place]
            if unknown:
                raise ChangeFeedError(
                    f"version {version} removes a file without saying of which partition it was: the values of the "
                    f"partition columns cannot be told; start after this version [{unknown[0]}]",
                    version=version,
                )
        storage = self._commits.last.engine.storage
        sizes = {row.path: storage.status(row.path) for row in rows if row.size is None}
        return [
            row if row.size is not None else msgspec.structs.replace(row, size=status.size if status else 0)
            for row in rows
            for status in [sizes.get(row.path)]
        ]
