"""A frame as a DataFrame over Spark's Parquet relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from lakeport.engine.storage.signing import UrlStorage, why_not_signed
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import StructField, StructType, quoted
from lakeport.locations import is_url
from lakeport.spark.driver import PlannedScan, service_for
from lakeport.spark.native.conditions import to_spark_condition
from lakeport.spark.native.document import describe_scan, why_not_readable
from lakeport.spark.native.jar import scan_frames, why_not

if TYPE_CHECKING:
    from lakeport.frame import Rows

_LEAST_BYTES, _MOST_BYTES = 12, 1 << 40
"""Bounds of a Parquet file's size. Spark silently skips empty files, and plans a split for every 128 MB of others."""


def why_not_native(frame: Rows[Any], spark: SparkSession) -> str | None:
    """Why the rows must be read in Python; None if Spark's own reader can read them."""
    if isinstance(planned := _plan(frame, spark), str):
        return planned
    reason = planned.why_not_converted(spark)
    service_for(spark).remove(planned.scan)
    return reason


def to_native_frame(frame: Rows[Any], spark: SparkSession) -> DataFrame | str:
    """The rows; or why they must be read in Python."""
    if isinstance(planned := _plan(frame, spark), str):
        return planned
    if (reason := planned.why_not_converted(spark)) is not None:
        service_for(spark).remove(planned.scan)
        return reason
    return planned.rows(spark)


def _plan(frame: Rows[Any], spark: SparkSession) -> _Native | str:
    if (reason := _why_not(frame, spark)) is not None:
        return reason
    plan = frame.plan()
    condition = (
        None if plan.remaining_filter is None else to_spark_condition(plan.remaining_filter, plan.snapshot.schema)
    )
    if plan.remaining_filter is not None and condition is None:
        return "the filter has no exact counterpart in Spark"
    files = list(plan.files())
    storage = frame.engine.storage
    if (reason := _why_not_reached(files, storage)) is not None:
        return reason
    urls = cast("UrlStorage", storage)  # it is one if any file is remote
    whole = plan.snapshot.schema
    table = _narrowed(whole, frame.selected) if condition is None else whole
    document = describe_scan(plan, files, table, frame.selected)
    return _Native(PlannedScan(files, document, plan.snapshot.root, storage, urls), table, frame.selected, condition)


def _why_not(frame: Rows[Any], spark: SparkSession) -> str | None:
    if (definition := frame.definition) is None:
        return "changes were requested"
    if frame.tracks_rows:
        return "row ids were requested"
    if getattr(frame.engine.storage, "keeps_files", False):
        return "a cache was requested"
    return why_not(spark) or why_not_readable(definition, spark)


def _why_not_reached(files: list[ScanFile], storage: StorageClient) -> str | None:
    if any(not _LEAST_BYTES <= file.size <= _MOST_BYTES for file in files):
        return "its log has wrong file sizes"
    remote = [file.path for file in files if is_url(file.path)]
    return why_not_signed(remote, storage) if remote else None


@dataclass(frozen=True)
class _Native:
    """A read for Spark's own reader."""

    scan: PlannedScan
    table: StructType
    """All columns; without a filter, selected ones have only the requested fields."""
    selected: StructType
    condition: Column | None

    def why_not_converted(self, spark: SparkSession) -> str | None:
        """Why Spark's reader cannot convert the types of some files."""
        odd = scan_frames(spark).whyNot(*self._key(spark))
        return None if odd is None else f"a file has {odd}"

    def rows(self, spark: SparkSession) -> DataFrame:
        """In one call to the JVM."""
        condition = None if self.condition is None else self.condition._jc
        rows = ClassicFrame(scan_frames(spark).read(*self._key(spark), condition), spark)
        if _narrowed(self.table, self.selected) == self.table:
            return rows
        return rows.select(*_columns(self.selected, self.table))

    def _key(self, spark: SparkSession) -> tuple[object, ...]:
        service = service_for(spark)
        service.add(self.scan)
        return spark._jsparkSession, service.address, self.scan.id, self.scan.secret


def _narrowed(schema: StructType, selected: StructType) -> StructType:
    """All columns, with only the requested fields in selected ones."""
    asked = {field.name: field for field in selected}
    return StructType(tuple(asked.get(field.name, field) for field in schema))


def _columns(selected: StructType, table: StructType) -> list[Column]:
    """The selected columns, with only the requested fields: the filter may have needed others."""
    return [_with_fields(F.col(quoted(field.name)), field, table).alias(field.name) for field in selected]


def _with_fields(column: Column, asked: StructField, parent: StructType) -> Column:
    known = parent.resolve((asked.name,))[-1].type
    if asked.type == known or not isinstance(asked.type, StructType) or not isinstance(known, StructType):
        return column
    parts = [_with_fields(column.getField(field.name), field, known).alias(field.name) for field in asked.type]
    return F.when(column.isNotNull(), F.struct(*parts)) if asked.nullable else F.struct(*parts)
