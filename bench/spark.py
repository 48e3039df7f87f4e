"""Scans in Spark, beside Spark's own scan of the same files on a disk: one session, by turns."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import tables
from bench.client import write_profile
from bench.server import serving

ROUNDS = 5
_COLUMNS = ("i0", "d0")
_FILTER = "i0 < 100"


def bench_spark(folder: Path) -> None:
    from pyspark.sql import DataFrame, SparkSession  # a large package, which only this needs

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
        filtered = frame.where(_FILTER)
        compare("a selective filter, to_spark", lambda: filtered.to_spark(spark), lambda: native().where(_FILTER), 10.0)
    spark.stop()


def compare(title: str, ours: Callable[[], object], native: Callable[[], object], limit: float) -> None:
    """Both by turns, rows thrown away; the first round is not counted."""
    rounds = [(measure(ours), measure(native)) for _ in range(ROUNDS + 1)][1:]
    mine, theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
    ratio = statistics.median(a / b for a, b in rounds)
    verdict = "ok" if ratio <= limit else "MISSED"
    print(f"{title:48} {mine:8.2f} s {theirs:8.2f} s (Spark's Parquet) ratio {ratio:5.2f}  limit {limit:.2f}  {verdict}")


def measure(rows: Callable[[], object]) -> float:
    start = time.perf_counter()
    rows().write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]
    return time.perf_counter() - start
