"""The versions that a stream has seen: each is fetched once and kept until processed. Requests for the latest version
are rate-limited."""

from __future__ import annotations

import time
from collections.abc import Callable

from lakeport.errors import LakeportError, StreamError
from lakeport.kernel.changes import ChangeFile
from lakeport.kernel.scan import ScanFile
from lakeport.source import TableSource
from lakeport.spark.stream.files import Supply, VersionFiles, Window
from lakeport.spark.stream.offsets import Admission, StreamOffset


class Backlog:
    """Files by version, fetched lazily, at most `versions_per_call` versions at once."""

    def __init__(self, source: TableSource, supply: Supply, versions_per_call: int) -> None:
        self._source, self._supply, self._per_call = source, supply, versions_per_call
        self._windows: list[Window] = []

    def advance(self, start: StreamOffset, latest: int, admission: Admission) -> StreamOffset:
        """Where a batch that starts at `start` ends: at the latest version, at its limits, or before an unavailable
        version. A batch of the initial snapshot contains no later commits: see `start_of`. A limited batch makes at
        most one call."""
        end, called = start, False
        while end.is_starting_version or end.version <= latest:
            if called and admission.is_limited and not self._has(end):
                break
            try:
                version = self._version(end, latest)
            except LakeportError:
                if end == start:
                    raise
                break  # the next batch starts there, and fails
            called = True
            taken = admission.take(version.files, end.index + 1, whole=version.whole)
            if end.index + 1 + taken < len(version.files):
                return end.after(taken)
            end = end.next_version()
            if start.is_starting_version:
                break
        return end

    def between(self, start: StreamOffset, end: StreamOffset) -> list[ScanFile | ChangeFile]:
        """The files of a batch. Raises `StreamError` if the table no longer has them."""
        files: list[ScanFile | ChangeFile] = []
        start = start_of(start, end)
        last = end.version if end.index >= 0 else end.version - 1
        position = start
        while position.version < end.version:
            files += self._version(position, last).files[position.index + 1 :]
            position = position.next_version()
        if position.index < end.index:
            found = self._version(position, last).files
            _check_there(end, len(found))
            files += found[position.index + 1 : end.index + 1]
        return files

    def trim(self, end: StreamOffset) -> None:
        """Drop everything before an offset."""
        windows, self._windows = self._windows, []
        for window in windows:
            if window.last < end.version or window.is_snapshot > end.is_starting_version:
                self._source.forget(window.root)
            else:
                self._windows.append(window)

    def _version(self, offset: StreamOffset, last: int) -> VersionFiles:
        return self._window(offset, last).files_of(offset.version)

    def _has(self, offset: StreamOffset) -> bool:
        return any(window.holds(offset.version, offset.is_starting_version) for window in self._windows)

    def _window(self, offset: StreamOffset, last: int) -> Window:
        for window in self._windows:
            if window.holds(offset.version, offset.is_starting_version):
                return window
        if offset.is_starting_version:
            window = self._supply.snapshot(offset.version)
        else:
            window = self._supply.commits(offset.version, min(last, offset.version + self._per_call - 1))
        self._windows.append(window)
        return window


def _check_there(end: StreamOffset, files: int) -> None:
    """Raises `StreamError` if the offset's version has fewer files."""
    if end.index >= files:
        raise StreamError(
            f"the stream has read {end.index + 1} files of version {end.version}, which now has only {files}: it is "
            "not the same table any more; start the stream with a new checkpoint location",
            version=end.version,
        )


def start_of(start: StreamOffset, end: StreamOffset) -> StreamOffset:
    """The start of a batch that ends at `end`. Spark stores only the ends of batches: if it repeats the first one after
    a restart, `start` is computed anew, and the latest version may have changed. So the version of the initial snapshot
    is taken from `end`."""
    version = end.version if end.is_starting_version else end.version - 1
    if not start.is_starting_version or start.version == version:
        return start
    return StreamOffset(end.table_id, version, is_starting_version=True)


class LatestVersion:
    """The latest version; later ones are ignored once it is frozen."""

    def __init__(
        self, ask: Callable[[], int], seconds: float, known: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`known` has just been fetched."""
        self._ask, self._seconds, self._now = ask, seconds, now
        self.known = known
        self._asked_at = now()
        self._is_frozen = False

    def current(self) -> int:
        """The known version; refreshed if it is old enough."""
        if not self._is_frozen and self._now() - self._asked_at >= self._seconds:
            self.known, self._asked_at = self._ask(), self._now()
        return self.known

    def freeze(self) -> None:
        self.current()
        self._is_frozen = True
