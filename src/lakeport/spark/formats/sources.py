"""The data sources: `deltaSharing` for shared tables, `lakeport` for Delta tables by path."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lakeport.frame import Changes, Frame
from lakeport.spark.failures import plain_errors, with_plain_errors
from lakeport.spark.formats.filters import split_filters
from lakeport.spark.options.read import ReadOptions
from lakeport.spark.schemas import selected_columns, spark_arrow_schema, to_spark_schema
from lakeport.spark.stream.reader import TableStreamReader
from lakeport.spark.tasks import TaskPartition, plan_tasks
from lakeport.spark.write import batch_writer, stream_writer
from lakeport.workers.reading import RowReader


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

    def __init__(self, frame: Frame | Changes, schema: StructType) -> None:
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
    def schema(self) -> StructType:
        return to_spark_schema(self._read_options.schema())

    @with_plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options
        reader = FilteringReader if options.push_filters and _pushes_filters() else TableReader
        return reader(options.open_batch(), schema)

    @with_plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise ValueError(_ONLY_READ)

    @with_plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # PySpark's
        raise ValueError(_ONLY_READ)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # PySpark's name
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
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return batch_writer(self.options, schema, overwrite)

    @with_plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # PySpark's
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
