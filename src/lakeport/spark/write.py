"""`df.write.format("lakeport")` and `df.writeStream`: tasks write data files, the driver commits them once.

The write is planned before the first task runs, on the table's current version, so columns that do not fit are rejected
early. Everything that a task needs is pickled with the writer. Files of tasks that failed, were killed or lost a
speculative race are not in the table; the next vacuum deletes any that are left.

Each batch of a stream is one commit, exactly once: a commit holds the query's id and the batch number (`txn`). If Spark
repeats a batch because it did not learn of its commit, the batch is found in the table, and the files of the second
attempt are removed. Spark creates a new writer to commit a batch, so the tasks' messages carry the plan back. They also
carry the query's id, which only tasks know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakeport.engine import default_engine
from lakeport.errors import TableNotFoundError
from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import StructType as TableSchema
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.spark.failures import with_plain_errors
from lakeport.spark.options import WriteOptions
from lakeport.spark.schemas import spark_arrow_schema, to_table_schema
from lakeport.tables.write.overwrite import Replacing
from lakeport.tables.write.planned import (
    PlannedWrite,
    WrittenFiles,
    check_columns,
    commit_files,
    discard_files,
    plan_append,
    plan_create,
    plan_overwrite,
    write_task,
)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Plan the write of a frame with this schema.

    Raises `ValueError` for invalid options, `InvalidDataError` for columns that do not fit, and whatever opening the
    table raises."""
    parsed = WriteOptions.parse(options, overwrite=overwrite)
    engine = default_engine(parsed.storage_options)
    return BatchWriter(engine, plan_write(engine, parsed, schema, overwrite))


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """A task's result, for the driver."""

    written: WrittenFiles


class BatchWriter(DataSourceArrowWriter):
    """Created on the driver, pickled for the tasks and for the commit."""

    def __init__(self, engine: Engine, planned: PlannedWrite | None) -> None:
        self._engine = engine
        self._planned = planned
        """None if the application's work is already in the table: then nothing is written."""

    @with_plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        if self._planned is None:
            return TaskMessage(WrittenFiles())
        return TaskMessage(write_task(self._engine, self._planned, iterator))

    @with_plain_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._planned is not None:
            commit_files(self._engine, self._planned, written_by(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._planned is not None and may_discard(messages):
            discard_files(self._engine, self._planned, written_by(messages))


def written_by(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenFiles]:
    return [message.written for message in messages if isinstance(message, TaskMessage)]


def may_discard(messages: Sequence[WriterCommitMessage | None]) -> bool:
    """Whether the tasks' files are certainly not in the table. If every task has a message, Spark has tried to commit:
    a failed commit has removed the files, and after an uncertain one they must stay."""
    return any(message is None for message in messages)


def plan_write(engine: Engine, options: WriteOptions, schema: StructType, overwrite: bool) -> PlannedWrite | None:
    """Start a write on the table's current version; None if the application's work is already in the table."""
    columns = to_table_schema(schema)
    table = Table.for_path(engine, options.path)
    planned: PlannedWrite | None
    try:
        snapshot = table.latest_snapshot()
    except TableNotFoundError:
        planned = _plan_new(table, options, columns)
    else:
        planned = _plan_known(snapshot, options, columns, overwrite)
    if planned is not None:
        check_columns(engine, planned, spark_arrow_schema(schema))
    return planned


def _plan_new(table: Table, options: WriteOptions, columns: TableSchema) -> PlannedWrite:
    return plan_create(
        table,
        columns,
        partition_by=options.partition_by or (),
        properties=options.properties,
        application=options.application,
    )


def _plan_known(
    snapshot: Snapshot, options: WriteOptions, columns: TableSchema, overwrite: bool
) -> PlannedWrite | None:
    if not options.overwrite_schema:
        _check_partitions(snapshot, options.partition_by)
    if not overwrite:
        return plan_append(snapshot, columns, merge_schema=options.merge_schema, application=options.application)
    replacing = Replacing(
        options.replace_where,
        options.partitions,
        options.overwrite_schema,
        options.partition_by if options.overwrite_schema else None,
        options.merge_schema,
    )
    return plan_overwrite(snapshot, columns, replacing, application=options.application)


def _check_partitions(snapshot: Snapshot, wanted: Sequence[str] | None) -> None:
    known = snapshot.partition_columns
    if wanted is not None and [name.lower() for name in wanted] != [name.lower() for name in known]:
        raise ValueError(
            f"the table is partitioned by {', '.join(known) or 'no column'}, not by {', '.join(wanted) or 'none'}: "
            f"leave out partitionBy, or overwrite it with overwriteSchema [{snapshot.root}]"
        )


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
