"""Scans in Spark, beside Spark's own scan of the same files on a disk: one session, by turns."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import tables
from bench.client import write_profile
from bench.server import report, serving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
_COLUMNS = ("i0", "d0")


def bench_spark(folder: Path) -> None:
    from pyspark.sql import SparkSession  # a large package, which only this needs

    import lakeport

    os.environ["PYSPARK_PYTHON"] = sys.executable
    table = tables.wide_rows(folder, 6_000_000, files=12)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with serving(folder, table) as server:
        target = write_profile(folder, server)
        frame = lakeport.scan(target)

        def native() -> DataFrame:
            return spark.read.parquet(str(table))

        def loaded() -> DataFrame:
            return spark.read.format("deltaSharing").load(target)

        columns = ", ".join(_COLUMNS)
        compare("all columns, to_spark", lambda: frame.to_spark(spark), native, 1.5)
        compare("all columns, deltaSharing", loaded, native, 1.8)
        two = frame.select(*_COLUMNS)
        compare("2 of 16 columns, to_spark", lambda: two.to_spark(spark), lambda: native().select(*_COLUMNS), 1.5)
        given = spark.read.format("deltaSharing").option("columns", columns)
        compare("2 of 16 columns, deltaSharing", lambda: given.load(target), lambda: native().select(*_COLUMNS), 1.8)
    measure_planning(spark, tables.large_checkpoint(folder, 100_000))
    spark.stop()


def measure_planning(spark: SparkSession, table: Path) -> None:
    """From a path to tasks, by both ways; and the memory of the driver's Python process and of its JVM."""
    import lakeport
    from lakeport.spark.frames import to_python_frame

    ways: dict[str, Callable[[], DataFrame]] = {
        "to_spark": lambda: lakeport.scan(str(table)).to_spark(spark),
        "to_spark in Python": lambda: to_python_frame(lakeport.scan(str(table)), spark),
        "lakeport": lambda: spark.read.format("lakeport").load(str(table)),
    }
    for name, frame in ways.items():
        start = time.perf_counter()
        tasks = frame()._jdf.queryExecution().toRdd().getNumPartitions()
        report(f"Spark: 100,000 files in {tasks} tasks, {name}", time.perf_counter() - start, "s", 10)
    report("the driver's Python process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", 1024)
    heap: Any = spark._jvm
    runtime = heap.java.lang.Runtime.getRuntime()
    report("the driver's JVM, heap", (runtime.totalMemory() - runtime.freeMemory()) / 2**20, "MB", 1024)


def compare(title: str, ours: Callable[[], object], native: Callable[[], object], limit: float) -> None:
    """Both by turns, rows thrown away; the first round is not counted."""
    rounds = [(measure(ours), measure(native)) for _ in range(ROUNDS + 1)][1:]
    mine, theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    verdict = "ok" if ratio <= limit else "MISSED"
    numbers = f"{mine:8.2f} s  {theirs:8.2f} s  ({'Spark on a disk':19}) ratio {ratio:5.2f}  limit {limit:.2f}"
    print(f"{'Spark: ' + title:48} {numbers}  {verdict}", flush=True)


def measure(rows: Callable[[], object]) -> float:
    start = time.perf_counter()
    rows().write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]
    return time.perf_counter() - start
