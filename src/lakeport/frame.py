"""`Frame` and `Changes`: lazy views of a table's rows or changes, narrowed by columns and a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack

import pyarrow as pa

from lakeport.engine import default_engine
from lakeport.kernel.changes import ChangeFile, ChangeScan, TableChanges
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, all_of, columns_in, format_expression, parse_filter
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.paths import parse_target
from lakeport.kernel.scan import PlanBuilder, Scan, ScanBuilder, ScanFile, scan_files_in
from lakeport.kernel.schema import CHANGE_COLUMNS, ROW_COMMIT_VERSION, ROW_ID, StructType, arrow_field
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.names import is_table_url, parse_table_name, parse_table_url
from lakeport.source import LATEST, At, PathTable, Selection, TableSource, TableVersion, VersionRange
from lakeport.workers.reading import RowReader, read_rows

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.client import AccessMode, ClientChoices, GivenProfile


def scan(
    target: str,
    *,
    access: AccessMode | None = None,
    cache: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Frame:
    """The Delta table at a path or URL (`s3://`, `gs://`, `az://`, `abfss://`, local), or the shared table
    `profile#share.schema.table`. Lazy: first use opens the latest version, and the frame and everything derived from it
    stay at that version. Call `scan` again to see newer ones.

    `access` selects how a shared table's files are read: through signed URLs (`url`) or in the table's own directory
    (`dir`); the default is what the provider offers. `cache` is a directory for data read through signed URLs.
    `storage_options` are obstore's; missing ones come from the environment, or from the server for a shared table read
    in its directory. `engine` is for tables at a path. Raises `ValueError` for options that do not fit together."""
    options = storage_options or {}
    return Frame.of(open_source(target, engine=engine, access=access, cache=cache, storage_options=options))


def open_source(
    target: str, *, profile: GivenProfile = None, engine: Engine | None = None, **options: Unpack[ClientChoices]
) -> TableSource:
    """The table that `scan` takes; given a profile, the shared table `share.schema.table`. Sends no request yet.

    Raises the errors of `scan`, and `OSError` if the profile cannot be read."""
    text = parse_target(target)
    if profile is None and not is_table_url(text):
        if options.get("access") is not None or options.get("cache") is not None:
            raise ValueError(f"access and cache are for shared tables, PROFILE#share.schema.table, not for {text}")
        return PathTable(engine or default_engine(options.get("storage_options")), text)
    if engine is not None:
        raise ValueError("a shared table is read with the client's own engine: engine is for tables at a path")
    from lakeport.client import ClientOptions, open_server, open_table  # lazy: local tables do not need the client

    client = ClientOptions(**options)
    if profile is not None:
        return open_table(open_server(profile, client), parse_table_name(text), client)
    url = parse_table_url(text)
    return open_table(open_server(url.profile, client), url.name, client)


_Plan = TypeVar("_Plan", bound=Scan | ChangeScan, covariant=True)


@dataclass(frozen=True, eq=False)
class Rows(Generic[_Plan]):
    """A lazy view of rows. Every method that narrows it returns a new view."""

    _reads: Selection[_Plan]
    _columns: tuple[str, ...] | None = None
    _filters: tuple[Expression, ...] = ()
    _limit: int | None = None

    @property
    def source(self) -> TableSource:
        return self._reads.source

    @property
    def engine(self) -> Engine:
        return self.source.engine

    @property
    def target(self) -> str:
        return self.source.target

    @property
    def most_rows(self) -> int | None:
        """The limit."""
        return self._limit

    @property
    def definition(self) -> Snapshot | None:
        """The schema, properties and protocol of the version being read; None if there are several."""
        return self._reads.definition

    @property
    def tracks_rows(self) -> bool:
        """Whether the rows include `_row_id` and `_row_commit_version`."""
        return False

    @property
    def whole_schema(self) -> StructType:
        """All columns available to select and filter."""
        return self._reads.schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([arrow_field(f) for f in self.selected])

    # Narrowing

    def select(self, *columns: str) -> Self:
        """Keep only these columns, in this order; `a.b` selects a struct field. Raises `UnknownColumnError`."""
        if not columns:
            raise ValueError("select at least one column")
        narrowed = replace(self, _columns=columns)
        if self._reads.is_open:
            _ = narrowed.selected
        return narrowed

    def where(self, condition: str | Expression) -> Self:
        """Keep the rows that satisfy a condition: SQL text, or an expression built with `lakeport.col`. Repeated calls
        are combined with AND. Raises `InvalidFilterError` with the position of the error."""
        parsed = parse_filter(condition) if isinstance(condition, str) else condition
        if not isinstance(parsed, Expression):
            raise ValueError(f"a filter is SQL text or an expression, not {type(condition).__name__}")
        return replace(self, _filters=(*self._filters, parsed))

    def limit(self, rows: int) -> Self:
        """Keep at most this many rows."""
        if rows < 0:
            raise ValueError(f"a limit is 0 or more, not {rows}")
        return replace(self, _limit=rows if self._limit is None else min(rows, self._limit))

    # Rows

    def to_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream the rows as Arrow batches of at most `batch_size` rows, in bounded memory."""
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"a batch has 1 row or more, not {batch_size}")
        plan = self.plan()
        reader = RowReader.for_scan(plan, self.schema)
        threads = 1 if self._limit is not None and self._limit <= _SMALL_LIMIT else None
        batches = read_rows(self.engine, reader, plan.files(), batch_size, threads)
        return batches if self._limit is None else _take(batches, self._limit)

    def to_reader(self) -> pa.RecordBatchReader:
        """Stream the rows as an Arrow reader, for Polars, DuckDB and others."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's C stream interface: a frame is input for anything that accepts such streams."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """A pandas DataFrame; `options` are passed to `pyarrow.Table.to_pandas`."""
        with _extra("pandas"):
            import pandas  # noqa: F401  # pyarrow's error does not explain how to install it
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

    def to_spark(self, spark: SparkSession, *, reader: Literal["python"] | None = None) -> DataFrame:
        """A Spark DataFrame with the same columns, filter and limit. Spark tasks read the files, with Spark's own
        reader where possible, unless `reader` is `python`."""
        with _extra("spark"):
            from lakeport.spark.frames import to_spark
        return to_spark(self, spark, reader)

    def count(self) -> int:
        """The number of rows: from log statistics if present, otherwise by reading as little as possible."""
        total = 0
        for rows in self._counted():
            total += rows
            if self._limit is not None and total >= self._limit:
                return self._limit
        return total

    def _counted(self) -> Iterator[int]:
        plan = self.plan(with_stats=True)
        unknown: list[ScanFile | ChangeFile] = []
        for file, rows in plan.counted_files():
            if rows is None:
                unknown.append(file)
            else:
                yield rows
        columns = columns_in(plan.remaining_filter) if plan.remaining_filter is not None else []
        narrow = self._without_columns()._read_plan([c.path for c in columns])
        yield from (batch.num_rows for batch in read_rows(self.engine, RowReader.for_scan(narrow), unknown))

    # Planning

    @cached_property
    def selected(self) -> StructType:
        """The selected columns, with the table's types."""
        schema = self.whole_schema
        return schema if self._columns is None else schema.select(map(schema.path_of, self._columns))

    def plan(self, *, with_stats: bool = False) -> _Plan:
        """The kernel's scan plan. Reads only the log."""
        paths = [column.path for condition in self._filters for column in columns_in(condition)]
        return self._read_plan(paths, with_stats=with_stats)

    def _read_plan(self, filter_columns: list[tuple[str, ...]], *, with_stats: bool = False) -> _Plan:
        """A scan of the selected columns and those the filter needs."""
        builder = self._scan_builder()
        schema = self.whole_schema
        if (condition := all_of(self._filters)) is not None:
            builder = builder.with_filter(condition)
        if self._columns is not None:
            paths = [*map(schema.path_of, self._columns), *filter_columns]
            builder = builder.with_read_schema(schema.select(paths))
        return (builder.with_stats() if with_stats else builder).build()

    def _scan_builder(self) -> PlanBuilder[_Plan]:
        return self._reads.scan_builder(all_of(self._filters), self._limit)

    def _without_columns(self) -> Self:
        return replace(self, _columns=())

    def _explained(self, decides: str, **facts: str) -> str:
        plan = self.plan()
        if plan.filter is not None:
            left = plan.remaining_filter
            facts["filter"] = format_expression(plan.filter)
            facts["on rows"] = f"nothing: {decides}" if left is None else format_expression(left)
        if self._limit is not None:
            facts["limit"] = str(self._limit)
        return "\n".join(f"{name:<10}{fact}" for name, fact in facts.items())


