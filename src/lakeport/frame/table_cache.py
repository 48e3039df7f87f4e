"""Tables in object stores that this process has opened: another scan reads only what is new in the log."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from threading import Lock
from typing import Any

from lakeport.engine import default_engine
from lakeport.errors import LakeportError
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.log import LogSegment, is_commit
from lakeport.kernel.snapshot import Snapshot
from lakeport.source import LATEST, At, PathTable

_MOST_TABLES = 16
_MOST_BYTES = 64 << 20
"""About the most memory that the logs of cached tables take."""
_UNPACKED = 8
"""How many times as large as its file a checkpoint is in memory."""


class CachedPathTable(PathTable):
    """A table that refreshes the last latest version instead of opening it again."""

    def __init__(self, open_engine: Callable[[], Engine], target: str) -> None:
        super().__init__(open_engine(), target)
        self._open_engine = open_engine
        self._latest: Snapshot | None = None

    def __reduce__(self) -> tuple[type[PathTable], tuple[Engine, str]]:
        return PathTable, (self.engine, self.target)

    @property
    def size(self) -> int:
        """About the bytes that it keeps in memory."""
        latest = self._latest
        return 0 if latest is None else _size(latest.segment)

    def snapshot(self, at: At, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        if at != LATEST:
            return super().snapshot(at, condition, limit)
        known, self._latest = self._latest, None
        latest = super().snapshot(at) if known is None else self._refreshed(known)
        if _can_be_refreshed(latest):
            self._latest = latest
        return latest

    def _refreshed(self, known: Snapshot) -> Snapshot:
        try:
            return known.refresh()
        except LakeportError:  # the table may be gone, or files with credentials replaced: begin anew
            self.engine = self._open_engine()
            return super().snapshot(LATEST)


def _size(segment: LogSegment) -> int:
    checkpoint = segment.checkpoint.files if segment.checkpoint else ()
    return sum(commit.file.size for commit in segment.commits) + _UNPACKED * sum(file.size for file in checkpoint)


def _can_be_refreshed(snapshot: Snapshot) -> bool:
    """Whether it has little in memory, and its last commit shows whether another table has replaced it."""
    segment = snapshot.segment
    has_sidecars = snapshot.protocol.has_reader_feature("v2Checkpoint")  # of unknown size
    return (
        is_commit(segment.latest_file.path, segment.version)
        and segment.latest_file.tag is not None
        and not has_sidecars
        and _size(segment) <= _MOST_BYTES
    )


class _Tables:
    """The tables opened last, by whatever distinguishes them. Thread-safe."""

    def __init__(self) -> None:
        self._tables: OrderedDict[Hashable, CachedPathTable] = OrderedDict()
        self._lock = Lock()

    def of(self, key: Hashable, open_table: Callable[[], CachedPathTable]) -> CachedPathTable:
        with self._lock:
            table = self._tables.get(key) or open_table()
            self._tables[key] = table
            self._tables.move_to_end(key)
            while len(self._tables) > _MOST_TABLES or sum(t.size for t in self._tables.values()) > _MOST_BYTES:
                self._tables.popitem(last=False)
            return table


_TABLES = _Tables()


def cached_table(target: str, options: Mapping[str, Any]) -> PathTable:
    """The table at a URL, cached if it was opened with the same options, environment and process."""

    def open_engine() -> Engine:
        return default_engine(options)

    key = (target, tuple(sorted(options.items())), tuple(os.environ.items()), os.getpid())
    try:
        hash(key)
    except TypeError:  # an option with no identity
        return PathTable(open_engine(), target)
    return _TABLES.of(key, lambda: CachedPathTable(open_engine, target))
