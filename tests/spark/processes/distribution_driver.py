"""Operations with the tasks of another session of Spark: a process that prints, as JSON, what they did.

python -m tests.spark.processes.distribution_driver <master or Connect's remote> <table>
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakeport import iceberg, tables
from lakeport.engine import default_engine
from lakeport.workers import Workplace, open_workers
from tests.class_archive import java_options
from tests.spark.distributed import operate


def main(master: str, target: str) -> None:
    spark = _session(master)
    try:
        results = [[result.version, dict(result.metrics)] for result in operate(target, spark)]
        mirrored = _mirror(target, spark)
        others = set(open_workers(default_engine(), spark).map(_process, range(4)))
        message = _failure(target, spark)
    finally:
        spark.stop()
    elsewhere = os.getpid() not in others
    print(json.dumps({"results": results, "mirrored": mirrored, "elsewhere": elsewhere, "message": message}))


def _session(master: str) -> SparkSession:
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).getOrCreate()
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.executor.memory", "600m")
    builder = builder.config("spark.executor.extraJavaOptions", java_options())
    return builder.config("spark.driver.host", "127.0.0.1").getOrCreate()


def _mirror(target: str, spark: Any) -> list[int]:
    """The versions whose mirrors, in both formats, are right."""
    found = []
    for version in (2, 3):
        conversion = iceberg.convert(target, out=f"{target} in v{version}", format_version=version, spark=spark)
        assert iceberg.verify(target, out=conversion.location, rows=True).is_equal
        found.append(conversion.version)
    return found


def _process(place: Workplace, item: int) -> int:
    return os.getpid()


def _failure(target: str, spark: Any) -> str:
    files = sorted(Path(target).rglob("*.parquet"))
    try:
        tables.update(target, {"id": "-id"}, "id > 30", spark=spark)
    except Exception as error:
        assert sorted(Path(target).rglob("*.parquet")) == files
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
