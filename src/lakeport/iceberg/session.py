"""A conversion run: snapshots are written one by one, and published in groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain

from lakeport.errors import StorageError
from lakeport.iceberg.delta.change import TableChange
from lakeport.iceberg.delta.source import Increment
from lakeport.iceberg.snapshots.writer import SnapshotWriter
from lakeport.iceberg.table.metadata import apply_updates
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets.target import CommitLostError, Published, Target
from lakeport.kernel.engine import Engine
from lakeport.workers import Workers

_SNAPSHOTS_AT_ONCE = 50
_SECONDS_AT_MOST = 10.0
"""Limits of a group published together: a crash loses little work, and metadata is not rewritten too often."""


class Session:
    """Writes snapshots and publishes them in groups."""

    def __init__(
        self, engine: Engine, target: Target, base: Published | None, start: Json, updates: list[Json], workers: Workers
    ) -> None:
        """`base` is the published state, `start` its metadata or that of a new table; `updates` come before the first
        snapshot."""
        self._engine, self._target = engine, target
        self.published, self._start = base, start
        self._writer = SnapshotWriter(engine, target.location, apply_updates(start, updates, 0), workers)
        self._writer.updates += updates

    def write(
        self, whole: TableChange | None, increment: Increment | None, squash: bool, tell: Callable[[int], object]
    ) -> Iterator[int]:
        """Write a snapshot of the whole table, which replaces the previous contents, and those of later changes. Yields
        the versions that got a snapshot, once published. `tell` is called with each version when its snapshot is
        written."""
        waiting: list[int] = []
        since = time.monotonic()
        later = increment.changes(self._writer, squash=squash) if increment else ()
        for change in chain([whole] if whole else [], later):
            self._writer.apply(change, whole=change is whole)
            waiting.append(change.version)
            if len(waiting) >= _SNAPSHOTS_AT_ONCE or time.monotonic() - since > _SECONDS_AT_MOST:
                self._publish()
                yield from waiting
                waiting, since = [], time.monotonic()
            tell(change.version)
        if self._writer.updates:
            self._publish()
        yield from waiting

    def _publish(self) -> None:
        written = list(self._writer.written)
        self._writer.written.clear()  # keep them unless publishing is known to have failed
        try:
            self.published = self._target.publish(self.published, self._start, self._writer.finished_updates())
        except CommitLostError:
            self._writer.written += written
            raise
        self._start = self.published.metadata
        self._writer.restart(self._start)

    def discard(self) -> None:
        """Remove written but unpublished files. `clean` finds any that remain."""
        with suppress(StorageError):
            self._engine.storage.delete(self._writer.written)
