"""`df.writeStream.format("lakeport")`: each batch of a query is one commit, exactly once.

A commit holds the query's id and the batch number (`txn`). If Spark repeats a batch because it did not learn of its
commit, the batch is found in the table, and the files of the second attempt are removed.

Spark creates a new writer to commit a batch, so the tasks' messages carry the plan back. They also carry the query's
id, which only tasks know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakeport.engine import default_engine
from lakeport.kernel.engine import Engine
from lakeport.spark.failures import with_plain_errors
from lakeport.spark.options.write import WriteOptions
from lakeport.spark.write.batch import TaskMessage, may_discard, plan_write, written_by
from lakeport.tables.write.planned import PlannedWrite, commit_files, discard_files, write_task

_QUERY_ID = "sql.streaming.queryId"
"""The property that gives tasks their query's id. It stays the same as long as the checkpoint is used."""


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Plan a batch of a stream; `overwrite` means complete mode. Raises like `batch_writer`."""
    parsed = WriteOptions.parse(options, overwrite=overwrite, stream=True)
    engine = default_engine(parsed.storage_options)
    planned = plan_write(engine, parsed, schema, overwrite)
    assert planned is not None, "without a txnVersion, no batch can be in the table already"
    return StreamWriter(engine, planned, parsed.txn_app_id)


@dataclass(frozen=True)
class StreamMessage(TaskMessage):
    """A task's result, with the plan that the driver gave the task."""

    planned: PlannedWrite
    app_id: str


class StreamWriter(DataSourceStreamArrowWriter):
    """Created on the driver for the tasks of a batch, and again for its commit."""

    def __init__(self, engine: Engine, planned: PlannedWrite, app_id: str | None) -> None:
        self._engine, self._planned, self._app_id = engine, planned, app_id

    @with_plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        app_id = self._app_id or _query_id()
        return StreamMessage(write_task(self._engine, self._planned, iterator), self._planned, app_id)

    @with_plain_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # PySpark's
        first = _first(messages)
        if first is not None:
            commit_files(self._engine, first.planned, written_by(messages), (first.app_id, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # PySpark's
        first = _first(messages)
        if first is not None and may_discard(messages):
            discard_files(self._engine, first.planned, written_by(messages))


def _first(messages: Sequence[WriterCommitMessage | None]) -> StreamMessage | None:
    """Any message: all of a batch's messages carry the same plan."""
    return next((message for message in messages if isinstance(message, StreamMessage)), None)


def _query_id() -> str:
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise ValueError(
            "Spark did not pass the id of the query, so a batch could be written twice: set the option txnAppId to a "
            "name that stays the same as long as the checkpoint does"
        )
    return query_id
