"""Writing with Spark: `format("lakeport")` beside Spark's own Parquet files, by turns in one session."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
ROUNDS = 5
LIMIT = 1.5
COLUMNS = (
    "id",
    "id % 1000 AS customer",
    "CAST(id % 100 AS INT) AS quantity",
    "CAST(id AS DOUBLE) * 1.5 AS weight",
    "CAST(id % 100000 AS DECIMAL(12, 2)) AS amount",
    "date_add(DATE '2020-01-01', CAST(id % 1000 AS INT)) AS day",
    "timestamp_micros(id * 1000000) AS at",
    "concat('name ', id % 50000) AS name",
)


def bench_spark_write(folder: Path) -> None:
    with _session() as spark:
        source = str(folder / "rows")
        spark.range(0, ROWS, 1, 4).selectExpr(*COLUMNS).write.parquet(source)
        rows = spark.read.parquet(source)
        for name in ("parquet", "lakeport"):
            _seconds(rows, name, folder)  # the first write of each starts workers and compiles code
        pairs = [(_seconds(rows, "lakeport", folder), _seconds(rows, "parquet", folder)) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(ours / peer for ours, peer in pairs)
    verdict = "ok" if ratio <= LIMIT else "MISSED"
    numbers = f"{mine:8.2f} s  {theirs:8.2f} s  ({'Spark to Parquet':19}) ratio {ratio:5.2f}  limit {LIMIT:.2f}"
    print(f"{'Spark: write of 5 million rows, 8 columns':48} {numbers}  {verdict}", flush=True)


def _seconds(rows: DataFrame, name: str, folder: Path) -> float:
    target = folder / f"written as {name}"
    shutil.rmtree(target, ignore_errors=True)
    start = perf_counter()
    rows.write.format(name).mode("append").save(str(target))
    return perf_counter() - start


@contextmanager
def _session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
