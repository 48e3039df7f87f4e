"""Reads through Spark's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakeport.engine import default_engine
from lakeport.frame import Frame
from lakeport.kernel.schema import StructType
from lakeport.spark.native.frames import to_native_frame
from lakeport.testing.builder import TableBuilder, protocol


def built(
    tmp_path: Path, schema: StructType, partition_by: tuple[str, ...] = (), mode: str = "none", *features: str
) -> TableBuilder:
    names = [*features, *(["columnMapping"] if mode != "none" else [])]
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    return TableBuilder(
        default_engine(), str(tmp_path / "t"), schema, partition_by, properties, protocol(features=names)
    ).create()


def native(spark: SparkSession, frame: Frame) -> DataFrame:
    rows = to_native_frame(frame, spark)
    assert isinstance(rows, DataFrame), rows
    return rows


def scans_of(rows: DataFrame) -> list[str]:
    """What Spark's reader does for a query, in Spark's words."""
    plan = str(rows._jdf.queryExecution().executedPlan().toString())
    return [line for line in plan.splitlines() if "FileScan parquet" in line]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    yield
    if before is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, before)
