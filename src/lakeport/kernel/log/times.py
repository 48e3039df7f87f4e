"""Commit times and commit info of a table's versions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from lakeport.errors import CorruptTableError, MissingFileError, VersionNotFoundError
from lakeport.kernel.actions import Metadata
from lakeport.kernel.definition import ENABLE_IN_COMMIT_TIMESTAMPS, TIMESTAMPS_SINCE, TIMESTAMPS_SINCE_VERSION
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.log.commits import read_lines
from lakeport.kernel.log.segment import LogListing


class CommitInfo(msgspec.Struct, frozen=True):
    """A commit in a table's `history`."""

    version: int
    timestamp: int
    """Milliseconds since the epoch."""
    info: dict[str, Any]
    """The `commitInfo` action as written: operation, operationParameters, operationMetrics …"""

    @property
    def operation(self) -> str | None:
        return self.info.get("operation")


def format_time(milliseconds: int) -> str:
    """A commit time for messages: ISO 8601 in UTC."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms after the epoch"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class CommitTimes:
    """A table's commit times: in-commit timestamps once enabled, modification times before that."""

    def __init__(self, storage: StorageClient, listing: LogListing, metadata: Metadata, root: str) -> None:
        self._storage, self.listing, self._root = storage, listing, root
        configuration = metadata.configuration
        self._first_in_commit, self._enabled_at = None, None
        if ENABLE_IN_COMMIT_TIMESTAMPS.of(configuration, path=root):
            self._first_in_commit = TIMESTAMPS_SINCE_VERSION.of(configuration, path=root)
            self._enabled_at = TIMESTAMPS_SINCE.of(configuration, path=root)

    def under(self, metadata: Metadata) -> CommitTimes:
        """The times of the same commits under the properties of another version."""
        return CommitTimes(self._storage, self.listing, metadata, self._root)

    def of(self, version: int, info: dict[str, Any] | None = None) -> int:
        """The commit time in milliseconds since the epoch. `info` is the version's commitInfo, if already read."""
        file = self.listing.commits[version]
        if self._first_in_commit is None or version < self._first_in_commit:
            return self._modification_times[version]
        stamp = (read_lines(self._storage, file).info if info is None else info).get("inCommitTimestamp")
        if not isinstance(stamp, int):
            raise CorruptTableError("the commit has no inCommitTimestamp, but the table has them on", path=file.path)
        return stamp

    def version_at(self, timestamp: int) -> int:
        """The last version made at or before `timestamp`. Raises `VersionNotFoundError` if it is before the first
        readable version or after the latest commit."""
        versions = self._until(timestamp)
        candidates = self._comparable(timestamp, versions)
        # Times increase with versions, so a binary search reads few commits.
        index = bisect_right(candidates, timestamp, key=self.of)
        if not index:
            first = candidates[0] if candidates else versions[0]
            raise self._out_of_range(timestamp, self.of(first), "earlier than the earliest", versions)
        return candidates[index - 1]

    def version_from(self, timestamp: int) -> int:
        """The first version made at or after `timestamp`. Raises `VersionNotFoundError` if it is after the latest
        commit, or before the earliest one and older commits have been cleaned up."""
        versions = self._until(timestamp)
        candidates = self._comparable(timestamp, versions)
        found = bisect_left(candidates, timestamp, key=self.of)
        if found == len(candidates):  # none before in-commit timestamps: take the first version that has one
            found, candidates = bisect_right(versions, candidates[-1]) if candidates else 0, versions
        version = candidates[found]
        if version == versions[0] > 0 and timestamp < (earliest := self.of(version)):
            raise self._out_of_range(timestamp, earliest, "earlier than the earliest", versions)
        return version

    def readable_versions(self) -> list[int]:
        """The versions with a readable commit; a truncated log may have commits before its first checkpoint. Raises
        `VersionNotFoundError` if there are none."""
        earliest = self.listing.earliest
        versions = sorted(v for v in self.listing.commits if earliest is not None and v >= earliest)
        if not versions:
            raise VersionNotFoundError(f"no version of the table can be read [{self._root}]")
        return versions

    def _until(self, timestamp: int) -> list[int]:
        """The readable versions. Raises `VersionNotFoundError` if the latest is before `timestamp`.

        A damaged latest commit with unknown time is left out if it must be later than `timestamp`."""
        versions = self.readable_versions()
        try:
            latest = self.of(versions[-1])
        except CorruptTableError:
            if len(versions) > 1 and timestamp <= self.of(versions[-2]):
                return versions[:-1]
            raise
        if timestamp > latest:
            raise self._out_of_range(timestamp, latest, "later than the latest", versions)
        return versions

    def _comparable(self, timestamp: int, versions: list[int]) -> list[int]:
        """The versions to search for a time: those before in-commit timestamps, or those with them."""
        if self._first_in_commit is None or self._enabled_at is None:
            return versions
        in_commit = timestamp >= self._enabled_at
        return [v for v in versions if (v >= self._first_in_commit) == in_commit]

    @cached_property
    def _modification_times(self) -> dict[int, int]:
        """Modification times, adjusted forward to be strictly increasing."""
        times: dict[int, int] = {}
        previous: int | None = None
        for version in sorted(self.listing.commits):
            time = self.listing.commits[version].modification_time
            previous = time if previous is None else max(time, previous + 1)
            times[version] = previous
        return times

    def _out_of_range(self, timestamp: int, bound: int, relation: str, versions: list[int]) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"{format_time(timestamp)} is {relation} commit that can be read, which was made at {format_time(bound)} "
            f"[{self._root}]",
            earliest=versions[0],
            latest=versions[-1],
        )


def read_history(storage: StorageClient, listing: LogListing, times: CommitTimes, version: int) -> Iterator[CommitInfo]:
    """The commits up to `version`, newest first, as far back as the log goes."""
    while version in listing.commits:
        try:
            info = read_lines(storage, listing.commits[version]).info
        except MissingFileError:  # cleaned up concurrently
            return
        yield CommitInfo(version, times.of(version, info), info)
        version -= 1
