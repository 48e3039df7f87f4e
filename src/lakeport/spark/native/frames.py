"""A frame as a DataFrame over Spark's Parquet relation."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it
from pyspark.sql.classic.column import Column as ClassicColumn

from lakeport.client.storage import SharedStorage
from lakeport.frame import Frame
from lakeport.kernel.scan import Scan
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.native.conditions import to_spark_condition
from lakeport.spark.native.directories import partition_directories
from lakeport.spark.native.jar import FILE_SYSTEM, LIFETIME, LIVING_ROWS, call_static, load_class, new_instance, why_not
from lakeport.spark.native.readable import physical_schema, why_not_readable
from lakeport.spark.native.scans import WHOLE, WITH_DELETED, PlannedScan
from lakeport.spark.native.service import ScanService, service_for
from lakeport.spark.types import any_nullable, to_spark_schema

_VOID = PrimitiveType("void")
_EXACT = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Whatever a session has for these, all rows are read, and as they are stored."""


def why_not_native(frame: Frame, spark: SparkSession) -> str | None:
    """Why the rows have to be read in Python; None if Spark's own reader can."""
    if frame.tracks_rows:
        return "row ids were asked for"
    if (reason := why_not(spark) or why_not_readable(frame.definition, spark)) is not None:
        return reason
    plan = frame.plan()
    if plan.remaining_filter is not None and _condition(plan) is None:
        return "the filter has no exact counterpart in Spark"
    if not isinstance(frame.engine.storage, SharedStorage) and "://" in plan.snapshot.root:
        return "Spark does not reach the files"
    return None


def to_native_frame(frame: Frame, spark: SparkSession) -> DataFrame:
    """The rows of a frame for which there is no reason against it."""
    plan = frame.plan()
    files = list(plan.files())
    snapshot = plan.snapshot
    scan = PlannedScan(files, partition_directories(files, snapshot), snapshot.root, frame.engine.storage)
    service = service_for(spark)
    service.add(scan)
    physical = _read(spark, scan, service, snapshot)
    rows = physical.select(*(_logical_column(field, snapshot.mapping_mode) for field in snapshot.schema))
    condition = _condition(plan)
    rows = rows if condition is None else rows.where(condition)
    return rows.select(*(_quoted(field.name) for field in frame.selected))


def _condition(plan: Scan) -> Column | None:
    left = plan.remaining_filter
    return None if left is None else to_spark_condition(left, plan.snapshot.schema)


def _read(spark: SparkSession, scan: PlannedScan, service: ScanService, snapshot: Snapshot) -> DataFrame:
    """The rows under physical names."""
    schema = physical_schema(snapshot.schema, snapshot.mapping_mode)
    load_class(spark, FILE_SYSTEM)
    told = {
        "fs.lakeport.impl": FILE_SYSTEM,
        "fs.lakeport.impl.disable.cache": "true",
        "fs.lakeport.driver": service.address,
        "fs.lakeport.secret": scan.secret,
    }
    reader = spark.read.format("parquet").schema(schema).options(**told, **_EXACT)
    whole, with_deleted = (
        reader.load(scan.root(directory)) if exists else None
        for directory, exists in ((WHOLE, scan.has_whole), (WITH_DELETED, scan.has_deleted))
    )
    _watch(spark, scan, service, [part for part in (whole, with_deleted) if part is not None])
    if with_deleted is not None:
        number, row = F.unix_millis("_metadata.file_modification_time"), F.col("_metadata.row_index")
        with_deleted = with_deleted.where(_is_living(spark, scan, service, number, row))
    if whole is None:
        return spark.createDataFrame([], schema) if with_deleted is None else with_deleted
    return whole if with_deleted is None else whole.unionByName(with_deleted)


def _watch(spark: SparkSession, scan: PlannedScan, service: ScanService, parts: list[DataFrame]) -> None:
    """Lets the scan end when no plan has it any more: each refers to where its files are."""
    for part in parts[-1:]:
        index = part._jdf.queryExecution().analyzed().relation().location()
        call_static(spark, LIFETIME, "watch", index, scan.id, service.address, scan.secret)


def _is_living(spark: SparkSession, scan: PlannedScan, service: ScanService, number: Column, row: Column) -> Column:
    """Whether a row is not deleted."""
    jvm: Any = spark._jvm
    function = new_instance(spark, LIVING_ROWS, scan.id, service.address, scan.secret)
    udf = jvm.org.apache.spark.sql.functions.udf(function, jvm.org.apache.spark.sql.types.DataTypes.BooleanType)
    columns = jvm.PythonUtils.toSeq([number._jc, row._jc])
    return ClassicColumn(udf.apply(columns))


def _logical_column(field: StructField, mode: str) -> Column:
    if field.type == _VOID:
        return F.lit(None).alias(field.name)
    column = F.col(_quoted(field.physical_name(mode)))
    if mode != "none" and not isinstance(field.type, PrimitiveType):
        column = column.cast(_nullable(field))
    return column.alias(field.name)


def _nullable(field: StructField) -> Any:
    return to_spark_schema(StructType((StructField("x", any_nullable(field.type)),)))[0].dataType


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
