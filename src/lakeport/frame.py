"""`Frame`: a table, columns, a filter and a version; nothing is read until rows are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeport.engine import default_engine
from lakeport.engine.reading import RowReader, read_rows
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, all_of, columns_in, format_expression
from lakeport.kernel.history import CommitInfo
from lakeport.kernel.scan import Scan
from lakeport.kernel.scan_files import ROW_COMMIT_VERSION, ROW_ID, ScanFile, scan_files_in
from lakeport.kernel.schema import StructType, arrow_field
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.sql import parse_filter

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


def scan(target: str, *, storage_options: Mapping[str, Any] | None = None, engine: Engine | None = None) -> Frame:
    """The Delta table at a path or a URL (`s3://`, `gs://`, `az://`, `abfss://`, a disk). It is looked at when the
    first question needs it, and stays at the version that it had then.

    `storage_options` are obstore's; what they leave out comes from the environment."""
    return Frame(engine or default_engine(storage_options), str(target))


@dataclass(frozen=True, eq=False)
class Frame:
    """A lazy view of a table. Every method that narrows it gives a new frame."""

    engine: Engine
    target: str
    _version: int | None = None
    _timestamp: int | datetime | None = None
    _columns: tuple[str, ...] | None = None
    _filters: tuple[Expression, ...] = ()
    _limit: int | None = None
    _row_tracking: bool = False
    _opened: dict[str, Snapshot] = field(default_factory=dict, repr=False)
    """The snapshot, once it is loaded; shared by all frames of the same version."""

    # What it is

    @property
    def snapshot(self) -> Snapshot:
        """The version of the table that this frame reads."""
        if "snapshot" not in self._opened:
            table = Table.for_path(self.engine, self.target)
            if self._version is not None:
                opened = table.snapshot_at_version(self._version)
            elif self._timestamp is not None:
                opened = table.snapshot_at_timestamp(self._timestamp)
            else:
                opened = table.latest_snapshot()
            self._opened["snapshot"] = opened
        return self._opened["snapshot"]

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        fields = [arrow_field(f) for f in self._selected]
        if self._row_tracking:
            fields += [arrow_field(ROW_ID), arrow_field(ROW_COMMIT_VERSION)]
        return pa.schema(fields)

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """The commits up to this version, newest first."""
        return list(self.snapshot.history(limit))

    def files(self) -> list[ScanFile]:
        """The data files that have to be read, with their statistics. Opens none of them."""
        return list(self._scan(with_stats=True).files())

    def explain(self) -> str:
        """What a read would do, for people."""
        plan = self._scan()
        total = 0
        files: list[ScanFile] = []
        for batch in plan.scan_files():
            total += batch.data.num_rows
            files += scan_files_in(batch, self.snapshot.root)
        lines = [
            f"table     {self.snapshot.root}",
            f"version   {self.version}",
            f"columns   {', '.join(self.schema.names)}",
            f"files     {len(files)} of {total}, {sum(f.size for f in files):,} bytes",
        ]
        if plan.filter is not None:
            left = plan.remaining_filter
            lines.append(f"filter    {format_expression(plan.filter)}")
            lines.append(f"on rows   {'nothing: partitions decide' if left is None else format_expression(left)}")
        if self._limit is not None:
            lines.append(f"limit     {self._limit}")
        return "\n".join(lines)

    # Narrowing

    def select(self, *columns: str) -> Frame:
        """These columns only, in this order; `a.b` takes one field of a struct. Raises `UnknownColumnError`."""
        if not columns:
            raise ValueError("select at least one column")
        narrowed = replace(self, _columns=columns)
        if "snapshot" in self._opened:
            _ = narrowed._selected
        return narrowed

    def where(self, condition: str | Expression) -> Frame:
        """The rows for which the condition holds: SQL text, or an expression made with `lakeport.col`. Several are
        combined by AND. Raises `InvalidFilterError`, saying where the text is wrong."""
        parsed = parse_filter(condition) if isinstance(condition, str) else condition
        if not isinstance(parsed, Expression):
            raise ValueError(f"a filter is SQL text or an expression, not {type(condition).__name__}")
        return replace(self, _filters=(*self._filters, parsed))

    def limit(self, rows: int) -> Frame:
        """At most so many rows."""
        if rows < 0:
            raise ValueError(f"a limit is 0 or more, not {rows}")
        return replace(self, _limit=rows if self._limit is None else min(rows, self._limit))

    def at(self, *, version: int | None = None, timestamp: int | str | datetime | None = None) -> Frame:
        """Another version: by number, or the one that was the latest at a time (milliseconds since the epoch, a
        datetime, or ISO 8601 text; UTC if it has no zone)."""
        if (version is None) == (timestamp is None):
            raise ValueError("give either a version or a timestamp")
        moment = _parse_time(timestamp) if isinstance(timestamp, str) else timestamp
        for given, kinds in ((version, int), (moment, (int, datetime))):
            if given is not None and not isinstance(given, kinds):
                raise ValueError(f"{given!r} is not a version, nor milliseconds, a datetime or ISO 8601 text")
        return replace(self, _version=version, _timestamp=moment, _opened={})

    def with_row_tracking(self) -> Frame:
        """The rows with `_row_id` and `_row_commit_version`, for a table that tracks rows."""
        return replace(self, _row_tracking=True)

    # Rows

    def to_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of Arrow batches, of at most `batch_size` rows; memory stays bounded."""
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"a batch has 1 row or more, not {batch_size}")
        plan = self._scan()
        output = self.schema
        files = plan.files()
        reader = RowReader.for_scan(plan, output)
        threads = 1 if self._limit is not None and self._limit <= _SMALL_LIMIT else None
        batches = read_rows(self.engine, reader, files, batch_size, threads)
        return batches if self._limit is None else _take(batches, self._limit)

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as an Arrow reader, which Polars, DuckDB and others take."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`."""
        with _extra("pandas"):
            import pandas  # noqa: F401  # pyarrow's message does not say how to get it
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        with _extra("polars"):
            import polars as pl
        return pl.DataFrame(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation over the rows."""
        with _extra("duckdb"):
            import duckdb
        return (connection or duckdb.connect()).from_arrow(self.to_arrow())

    def count(self) -> int:
        """How many rows there are: from the log where its statistics tell, else by reading as little as possible."""
        plan = self._scan(with_stats=True)
        total = 0
        for batch in self._counted(plan):
            total += batch
            if self._limit is not None and total >= self._limit:
                return self._limit
        return total

    def _counted(self, plan: Scan) -> Iterator[int]:
        unknown = []
        for file in plan.files():
            records = file.num_records if plan.remaining_filter is None else None
            if records is None:
                unknown.append(file)
            else:
                yield records
        columns = columns_in(plan.remaining_filter) if plan.remaining_filter is not None else []
        narrow = replace(self, _columns=(), _row_tracking=False)._read_plan([c.path for c in columns])
        reader = RowReader.for_scan(narrow)
        yield from (batch.num_rows for batch in read_rows(self.engine, reader, unknown))

    # Planning

    @cached_property
    def _selected(self) -> StructType:
        schema = self.snapshot.schema
        return schema if self._columns is None else schema.select(map(schema.path_of, self._columns))

    def _scan(self, *, with_stats: bool = False) -> Scan:
        paths = [column.path for condition in self._filters for column in columns_in(condition)]
        return self._read_plan(paths, with_stats=with_stats)

    def _read_plan(self, filter_columns: list[tuple[str, ...]], *, with_stats: bool = False) -> Scan:
        """A scan of the selected columns and of those that the filter needs."""
        schema = self.snapshot.schema
        builder = self.snapshot.scan_builder()
        if (condition := all_of(self._filters)) is not None:
            builder = builder.with_filter(condition)
        if self._columns is not None:
            paths = [*map(schema.path_of, self._columns), *filter_columns]
            builder = builder.with_read_schema(schema.select(paths))
        if self._row_tracking:
            builder = builder.with_row_tracking()
        return (builder.with_stats() if with_stats else builder).build()


_SMALL_LIMIT = 10_000
"""Up to so many rows one thread is enough: reading ahead would be wasted."""


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Says how to get an optional package that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is not installed: pip install 'lakeport[{name}]'", name=name) from error


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write it like 2026-01-31T12:00:00Z") from None


def _take(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    while rows > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
    close = getattr(batches, "close", None)
    if close is not None:
        close()
