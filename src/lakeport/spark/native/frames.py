"""A frame as a DataFrame over Spark's Parquet relation."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from lakeport.client.storage import SharedStorage
from lakeport.frame import Frame
from lakeport.kernel.scan import Scan
from lakeport.kernel.schema import StructField, StructType
from lakeport.spark.native.conditions import to_spark_condition
from lakeport.spark.native.directories import partition_directories
from lakeport.spark.native.jar import scan_frames, why_not
from lakeport.spark.native.readable import physical_schema, why_not_readable
from lakeport.spark.native.scans import PlannedScan
from lakeport.spark.native.service import service_for
from lakeport.spark.types import to_spark_schema


def why_not_native(frame: Frame, spark: SparkSession) -> str | None:
    """Why the rows have to be read in Python; None if Spark's own reader can."""
    if frame.tracks_rows:
        return "row ids were asked for"
    if (reason := why_not(spark) or why_not_readable(frame.definition, spark)) is not None:
        return reason
    storage = frame.engine.storage
    if isinstance(storage, SharedStorage) and storage.keeps_files:
        return "a cache was asked for"
    plan = frame.plan()
    if plan.remaining_filter is not None and _condition(plan) is None:
        return "the filter has no exact counterpart in Spark"
    if not isinstance(storage, SharedStorage) and "://" in plan.snapshot.root:
        return "Spark does not reach the files"
    return None


def to_native_frame(frame: Frame, spark: SparkSession) -> DataFrame:
    """The rows of a frame for which there is no reason against it."""
    plan = frame.plan()
    files = list(plan.files())
    snapshot = plan.snapshot
    scan = PlannedScan(files, partition_directories(files, snapshot), snapshot.root, frame.engine.storage)
    condition = _condition(plan)
    table = _narrowed(snapshot.schema, frame.selected) if condition is None else snapshot.schema
    rows = _read(spark, scan, table, snapshot.mapping_mode, frame.selected, condition)
    return rows if _narrowed(table, frame.selected) == table else rows.select(*_columns(frame.selected, table))


def _condition(plan: Scan) -> Column | None:
    left = plan.remaining_filter
    return None if left is None else to_spark_condition(left, plan.snapshot.schema)


def _narrowed(schema: StructType, selected: StructType) -> StructType:
    """All columns, those that are selected with no more fields than were asked for."""
    asked = {field.name: field for field in selected}
    return StructType(tuple(asked.get(field.name, field) for field in schema))


def _read(
    spark: SparkSession, scan: PlannedScan, table: StructType, mode: str, selected: StructType, condition: Column | None
) -> DataFrame:
    """The selected columns of the rows for which the condition holds, in one call to the JVM."""
    service = service_for(spark)
    service.add(scan)
    rows = scan_frames(spark).read(
        spark._jsparkSession,
        scan.id,
        service.address,
        scan.secret,
        " ".join(scan.roots),
        to_spark_schema(table).json(),
        physical_schema(table, mode).json(),
        to_spark_schema(selected).json(),
        None if condition is None else condition._jc,
    )
    return ClassicFrame(rows, spark)


def _columns(selected: StructType, table: StructType) -> list[Column]:
    """Those that are selected, with no more fields than were asked for: the filter was about others too."""
    return [_with_fields(F.col(_quoted(field.name)), field, table).alias(field.name) for field in selected]


def _with_fields(column: Column, asked: StructField, parent: StructType) -> Column:
    known = parent.resolve((asked.name,))[-1].type
    if asked.type == known or not isinstance(asked.type, StructType) or not isinstance(known, StructType):
        return column
    parts = [_with_fields(column.getField(field.name), field, known).alias(field.name) for field in asked.type]
    return F.when(column.isNotNull(), F.struct(*parts)) if asked.nullable else F.struct(*parts)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