@dataclass(frozen=True, eq=False)
class Frame(Rows[Scan]):
    """The rows of a table at one version: the one given to `at`, or the latest when this frame or a related one first
    used the table. Later commits do not affect it; call `lakeport.scan` again to see them.

    A server that does not share a table's history may be unable to return the version again. Reads then raise
    `SharingError` with the code `VERSION_CHANGED`."""

    _reads: TableVersion
    _row_tracking: bool = False

    @classmethod
    def of(cls, source: TableSource) -> Frame:
        """The latest version of a table."""
        return cls(TableVersion(source))

    @property
    def snapshot(self) -> Snapshot:
        """The version that this frame reads, with all its files."""
        return self._reads.snapshot()

    @property
    def definition(self) -> Snapshot:
        """The version that this frame reads, possibly without its files."""
        return self._reads.definition

    @property
    def version(self) -> int:
        return self.definition.version

    @property
    def tracks_rows(self) -> bool:
        return self._row_tracking

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        tracking = [arrow_field(ROW_ID), arrow_field(ROW_COMMIT_VERSION)] if self._row_tracking else []
        return pa.schema([*super().schema, *tracking])

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """The commits up to this version, newest first."""
        return list(self.source.history(self.definition, limit))

    def files(self) -> list[ScanFile]:
        """The data files to read, with statistics. Opens none of them."""
        return list(self.plan(with_stats=True).files())

    def explain(self) -> str:
        """A readable description of what a read would do."""
        total = 0
        files: list[ScanFile] = []
        plan = self.plan()
        for batch in plan.scan_files():
            total += batch.data.num_rows
            files += scan_files_in(batch, plan.snapshot.root)
        return self._explained(
            "partitions decide",
            table=self.target if self.source.prunes else plan.snapshot.root,
            version=str(self.version),
            columns=", ".join(self.schema.names),
            files=f"{len(files)} of {total}, {sum(f.size for f in files):,} bytes",
        )

    def at(self, *, version: int | None = None, timestamp: int | str | datetime | None = None) -> Frame:
        """Another version: by number, or the latest at a time (milliseconds since the epoch, a datetime, or ISO 8601
        text; UTC if it has no zone)."""
        if (version is None) == (timestamp is None):
            raise ValueError("give either a version or a timestamp")
        return replace(self, _reads=TableVersion(self.source, _at(version, timestamp)))

    def with_row_tracking(self) -> Frame:
        """Add `_row_id` and `_row_commit_version`; the table must track rows."""
        return replace(self, _row_tracking=True)

    def changes(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        start_timestamp: int | str | datetime | None = None,
        end_timestamp: int | str | datetime | None = None,
    ) -> Changes:
        """The changes between two versions, inclusive; `end` defaults to the version that this frame reads. A
        timestamp, in the forms that `at` accepts, stands for the first version at or after it (start) or the last one
        at or before it (end). Columns, filters and limits set earlier still apply."""
        if (start is None) == (start_timestamp is None):
            raise ValueError("give either a start version or a start timestamp")
        if end is not None and end_timestamp is not None:
            raise ValueError("give either an end version or an end timestamp")
        given = _at(end, end_timestamp)
        last = self._reads if given == LATEST else given
        columns = None if self._columns is None else (*self._columns, *CHANGE_COLUMNS.names)
        reads = VersionRange(self.source, _at(start, start_timestamp), last)
        return Changes(reads, columns, self._filters, self._limit)

    def _scan_builder(self) -> ScanBuilder:
        builder = self._reads.scan_builder(all_of(self._filters), self._limit)
        return builder.with_row_tracking() if self._row_tracking else builder

    def _without_columns(self) -> Frame:
        return replace(self, _columns=(), _row_tracking=False)


