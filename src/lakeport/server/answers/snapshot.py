"""The files of one version of a table: all, those that match a predicate, or a page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import LakeportError
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.expressions import Expression, all_of
from lakeport.kernel.schema import StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.values import scalar_of
from lakeport.server.answers.formats import needs_of_snapshot
from lakeport.server.answers.opened_tables import SharedSnapshot
from lakeport.server.answers.plan import FILE, FileRow, Files, Page, Part, Plan, State, chunked, rows_of_scan
from lakeport.sharing.models import QueryRequest
from lakeport.sharing.predicates import parse_json_predicate, parse_sql_predicate

_log = logging.getLogger(__name__)

_SORTED_AT_ONCE = 100_000
"""Paths sorted per batch when looking for those of a page."""

_MOST_SQL_HINTS, _LONGEST_SQL = 100, 4_000
"""Parsing SQL takes about 25 µs a character: more would cost more than the skipped files save."""

_LONGEST_LOGGED = 1_000


def read_hints(request: QueryRequest, snapshot: Snapshot, *, use_sql: bool, use_json: bool) -> Expression | None:
    """The predicate of the hints, bound, and wider than the client's: every row that it wants satisfies it. Invalid
    hints are logged and ignored, as the protocol asks."""
    sql, json = request.predicate_hints or [], request.json_predicate_hints
    if len(sql) > _MOST_SQL_HINTS or sum(map(len, sql)) > _LONGEST_SQL:
        _log.info("ignored %d predicate hints: too many, or too long", len(sql))
        use_sql = False
    predicates = [_parsed(parse_sql_predicate, text, snapshot) for text in sql if use_sql]
    predicates += [_parsed(parse_json_predicate, json, snapshot)] if json and use_json else []
    return all_of(predicate for predicate in predicates if predicate is not None)


_Parse = Callable[[str, StructType, Sequence[str]], Expression]


def _parsed(parse: _Parse, text: str, snapshot: Snapshot) -> Expression | None:
    try:
        return parse(text, snapshot.schema, snapshot.partition_columns)
    except LakeportError as error:
        reason, hint = str(error)[:_LONGEST_LOGGED], text[:_LONGEST_LOGGED]
        _log.info("ignored a predicate hint: %s", reason, extra={"fields": {"hint": hint}})
        return None


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The start of a page: after the file at this path; and how many rows are still wanted."""

    after: str
    rows_left: int | None = None


def plan_metadata(shared: SharedSnapshot) -> Plan:
    return Plan(shared.version, needs_of_snapshot(shared), iter(_head(shared, None)), {"version": shared.version})


def _head(shared: SharedSnapshot, version: int | None) -> list[State]:
    return [State(shared.delta.protocol), State(shared.delta.metadata, version, shared.totals)]


