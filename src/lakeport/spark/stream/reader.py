"""A table as a streaming source: first its existing rows, or none, then those of new commits.

Spark keeps one reader in a process on the driver to plan batches; tasks read in their own processes. The reader caches
fetched data only to save work: a new one with the same offsets plans the same batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakeport.errors import StreamError, VersionNotFoundError
from lakeport.source import LATEST, PathTable, TableSource
from lakeport.spark.failures import plain_errors, with_plain_errors
from lakeport.spark.options import ReadOptions
from lakeport.spark.stream.backlog import Backlog, LatestVersion
from lakeport.spark.stream.files import ChangeSupply, FromNow, RowSupply, Supply, Tolerance
from lakeport.spark.stream.offsets import Admission, Limits, StreamOffset, format_offset, parse_offset
from lakeport.spark.stream.schema import StreamSchema
from lakeport.spark.tasks import ReadTask, plan_tasks
from lakeport.workers.reading import RowReader

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1 has no limits: the reader decides the batch size
    ReadAllAvailable = ReadLimit = ReadMaxBytes = ReadMaxFiles = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


_VERSIONS_PER_CALL = 100
_INTERVAL_SECONDS = 30


class StreamPartition(InputPartition):
    """A task, and the reader of its files. It can hold credentials, so its repr shows only the number of files."""

    def __init__(self, task: ReadTask, rows: RowReader) -> None:
        self.task, self.rows = task, rows

    def __repr__(self) -> str:
        return f"StreamPartition({len(self.task.pieces)} files)"


class StreamTaskReader(DataSourceStreamReader):
    """The reader as sent to tasks: empty, because a partition has everything."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        with plain_errors():
            yield from partition.task.read(partition.rows)


class TableStreamReader(StreamTaskReader, SupportsTriggerAvailableNow):
    """Plans the batches of a stream. Options and the table are opened lazily: Spark does not show errors raised while
    creating a reader."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, sharing: bool) -> None:
        self._given, self._sharing, self._spark_schema = options, sharing, schema
        self._position: StreamOffset | None = None
        """The start of the next batch, as last reported by Spark."""

    def __reduce__(self) -> tuple[type[StreamTaskReader], tuple[()]]:
        return StreamTaskReader, ()

    @with_plain_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # PySpark's name
        self._position = self._first_offset()
        return format_offset(self._position)

    @with_plain_errors
    def latestOffset(  # noqa: N802  # PySpark's name
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Spark 4.1 passes nothing: then a batch starts where the last one ended."""
        offset = self._position or self._first_offset() if start is None else self._parsed(start)
        is_limited = limit is None or not isinstance(limit, ReadAllAvailable)
        latest = self._latest.current()
        if latest < offset.version - 1:
            self._check_not_replaced(offset)
            return format_offset(offset)
        return format_offset(self._backlog.advance(offset, latest, Admission(self._limits if is_limited else None)))

    @with_plain_errors
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # PySpark's name
        """Spark passes the returned limit to `latestOffset`, which then applies the options' limits: the options can
        set two, and a `ReadLimit` holds one."""
        if self._limits.files is not None:
            return ReadMaxFiles(self._limits.files)
        assert self._limits.bytes is not None
        return ReadMaxBytes(self._limits.bytes)

    @with_plain_errors
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802  # PySpark's name
        """The end of the latest known version, without a request."""
        return format_offset(StreamOffset(self._schema.table_id, self._latest.known + 1))

    @with_plain_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # PySpark's name
        self._latest.freeze()

    @with_plain_errors
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        first, last = self._parsed(start), self._parsed(end)
        self._position = last
        files = self._backlog.between(first, last)
        return [StreamPartition(task, self._schema.reader) for task in plan_tasks(self._source, files)]

    @with_plain_errors
    def commit(self, end: Mapping[str, Any]) -> None:
        self._backlog.trim(self._parsed(end))

    @cached_property
    def _options(self) -> ReadOptions:
        """Raises `ValueError` for options that are invalid for a stream."""
        options = ReadOptions.parse(self._given, sharing=self._sharing)
        _check(options)
        return options

    @cached_property
    def _limits(self) -> Limits:
        return Limits.of(self._options.max_files_per_trigger, self._options.max_bytes_per_trigger)

    @cached_property
    def _source(self) -> TableSource:
        return self._options.open().source

    @cached_property
    def _schema(self) -> StreamSchema:
        source = self._source
        return StreamSchema(source.head(LATEST), self._spark_schema, self._options.change_feed, source.target)

    @cached_property
    def _latest(self) -> LatestVersion:
        seconds = self._options.query_table_version_interval_seconds or _INTERVAL_SECONDS
        known = self._schema.head.version
        is_shared = not isinstance(self._source, PathTable)
        return LatestVersion(self._source.latest_version, seconds if is_shared else 0, known)

    @cached_property
    def _backlog(self) -> Backlog:
        return Backlog(self._source, self._supply(), self._options.max_versions_per_rpc or _VERSIONS_PER_CALL)

    def _supply(self) -> Supply:
        supply = self._whole_supply()
        return FromNow(supply) if self._options.starting_version == "latest" else supply

    def _whole_supply(self) -> Supply:
        options = self._options
        if options.change_feed:
            return ChangeSupply(self._source, self._schema)
        tolerance = Tolerance(options.ignore_deletes, options.ignore_changes, options.skip_change_commits)
        return RowSupply(self._source, self._schema, tolerance)

    def _first_offset(self) -> StreamOffset:
        table_id, latest, start = self._schema.table_id, self._latest.current(), self._options.starting_version
        if self._options.starting_timestamp is not None:
            return StreamOffset(table_id, self._source.version_since(_moment(self._options.starting_timestamp)))
        if start is None or start == "latest":
            return StreamOffset(table_id, latest, is_starting_version=True)
        if start > latest + 1:
            raise VersionNotFoundError(
                f"the stream cannot start at version {start}: the latest one is {latest} [{self._source.target}]",
                version=start,
                latest=latest,
            )
        return StreamOffset(table_id, start)

    def _parsed(self, given: Mapping[str, Any]) -> StreamOffset:
        offset = parse_offset(given)
        self._schema.check_id(offset.table_id, offset.version)
        return offset

    def _check_not_replaced(self, offset: StreamOffset) -> None:
        """Distinguish a server that lags from a replaced table, which starts over. Raises `StreamError`."""
        opened_anew = self._options.open().source  # the stream's own source stays at the version of its first request
        table_id = opened_anew.head(LATEST).metadata.id
        if table_id != offset.table_id:
            raise StreamError(
                f"the table was replaced while the stream read it: its id is now {table_id}, and was "
                f"{offset.table_id}; start the stream with a new checkpoint location [{self._source.target}]",
                version=offset.version,
            )


def _check(options: ReadOptions) -> None:
    if options.version_as_of is not None or options.timestamp_as_of is not None:
        raise ValueError("a stream cannot read a single version: pass startingVersion or startingTimestamp")
    if options.ending_version is not None or options.ending_timestamp is not None:
        raise ValueError("a stream has no end: endingVersion and endingTimestamp are for spark.read")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"startingTimestamp {text!r} is not a time: write it like 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
