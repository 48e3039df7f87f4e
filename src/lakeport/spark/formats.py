"""="""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as pushed
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType as SparkSchema

from lakeport.errors import LakeportError
from lakeport.frame import Changes, Frame
from lakeport.kernel.expressions import Column, Comparison, Expression, In, IsNull, Like, Literal, Not, bind, col, lit
from lakeport.kernel.schema import PrimitiveType, StructType
from lakeport.spark.failures import plain_errors, with_plain_errors
from lakeport.spark.options import ReadOptions
from lakeport.spark.schemas import FIRST_CERTAIN_YEAR, selected_columns, spark_arrow_schema, to_spark_schema
from lakeport.spark.stream.reader import TableStreamReader
from lakeport.spark.tasks import TaskPartition, plan_tasks
from lakeport.spark.write import batch_writer, stream_writer
from lakeport.workers.reading import RowReader

_FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


def split_filters(filters: Sequence[pushed.Filter], schema: StructType) -> tuple[list[Expression], list[pushed.Filter]]:
    """The conditions that the kernel evaluates like Spark, and the filters left to Spark."""
    conditions: list[Expression] = []
    left = []
    for found in filters:
        condition = to_condition(found, schema)
        if condition is None:
            left.append(found)
        else:
            conditions.append(condition)
    return conditions, left


def to_condition(found: pushed.Filter, schema: StructType) -> Expression | None:
    """None if the kernel cannot evaluate it, or would do so differently."""
    condition = _convert(found, schema)
    try:
        if condition is not None:
            bind(condition, schema)
    except LakeportError:
        return None
    return condition


def _convert(found: pushed.Filter, schema: StructType) -> Expression | None:
    if isinstance(found, pushed.Not):
        child = _convert(found.child, schema)
        return None if child is None else Not(child)
    column = col(tuple(found.attribute))  # type: ignore[attr-defined]  # all others have one
    match found:
        case pushed.IsNull():
            return IsNull(column)
        case pushed.IsNotNull():
            return Not(IsNull(column))
    value: Any = found.value  # type: ignore[attr-defined]
    if _is_uncertain(found, column, value, schema):
        return None
    return _compare(found, column, value)


def _compare(found: pushed.Filter, column: Column, value: Any) -> Expression | None:
    match found:
        case pushed.EqualTo():
            return Comparison("=", column, lit(value))
        case pushed.EqualNullSafe():
            return column.equals_null_safe(lit(value))
        case pushed.GreaterThan():
            return Comparison(">", column, lit(value))
        case pushed.GreaterThanOrEqual():
            return Comparison(">=", column, lit(value))
        case pushed.LessThan():
            return Comparison("<", column, lit(value))
        case pushed.LessThanOrEqual():
            return Comparison("<=", column, lit(value))
        case pushed.In():
            return In(column, tuple(map(Literal, value)))
        case pushed.StringStartsWith():
            return Like(column, f"{_escape(value)}%")
        case pushed.StringEndsWith():
            return Like(column, f"%{_escape(value)}")
        case pushed.StringContains():
            return Like(column, f"%{_escape(value)}%")
    return None


def _is_uncertain(found: pushed.Filter, column: Column, value: Any, schema: StructType) -> bool:
    """Whether Spark's result may differ. In Spark, NaN equals itself and is above all numbers; in the kernel, as in
    Arrow, it is neither."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(one is None and not isinstance(found, pushed.EqualNullSafe) for one in values):
        return True
    if any(isinstance(one, float) and math.isnan(one) for one in values):
        return True
    if any(isinstance(one, date) and one.year < FIRST_CERTAIN_YEAR for one in values):
        return True
    try:
        data_type = schema.resolve(column.path)[-1].type
    except LakeportError:
        return True
    return data_type in _FLOATS and isinstance(found, pushed.GreaterThan | pushed.GreaterThanOrEqual)


def _escape(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


class TaskReader(DataSourceReader):
    """The reader as sent to tasks."""

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, TaskPartition):  # a table without files has a different one
            with plain_errors():
                yield from partition.task.read(self._rows)


class TableReader(DataSourceReader):
    """Plans the scan of a frame, on the driver. Pickled for tasks as a `TaskReader`."""

    def __init__(self, frame: Frame | Changes, schema: SparkSchema) -> None:
        self._frame = frame.select(*selected_columns(frame.full_schema, schema))
        self._output = spark_arrow_schema(schema)

    @with_plain_errors
    def __reduce__(self) -> tuple[type[TaskReader], tuple[RowReader]]:
        return TaskReader, (RowReader.for_scan(self._scan, self._output),)

    @with_plain_errors
    def partitions(self) -> Sequence[InputPartition]:
        return [TaskPartition(task) for task in plan_tasks(self._frame.source, self._scan.files())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError("tasks read with a TaskReader")

    @cached_property
    def _scan(self) -> Any:
        return self._frame.plan()


class FilteringReader(TableReader):
    """A reader that accepts pushed filters. Spark (4.1 to 4.3) caches the last plan of a Python data source for all
    reads through the same `load` or view: with filters in it, a second query on a frame gets the rows of the first
    one's filter. So it is opt-in, for frames that are used once."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # PySpark's name
        conditions, left = split_filters(filters, self._frame.full_schema)
        for condition in conditions:
            self._frame = self._frame.where(condition)
        return left


_ONLY_READ = "a shared table can only be read: write to a table of your own with format('lakeport')"


class DeltaSharingSource(DataSource):
    """`spark.read.format("deltaSharing").load("profile#share.schema.table")`"""

    sharing = True

    @classmethod
    def name(cls) -> str:
        return "deltaSharing"

    @with_plain_errors
    def schema(self) -> SparkSchema:
        return to_spark_schema(self._read_options.schema())

    @with_plain_errors
    def reader(self, schema: SparkSchema) -> DataSourceReader:
        options = self._read_options
        reader = FilteringReader if options.push_filters and _pushes_filters() else TableReader
        return reader(options.open_batch(), schema)

    @with_plain_errors
    def writer(self, schema: SparkSchema, overwrite: bool) -> DataSourceWriter:
        raise ValueError(_ONLY_READ)

    @with_plain_errors
    def streamWriter(self, schema: SparkSchema, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # PySpark's
        raise ValueError(_ONLY_READ)

    def streamReader(self, schema: SparkSchema) -> DataSourceStreamReader:  # noqa: N802  # PySpark's name
        return TableStreamReader(self.options, schema, sharing=self.sharing)

    @property
    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(self.options, sharing=self.sharing)


class LakeportSource(DeltaSharingSource):
    """`spark.read.format("lakeport").load("s3://bucket/orders")`"""

    sharing = False

    @classmethod
    def name(cls) -> str:
        return "lakeport"

    @with_plain_errors
    def writer(self, schema: SparkSchema, overwrite: bool) -> DataSourceWriter:
        return batch_writer(self.options, schema, overwrite)

    @with_plain_errors
    def streamWriter(self, schema: SparkSchema, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # PySpark's
        return stream_writer(self.options, schema, overwrite)


def _pushes_filters() -> bool:
    """Whether the caller pushes filters. Spark rejects a reader that takes filters if it pushes none, and offers no
    other way to find out."""
    return any(frame.f_code.co_filename.endswith("data_source_pushdown_filters.py") for frame in _callers())


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