class SnapshotFiles:
    """The files of a snapshot that may hold rows that a request wants."""

    def __init__(self, shared: SharedSnapshot, request: QueryRequest, predicate: Expression | None) -> None:
        self._shared, self._request, self._scan = shared, request, shared.scan
        if predicate is not None:
            self._scan = shared.delta.scan_builder().with_log_details().with_filter(predicate).build()
        # Rows that a predicate rejects must not count.
        self._limit = None if request.predicate_hints or request.json_predicate_hints else request.limit_hint

    def plan(self, page: Page[Position], size: int | None) -> Plan:
        """All files, unordered; with `size`, those of a page."""
        details = {
            "version": page.first,
            "predicateHints": self._request.predicate_hints,
            "jsonPredicateHints": self._request.json_predicate_hints,
            "limitHint": self._request.limit_hint,
        }
        return Plan(page.first, needs_of_snapshot(self._shared), self._parts(page, size), details)

    def _parts(self, page: Page[Position], size: int | None) -> Iterator[Part]:
        by_version = self._request.version is not None or self._request.timestamp is not None
        version, timestamp = (page.first, self._shared.delta.timestamp) if by_version else (None, None)
        yield from _head(self._shared, version)
        rows, following = (self._all(), None) if size is None else self._page(page.start, size)
        for some in chunked(rows):
            yield Files(FILE, some, version, timestamp)
        if following is not None:
            yield msgspec.structs.replace(page, start=following)

    def _all(self) -> Iterator[FileRow]:
        rows = (row for batch in self._batches() for row in rows_of_scan(batch, self._shared.delta.root))
        return _limited(rows, self._limit)

    def _page(self, start: Position | None, size: int) -> tuple[Iterable[FileRow], Position | None]:
        """The files of a page, and the start of the next, if any. Pages are ordered by path, so they are the same on
        every server."""
        after, limit = (start.after, start.rows_left) if start else (None, self._limit)
        rows, more = self._page_rows(after, size)
        kept = list(_limited(rows, limit))
        left = None if limit is None else limit - sum(map(_row_count, kept))
        more = more and len(kept) == len(rows) and (left is None or left > 0)
        return kept, Position(kept[-1].key, left) if more else None

    def _page_rows(self, after: str | None, size: int) -> tuple[list[FileRow], bool]:
        """The files after a path, in order, and whether there are more. Of other files, only paths are in memory.

        A damaged log may repeat a path: this page includes all files of its last path, even beyond `size`."""
        before = self._nth_after(after, size + 1)
        rows = self._rows_where(lambda paths: _between(paths, after, before))
        if rows or before is None:
            return rows, before is not None
        rows = self._rows_where(lambda paths: pc.equal(paths, scalar_of(before, pa.string())))
        return rows, self._nth_after(before, 1) is not None

    def _nth_after(self, after: str | None, n: int) -> str | None:
        paths = (batch.column("path") for batch in self._batches())
        return _nth_smallest((some.filter(_between(some, after, None)) for some in paths), n)

    def _rows_where(self, condition: Callable[[pa.Array], pa.Array]) -> list[FileRow]:
        within = (batch.filter(condition(batch.column("path"))) for batch in self._batches())
        rows = [row for batch in within if batch.num_rows for row in rows_of_scan(batch, self._shared.delta.root)]
        return sorted(rows, key=lambda row: row.key.encode())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return (batch.selected() for batch in self._scan.scan_files())


def _between(paths: pa.Array, after: str | None, before: str | None) -> pa.Array:
    """Which paths are after one and before the other."""
    later = pc.true_unless_null(paths) if after is None else pc.greater(paths, scalar_of(after, pa.string()))
    return later if before is None else pc.and_(later, pc.less(paths, scalar_of(before, pa.string())))


def _nth_smallest(paths: Iterable[pa.Array], n: int) -> str | None:
    """The n-th path in order; None if there are fewer."""
    kept: list[pa.Array] = []
    for some in paths:
        kept.append(some)
        if sum(map(len, kept)) > _SORTED_AT_ONCE + n:
            kept = [_smallest(kept, n)]
    smallest = _smallest(kept, n)
    return max(smallest.to_pylist(), key=str.encode) if len(smallest) == n else None


def _smallest(paths: list[pa.Array], n: int) -> pa.Array:
    whole = pa.concat_arrays(paths) if paths else pa.nulls(0, pa.string())
    return whole if len(whole) <= n else whole.take(pc.select_k_unstable(whole, k=n, sort_keys=[("", "ascending")]))


def _limited(rows: Iterable[FileRow], limit: int | None) -> Iterator[FileRow]:
    """Files until they hold enough rows; a file with an unknown row count is treated as empty."""
    if limit is None:
        yield from rows
        return
    left = limit
    for row in rows:
        if left <= 0:
            return
        yield row
        left -= _row_count(row)


def _row_count(row: FileRow) -> int:
    records = decode_num_records(row.stats) or 0
    return max(0, records - (row.vector.cardinality if row.vector else 0))
