"""A conversion run: snapshots are written one by one, and published in groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from lakeport.errors import StorageError
from lakeport.iceberg.delta.change import KnownFiles, TableChange
from lakeport.iceberg.snapshots.writer import SnapshotWriter
from lakeport.iceberg.table.metadata import apply_updates
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets.target import CommitLostError, Published, Target
from lakeport.kernel.engine import Engine
from lakeport.workers import Workers

_SNAPSHOTS_AT_ONCE = 50
_SECONDS_AT_MOST = 10.0
"""Limits of a group published together: a crash loses little work, and metadata is not rewritten too often."""


@dataclass(frozen=True)
class Plan:
    """The steps to update a mirror."""

    kind: str
    start: Json
    """The metadata to start from."""
    updates: list[Json]
    """Updates before the first snapshot."""
    whole: TableChange | None
    """The whole table, replacing the previous contents."""
    changes: Callable[[KnownFiles], Iterator[TableChange]]
    """The later changes, given the mirror's known files."""

    @property
    def begun(self) -> Json:
        """The metadata before the first snapshot."""
        return apply_updates(self.start, self.updates, 0)


class Session:
    """Writes snapshots and publishes them in groups."""

    def __init__(self, engine: Engine, target: Target, plan: Plan, base: Published | None, workers: Workers) -> None:
        """`base` is the published state, `plan` the intended one."""
        self._engine, self._target, self._plan = engine, target, plan
        self.published, self._start = base, plan.start
        self._writer = SnapshotWriter(engine, target.location, plan.begun, workers)
        self._writer.updates += plan.updates

    def write(self, tell: Callable[[int], object]) -> Iterator[int]:
        """Execute the plan; yield the versions that got a snapshot, once published. `tell` is called with each version
        when its snapshot is written."""
        waiting: list[int] = []
        since = time.monotonic()
        for change, whole in self._all_changes():
            self._writer.apply(change, whole=whole)
            waiting.append(change.version)
            if len(waiting) >= _SNAPSHOTS_AT_ONCE or time.monotonic() - since > _SECONDS_AT_MOST:
                self._publish()
                yield from waiting
                waiting, since = [], time.monotonic()
            tell(change.version)
        if self._writer.updates:
            self._publish()
        yield from waiting

    def _all_changes(self) -> Iterator[tuple[TableChange, bool]]:
        if self._plan.whole is not None:
            yield self._plan.whole, True
        for change in self._plan.changes(self._writer):
            yield change, False

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
