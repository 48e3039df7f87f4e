"""A frame as a DataFrame over Spark's Parquet relation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it
from pyspark.sql.classic.column import Column as ClassicColumn

from lakeport.client.storage import SharedStorage
from lakeport.frame import Frame
from lakeport.kernel.partitions import format_partition_value, parse_partition_value
from lakeport.kernel.scan import Scan
from lakeport.kernel.scan_files import ScanFile
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.kernel.snapshot import Snapshot
from lakeport.spark.native.conditions import to_spark_condition
from lakeport.spark.native.jar import FILE_SYSTEM, LIVING_ROWS, load_class, why_not
from lakeport.spark.native.readable import physical_schema, why_not_readable
from lakeport.spark.native.scans import FILE_NUMBER, WHOLE, WITH_DELETED, PlannedScan, partition_path
from lakeport.spark.native.service import ScanService, service_for
from lakeport.spark.types import any_nullable, to_spark_schema

_VOID = PrimitiveType("void")


def why_not_native(frame: Frame, spark: SparkSession) -> str | None:
    """Why the rows have to be read in Python; None if Spark's own reader can."""
    if frame.tracks_rows:
        return "row ids were asked for"
    if (reason := why_not(spark) or why_not_readable(frame.definition)) is not None:
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
    scan = PlannedScan(files, _directories(files, snapshot), snapshot.root, frame.engine.storage)
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


def _directories(files: Iterable[ScanFile], snapshot: Snapshot) -> list[str]:
    fields = snapshot.partition_fields
    known: dict[tuple[str | None, ...], str] = {}

    def directory(file: ScanFile) -> str:
        names = snapshot.physical_partition_columns
        key = tuple(file.partition_values.get(name) for name in names)
        if key not in known:
            known[key] = partition_path(
                (name, _partition_text(text, field, snapshot.root))
                for name, text, field in zip(names, key, fields, strict=True)
            )
        return known[key]

    return [directory(file) for file in files]


def _partition_text(text: str | None, field: StructField, root: str) -> str | None:
    """The value as Spark's casts take it, in any time zone."""
    return format_partition_value(parse_partition_value(text, field, path=root), field)


def _read(spark: SparkSession, scan: PlannedScan, service: ScanService, snapshot: Snapshot) -> DataFrame:
    """The rows under physical names."""
    schema = to_spark_schema(physical_schema(snapshot.schema, snapshot.mapping_mode))
    load_class(spark, FILE_SYSTEM)
    reader = spark.read.format("parquet").options(
        **{
            "fs.lakeport.impl": FILE_SYSTEM,
            "fs.lakeport.impl.disable.cache": "true",
            "fs.lakeport.driver": service.address,
            "fs.lakeport.secret": scan.secret,
            "ignoreCorruptFiles": "false",
            "ignoreMissingFiles": "false",
            "mergeSchema": "false",
        }
    )
    parts = []
    if scan.has_whole:
        parts.append(reader.schema(schema).load(scan.root(WHOLE)))
    if scan.has_deleted:
        numbered = to_spark_schema(StructType((StructField(FILE_NUMBER, PrimitiveType("integer")),)))
        rows = reader.schema(type(schema)([*schema, *numbered])).load(scan.root(WITH_DELETED))
        living = _living_rows(spark, scan, service)
        parts.append(rows.where(living(F.col(FILE_NUMBER), F.col("_metadata.row_index"))).drop(FILE_NUMBER))
    if not parts:
        return spark.createDataFrame([], schema)
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _living_rows(spark: SparkSession, scan: PlannedScan, service: ScanService) -> Any:
    """The function that tells whether a row is not deleted, as a function of columns."""
    jvm: Any = spark._jvm
    strings = jvm.java.lang.Class.forName("java.lang.String")
    parameters = spark.sparkContext._gateway.new_array(jvm.java.lang.Class, 3)  # type: ignore[union-attr]
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 3)  # type: ignore[union-attr]
    for number, value in enumerate((scan.id, service.address, scan.secret)):
        parameters[number], arguments[number] = strings, value
    function = load_class(spark, LIVING_ROWS).getConstructor(parameters).newInstance(arguments)
    boolean = jvm.org.apache.spark.sql.types.DataTypes.BooleanType
    udf = jvm.org.apache.spark.sql.functions.udf(function, boolean)

    def apply(*columns: Any) -> Column:
        sequence = jvm.PythonUtils.toSeq([column._jc for column in columns])
        return _to_column(udf.apply(sequence))

    return apply


def _to_column(java: Any) -> Column:
    return ClassicColumn(java)


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
