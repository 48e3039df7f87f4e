"""Writing with Spark: `format("lakeport")` beside Spark's own Parquet files, by turns in one session, which
`lakeport.spark.session` makes; and then with the setting as Spark has it by default."""

from __future__ import annotations

import shutil
import statistics
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
        _report("Spark: write of 5 million rows, 8 columns", rows, folder, LIMIT)
        spark.conf.unset("spark.sql.execution.arrow.maxBytesPerBatch")
        _report("the same, in any session", rows, folder, None)


def _report(title: str, rows: DataFrame, folder: Path, limit: float | None) -> None:
    pairs = [(_seconds(rows, "lakeport", folder), _seconds(rows, "parquet", folder)) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(ours / peer for ours, peer in pairs)
    verdict = "" if limit is None else f"  limit {limit:.2f}  {'ok' if ratio <= limit else 'MISSED'}"
    print(
        f"{title:48} {mine:8.2f} s  {theirs:8.2f} s  ({'Spark to Parquet':19}) ratio {ratio:5.2f}{verdict}", flush=True
    )


def _seconds(rows: DataFrame, name: str, folder: Path) -> float:
    target = folder / f"written as {name}"
    shutil.rmtree(target, ignore_errors=True)
    start = perf_counter()
    rows.write.format(name).mode("append").save(str(target))
    return perf_counter() - start


@contextmanager
def _session() -> Iterator[SparkSession]:
    from lakeport.spark import session

    spark = session(
        spark_master="local[2]",
        spark_ui_enabled="false",
        spark_driver_memory="2g",
        spark_ui_showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
