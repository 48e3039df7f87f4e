"""A lazy frame as a Spark DataFrame: planned here, read by Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakeport.kernel.schema import ROW_COMMIT_VERSION, ROW_ID, StructType
from lakeport.spark.failures import plain_errors
from lakeport.spark.native.frames import to_native_frame
from lakeport.spark.schemas import spark_arrow_schema, to_spark_schema
from lakeport.spark.tasks import ReadTask, TaskSizes, plan_tasks
from lakeport.workers.reading import RowReader

if TYPE_CHECKING:
    from lakeport.frame import Rows

_MOST_SHIPPED = 4 << 20
"""Maximum bytes of tasks in one function: Spark sends the whole function to each task."""


Reader = Literal["python"]
"""The reader of the rows; by default it depends on the session and the table."""


def to_spark(frame: Rows[Any], spark: SparkSession, reader: Reader | None = None) -> DataFrame:
    """A lazy DataFrame of the frame's current version.

    It uses Spark's own reader if possible; `reader="python"` forces the Python one. Raises `ValueError` for any other
    reader."""
    if reader not in (None, "python"):
        raise ValueError(f"reader must be 'python' or left out, not {reader!r}")
    native = to_native_frame(frame, spark) if reader is None else None
    rows = native if isinstance(native, DataFrame) else to_python_frame(frame, spark)
    return rows if frame.row_limit is None else rows.limit(frame.row_limit)


def to_python_frame(frame: Rows[Any], spark: SparkSession) -> DataFrame:
    """The rows, read in Python."""
    schema = to_spark_schema(_selected(frame))
    scan = frame.plan()
    reader = RowReader.for_scan(scan, spark_arrow_schema(schema))
    tasks = plan_tasks(frame.source, scan.files(), TaskSizes(parallelism=_parallelism(spark)))
    parts = [
        spark.range(0, len(part), 1, len(part)).mapInArrow(_Read(reader, tuple(part)), schema)
        for part in _chunks(map(pickle.dumps, tasks))
    ]
    return reduce(DataFrame.union, parts) if parts else spark.createDataFrame([], schema)


@dataclass(frozen=True)
class _Read:
    """A function for Spark that reads the task with a given number."""

    reader: RowReader = field(repr=False)
    tasks: tuple[bytes, ...] = field(repr=False)

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plain_errors():
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    task: ReadTask = pickle.loads(self.tasks[number])
                    yield from task.read(self.reader)


def _selected(frame: Rows[Any]) -> StructType:
    tracking = (ROW_ID, ROW_COMMIT_VERSION) if frame.tracks_rows else ()
    return StructType((*frame.selected, *tracking))


def _chunks(tasks: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    for task in tasks:
        if chunk and sum(map(len, chunk)) + len(task) > _MOST_SHIPPED:
            yield chunk
            chunk = []
        chunk.append(task)
    if chunk:
        yield chunk


def _parallelism(spark: SparkSession) -> int:
    """The number of parallel tasks. Remote sessions do not expose it; their tables are split as for this machine."""
    context = getattr(spark, "_sc", None)
    return TaskSizes().parallelism if context is None else int(context.defaultParallelism)
