"""The data sources: `deltaSharing` for shared tables, `lakeport` for Delta tables by path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from lakeport.spark.failures import with_plain_errors
from lakeport.spark.formats.batch import FilteringReader, TableReader
from lakeport.spark.options.read import ReadOptions
from lakeport.spark.schemas import to_spark_schema
from lakeport.spark.stream.reader import TableStreamReader
from lakeport.spark.write.batch import batch_writer
from lakeport.spark.write.stream import stream_writer

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
