"""`Rows`: what frames and changes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar, overload

import pyarrow as pa

from lakeport.engine.parquet import load_polars
from lakeport.kernel.changes import ChangeFile, ChangeScan
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, all_of, columns_in, format_expression, parse_filter
from lakeport.kernel.scan import PlanBuilder, Scan, ScanFile
from lakeport.kernel.schema import StructType, arrow_field
from lakeport.kernel.snapshot import Snapshot
from lakeport.source import TableSource
from lakeport.workers.reading import RowReader, read_rows, read_whole

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

_Plan = TypeVar("_Plan", bound=Scan | ChangeScan, covariant=True)

_SMALL_LIMIT = 10_000
"""Up to this many rows, one thread is enough: read-ahead would be wasted."""


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
    def row_limit(self) -> int | None:
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
    def full_schema(self) -> StructType:
        """All columns available to select and filter."""
        return self._reads.schema

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([arrow_field(f) for f in self.selected])

    @property
    def narrows_by_name(self) -> bool:
        """Whether each column of `schema` can be selected and filtered by its name: not the ids of rows, nor a struct
        without some of its fields."""
        whole = self.full_schema
        return not self.tracks_rows and all(whole.find(field.name) == field for field in self.selected)

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
            raise ValueError(f"a filter must be SQL text or an expression, not {type(condition).__name__}")
        return replace(self, _filters=(*self._filters, parsed))

    def limit(self, rows: int) -> Self:
        """Keep at most this many rows."""
        if rows < 0:
            raise ValueError(f"the limit must be 0 or more, not {rows}")
        return replace(self, _limit=rows if self._limit is None else min(rows, self._limit))

    # Rows

    def to_batches(self, batch_size: int | None = None) -> Iterator[pa.RecordBatch]:
        """Stream the rows as Arrow batches of at most `batch_size` rows, in bounded memory: wide rows and long texts
        make batches of fewer rows."""
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, not {batch_size}")
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
        if self._limit is not None:
            return pa.Table.from_batches(self.to_batches(), self.schema)
        plan = self.plan()
        reader = RowReader.for_scan(plan, self.schema)
        files: list[ScanFile | ChangeFile] = list(plan.files())
        if plan.remaining_filter is not None:
            load_polars(file.status for file in files)
        return pa.Table.from_batches(read_whole(self.engine, reader, files), self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """A pandas DataFrame; `options` are passed to `pyarrow.Table.to_pandas`."""
        with optional_package("pandas"):
            import pandas  # noqa: F401  # pyarrow's error does not explain how to install it
        return self.to_arrow().to_pandas(**options)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...
    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...
    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """A Polars DataFrame; or a LazyFrame, which reads only the columns, row groups and files that a query needs
        when it is collected."""
        with optional_package("polars"):
            import polars as pl
        if lazy:
            from lakeport.relations.polars_frame import lazy_frame

            return lazy_frame(self)
        return pl.DataFrame(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A lazy DuckDB relation over the rows: each query on it reads only the columns, row groups and files it needs.
        The version is fixed; if its files are vacuumed in between, a query fails. DuckDB reads files on a local disk
        itself where that gives exactly these rows, and otherwise gets Arrow batches."""
        with optional_package("duckdb"):
            import duckdb
        from lakeport.relations.duckdb_relation import make_relation

        return make_relation(self, connection or duckdb.connect())

    def to_spark(self, spark: SparkSession, *, reader: Literal["python"] | None = None) -> DataFrame:
        """A Spark DataFrame with the same columns, filter and limit. Spark tasks read the files, with Spark's own
        reader where possible, unless `reader` is `python`."""
        with optional_package("spark"):
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
        schema = self.full_schema
        return schema if self._columns is None else schema.select(map(schema.path_of, self._columns))

    def plan(self, *, with_stats: bool = False) -> _Plan:
        """The kernel's scan plan. Reads only the log."""
        paths = [column.path for condition in self._filters for column in columns_in(condition)]
        return self._read_plan(paths, with_stats=with_stats)

    def _read_plan(self, filter_columns: list[tuple[str, ...]], *, with_stats: bool = False) -> _Plan:
        """A scan of the selected columns and those the filter needs."""
        builder = self._scan_builder()
        schema = self.full_schema
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


@contextmanager
def optional_package(name: str) -> Iterator[None]:
    """Explain how to install a missing optional package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name} is not installed: pip install 'lakeport[{name}]'", name=name) from error


def _take(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    while rows > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
    close = getattr(batches, "close", None)
    if close is not None:
        close()
