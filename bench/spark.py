"""Scans in Spark, beside Spark's own scan of the same files on a disk: one session, by turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import tables
from bench.client import write_profile
from bench.jobs import peak_kb
from bench.server import report, serving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 5
_COLUMNS = ("i0", "d0")
_SELECTIVE = "i0 BETWEEN 2000000 AND 2000100"


def bench_spark(folder: Path) -> None:
    import lakeport

    table = tables.wide_rows(folder, 6_000_000, files=12, ordered=True)
    spark = _session("2g")
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
        few = frame.where(_SELECTIVE)
        compare("a selective filter, to_spark", lambda: few.to_spark(spark), lambda: native().where(_SELECTIVE), 1.5)
        print(f"    files read: {len(list(few.plan().files()))} of {len(list(frame.plan().files()))}")
    spark.stop()
    measure_planning(tables.large_checkpoint(folder, 100_000))


def measure_planning(table: Path) -> None:
    """From a path to tasks, each way in a driver of its own, and the most memory that this driver takes: its Python
    process, and all of its JVM."""
    for way in _PLANS:
        command = [sys.executable, "-m", "bench.spark", way, str(table)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        tasks, seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
        report(f"Spark: 100,000 files in {tasks} tasks, {way}", seconds, "s", 10)
        report(f"Spark: 100,000 files in {tasks} tasks, {way}: driver", megabytes, "MB", 1024)


def plan(way: str, table: str) -> None:
    """Prints how many tasks there are, the seconds until that is known, and the driver's memory."""
    spark = _session("600m")
    start = time.perf_counter()
    tasks = _PLANS[way](spark, table)._jdf.queryExecution().toRdd().getNumPartitions()
    seconds = time.perf_counter() - start
    java = int(subprocess.run(["pgrep", "-P", str(os.getpid()), "java"], stdout=subprocess.PIPE, check=True).stdout)
    print(json.dumps([tasks, seconds, (peak_kb() + peak_kb(java)) / 1024]))


def _to_spark(spark: SparkSession, table: str) -> DataFrame:
    import lakeport

    return lakeport.scan(table).to_spark(spark)


def _to_python_frame(spark: SparkSession, table: str) -> DataFrame:
    import lakeport
    from lakeport.spark.frames import to_python_frame

    return to_python_frame(lakeport.scan(table), spark)


_PLANS: dict[str, Callable[[SparkSession, str], Any]] = {
    "to_spark": _to_spark,
    "to_spark in Python": _to_python_frame,
    "lakeport": lambda spark, table: spark.read.format("lakeport").load(table),
}


def _session(memory: str) -> SparkSession:
    from pyspark.sql import SparkSession  # a large package, which only this needs

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", memory).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


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


if __name__ == "__main__":
    plan(*sys.argv[1:])
