"""`Selection`: the part of a table that a frame reads, one version or the changes of a range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from lakeport.kernel.changes import ChangeScan, ChangeScanBuilder, TableChanges
from lakeport.kernel.expressions import Expression, format_expression
from lakeport.kernel.scan import PlanBuilder, Scan, ScanBuilder
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.source import LATEST, At, TableSource

_Plan = TypeVar("_Plan", bound=Scan | ChangeScan, covariant=True)


class Selection(Protocol[_Plan]):
    """The part of a table that a frame reads. Opened once, on first use, for all threads and views."""

    source: TableSource

    @property
    def is_open(self) -> bool: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def definition(self) -> Snapshot | None:
        """The schema, properties and protocol of the version; None if there are several."""

    def scan_builder(self, condition: Expression | None, limit: int | None) -> PlanBuilder[_Plan]:
        """A plan for all rows; files may be missing, as in `TableSource.snapshot`."""


class TableVersion:
    """A `Selection` of one version. Once open, it keeps that version, even when pickled."""

    def __init__(self, source: TableSource, at: At = LATEST) -> None:
        self.source, self._at = source, at
        self._opened: dict[str, Snapshot] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return TableVersion, (self.source, self.at)

    @property
    def is_open(self) -> bool:
        return bool(self._opened)

    @property
    def at(self) -> At:
        """The requested version; once open, by its number."""
        return At(self.definition.version) if self.is_open else self._at

    @property
    def definition(self) -> Snapshot:
        """The version, possibly without its files."""
        for opened in list(self._opened.values()):
            return opened
        return self._open_once("head", lambda: self.source.head(self._at))

    @property
    def schema(self) -> StructType:
        return self.definition.schema

    def snapshot(self, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        if not self.source.prunes:
            return self.definition
        key = f"{None if condition is None else format_expression(condition)} limit {limit}"
        return self._open_once(key, lambda: self.source.snapshot(self._at, condition, limit))

    def scan_builder(self, condition: Expression | None, limit: int | None) -> ScanBuilder:
        return self.snapshot(condition, limit).scan_builder()

    def _open_once(self, key: str, open_snapshot: Callable[[], Snapshot]) -> Snapshot:
        if key not in self._opened:
            snapshot = open_snapshot()
            key = key if self.source.prunes else "head"  # a shared table may turn out to be offered by its directory
            self._opened.setdefault(key, snapshot)
        return self._opened[key]


class VersionRange:
    """A `Selection` of changes. Once open, it keeps its versions, even when pickled."""

    definition = None

    def __init__(self, source: TableSource, start: At, end: At | TableVersion) -> None:
        self.source, self._start, self._end = source, start, end
        self._opened: list[TableChanges] = []

    def __reduce__(self) -> tuple[Any, ...]:
        for feed in self._opened[:1]:
            if feed.start <= feed.end:  # otherwise there is no commit between the two times
                return VersionRange, (self.source, At(feed.start), At(feed.end))
        return VersionRange, (self.source, self._start, self._end)

    @property
    def is_open(self) -> bool:
        return bool(self._opened)

    @property
    def feed(self) -> TableChanges:
        if not self._opened:
            self._opened.append(self.source.changes(self._start, self._last()))
        return self._opened[0]

    def _last(self) -> At:
        if isinstance(self._end, At):
            return self._end
        if (at := self._end.at) != LATEST:
            return at
        # A start past the latest version is "not found", not "after their end".
        return At(max(self._end.definition.version, self._start.version or 0))

    @property
    def schema(self) -> StructType:
        return self.feed.schema

    def scan_builder(self, condition: Expression | None, limit: int | None) -> ChangeScanBuilder:
        return self.feed.scan_builder()
