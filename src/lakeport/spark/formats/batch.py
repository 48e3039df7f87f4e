"""Rows or changes of a table, as read by Spark's Python data sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakeport.frame import Changes, Frame
from lakeport.spark.failures import plain_errors, with_plain_errors
from lakeport.spark.formats.filters import split_filters
from lakeport.spark.schemas import selected_columns, spark_arrow_schema
from lakeport.spark.tasks import TaskPartition, plan_tasks
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