@dataclass(frozen=True, eq=False)
class Changes(Rows[ChangeScan]):
    """The rows that a table's commits inserted, updated and deleted, oldest commit first, with `_change_type`
    (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`.

    Raises `ChangeFeedError` where the feed was off or the schema was different, and `VersionNotFoundError` for versions
    that the table never had or no longer has."""

    _reads: VersionRange

    @property
    def feed(self) -> TableChanges:
        """The version range to read. Concurrent threads get the same one."""
        return self._reads.feed

    def files(self) -> list[ChangeFile]:
        """The files to read, with statistics. Opens none of them."""
        return list(self.plan(with_stats=True).files())

    def explain(self) -> str:
        """A readable description of what a read would do."""
        files = list(self.plan().files())
        return self._explained(
            "partitions and commits decide",
            table=self.target if self.source.prunes else self.feed.root,
            versions=f"{self.feed.start} to {self.feed.end}",
            columns=", ".join(self.schema.names),
            files=f"{len(files)}, {sum(f.size for f in files):,} bytes",
        )


_SMALL_LIMIT = 10_000
"""Up to this many rows, one thread is enough: read-ahead would be wasted."""


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Explain how to install a missing optional package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is not installed: pip install 'lakeport[{name}]'", name=name) from error


def _at(version: int | None, time: int | str | datetime | None) -> At:
    if version is not None and not isinstance(version, int):
        raise ValueError(f"{version!r} is not a version: a version is a number")
    if not isinstance(time, int | str | datetime | None):
        raise ValueError(f"{time!r} is not a time: give milliseconds, a datetime or ISO 8601 text")
    return At(version, _parse_time(time) if isinstance(time, str) else time)


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
