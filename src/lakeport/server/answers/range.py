"""The file changes in a range of versions, for streams and for the change data feed.

Two passes: the first reads only protocol and metadata changes, so that refusals come before the answer begins; the
second yields the files, commit by commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import msgspec
import pyarrow as pa

from lakeport.errors import ChangeFeedError
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.changes import CommitRange
from lakeport.kernel.definition import ENABLE_CHANGE_DATA_FEED, check_readable
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.log import CommitActions, FileColumns
from lakeport.kernel.paths import whole_path
from lakeport.kernel.snapshot import Snapshot
from lakeport.server.answers.formats import needs_of_range, protocol_of_range
from lakeport.server.answers.plan import (
    ADD,
    CDC,
    REMOVE,
    FileRow,
    Files,
    Page,
    Part,
    Plan,
    State,
    chunked,
    rows_of_actions,
)

_COLUMNS = FileColumns(row_tracking=True, stats=True)


class SharedRange(CommitRange):
    """The commits from the version of `first` to that of `last`, with what their answer depends on."""

    def __init__(self, first: Snapshot, last: Snapshot) -> None:
        super().__init__(last.engine, last.root, last.commit_times(), first.version, last.version)
        self.first, self.last = first, last
        self._may_have_vectors = {first.version}
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
        for version, (_, metadata) in {self.first.version: (None, self.first.metadata), **self.states}.items():
            if metadata and not ENABLE_CHANGE_DATA_FEED.of(metadata.configuration, path=self.root):
                raise ChangeFeedError(
                    f"the change data feed is not enabled at version {version}: it must be enabled in the whole range, "
                    f"from version {self.first.version} to {self.last.version}",
                    version=version,
                )

    def commit(self, version: int) -> CommitActions:
        return self.read_changes(version, _COLUMNS)

    def has_vectors(self, feed: bool) -> bool:
        """Whether a file in the answer has a deletion vector."""
        found = self._has_vectors.get(feed)
        if found is None:
            commits = map(self.commit, sorted(self._may_have_vectors))
            found = self._has_vectors[feed] = any(_has_vector(commit, feed) for commit in commits)
        return found

    def _state_changes(self) -> Iterator[tuple[int, tuple[Protocol | None, Metadata | None]]]:
        for version, lines in self.read_lines(self.first.version + 1):
            if lines.may_have_vectors:
                self._may_have_vectors.add(version)
            protocol, metadata = lines.state()
            if protocol:
                check_readable(protocol, self.root)
            if protocol or metadata:
                yield version, (protocol, metadata)


def _file_actions(commit: CommitActions, feed: bool) -> list[tuple[str, pa.StructArray]]:
    """The file actions of a commit that belong in an answer, in order."""
    if feed and commit.cdc:
        return [(CDC, column) for column in commit.cdc]
    return [(ADD, column) for column in commit.adds] + [(REMOVE, column) for column in commit.removes]


def _has_vector(commit: CommitActions, feed: bool) -> bool:
    vectors = [column.field("deletionVector") for _, column in _file_actions(commit, feed)]
    return any(vector.null_count < len(vector) for vector in vectors)


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: a version, and the index of a file action in it."""

    version: int
    index: int = 0


@dataclass(frozen=True, kw_only=True)
class RangeFiles:
    """The files of a range of commits, with later changes of the protocol and the metadata between them."""

    commits: SharedRange
    feed: bool
    """The change data feed: a commit's change files, if it has any, instead of those it added and removed."""
    metadata: bool
    """Include later metadata, each at its version."""
    protocol: bool

    def plan(self, page: Page[Cursor], size: int | None) -> Plan:
        """The files from the start of the page on, at most `size`."""
        first, last, states = self.commits.first, self.commits.last, list(self.commits.all_states())
        needs = needs_of_range(states, self.commits.root, lambda: self.commits.has_vectors(self.feed))
        protocol = State(first.protocol, page.first) if self.protocol else State(protocol_of_range(states, needs))
        # Rows are read under one schema: the first if later ones are included, otherwise the last.
        metadata = State((first if self.metadata else last).metadata, page.first)
        parts = chain((protocol, metadata), self._parts(page, size))
        return Plan(page.first, needs, parts, {"startingVersion": page.first, "endingVersion": page.last})

    def _parts(self, page: Page[Cursor], size: int | None) -> Iterator[Part]:
        start, left = page.start or Cursor(page.first), size
        held: list[State] = []  # until they are known to be on this page
        held_since = start.version
        for version in range(start.version, page.last + 1):
            index = start.index if version == start.version else 0
            held_since = held_since if held else version
            held += [] if index else self._states(version)
            for files in self._files(self.commits.commit(version), index):
                taken = files.rows if left is None else files.rows[:left]
                if taken:
                    yield from held
                    yield replace(files, rows=taken)
                    held, index, left = [], index + len(taken), None if left is None else left - len(taken)
                if len(taken) < len(files.rows):
                    following = Cursor(held_since) if held else Cursor(version, index)
                    yield msgspec.structs.replace(page, start=following)
                    return
        yield from held

    def _states(self, version: int) -> list[State]:
        protocol, metadata = self.commits.states.get(version, (None, None))
        states = [State(protocol, version)] if protocol and self.protocol else []
        return states + ([State(metadata, version)] if metadata and self.metadata else [])

    def _files(self, commit: CommitActions, index: int) -> Iterator[Files]:
        """The files of a commit from `index` on, in batches."""
        root, timestamp = self.commits.root, self.commits.time_of(commit)
        replaced: frozenset[str] = frozenset()
        if not (self.feed and commit.cdc):
            replaced = frozenset(whole_path(path, root) for path in commit.replaced_paths(root).to_pylist())
        for kind, column in _file_actions(commit, self.feed):
            rest = column.slice(index)
            index = max(0, index - len(column))
            for rows in chunked(rows_of_actions(rest, root)):
                complete = self._completed(rows, commit.version, replaced) if kind == REMOVE else rows
                yield Files(kind, complete, commit.version, timestamp, replaced)

    def _completed(self, rows: list[FileRow], version: int, replaced: frozenset[str]) -> list[FileRow]:
        """Fill in sizes, which a remove may omit but clients need. Raises `ChangeFeedError` if a remove omits the
        partition, because its deleted rows are then unknown."""
        if self.feed and self.commits.last.metadata.partition_columns:
            unknown = [row.key for row in rows if not row.partition_values and row.path not in replaced]
            if unknown:
                raise ChangeFeedError(
                    f"version {version} removes a file without its partition values, so its rows cannot be given as "
                    f"changes; start after this version [{unknown[0]}]",
                    version=version,
                )
        storage = self.commits.engine.storage
        return [row if row.size is not None else _with_size(row, storage.status(row.path)) for row in rows]


def _with_size(row: FileRow, status: FileStatus | None) -> FileRow:
    return msgspec.structs.replace(row, size=status.size if status else 0)
