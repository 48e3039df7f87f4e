"""Drivers on a cluster that read tables by Spark's own reader; see `test_cluster.py`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakeport
from lakeport.spark.native.frames import to_native_frame, why_not_native
from tests.class_archive import java_options
from tests.spark.processes.servers import spark_worker


def read_and_dump(master: str, target: str, secret: str, folder: str) -> dict[str, Any]:
    """Reads a table, and looks for a secret in all that the executors hold."""
    spark = session(master, folder)
    spark.sparkContext.setLogLevel("INFO")
    spark.range(10).count()  # the session runs already when it meets the jar
    frame = lakeport.scan(target)
    reason = why_not_native(frame, spark)
    rows = native(spark, target)
    rows.explain(extended=True)
    found = summed(rows)
    heaps = executor_heaps(Path(folder), spark.sparkContext.applicationId)
    told = [str(heap) for heap in heaps if contains(heap, secret.encode())]
    spark.stop()
    return {"reason": reason, "found": found, "heaps": len(heaps), "told": told}


def read_on_a_late_worker(master: str, target: str, slow_target: str, folder: str) -> dict[str, Any]:
    """Reads a table by a frame that is older than one of the two executors; then one whose storage stalls once."""
    settings = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.hadoop.fs.lakeport.stall.seconds": "150",
        "spark.sql.files.openCostInBytes": str(1 << 30),  # so each file is a task
    }
    spark = session(master, folder, settings)
    rows = native(spark, target)
    before = summed(rows)
    with spark_worker(Path(folder, "late"), master, "127.0.0.2"):  # a task is not run twice on the same machine
        wait_for_executors(spark, 2)
        found = summed(rows)
        began = time.monotonic()
        slow = summed(native(spark, slow_target))
        seconds = time.monotonic() - began
        spark.stop()
    ended = [event for event in events(Path(folder)) if event["Event"] == "SparkListenerTaskEnd"]
    return {
        "before": before,
        "found": found,
        "slow": slow,
        "slow seconds": seconds,
        "executors": sorted({event["Task Info"]["Executor ID"] for event in ended}),
        "speculative": sum(event["Task Info"]["Speculative"] for event in ended),
    }


def native(spark: SparkSession, target: str) -> DataFrame:
    rows = to_native_frame(lakeport.scan(target), spark)
    assert isinstance(rows, DataFrame), rows
    return rows


def session(master: str, folder: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """One whose events are kept in the folder."""
    Path(folder, "events").mkdir()
    fixed = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
    }
    builder = SparkSession.builder.master(master)
    for name, value in (fixed | dict(settings or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def summed(rows: DataFrame) -> list[int]:
    """The number of rows, the sum of their ids, and the number of files."""
    with_files = rows.selectExpr("id", "input_file_name() AS file")
    return list(with_files.selectExpr("count(*)", "sum(id)", "count(distinct file)").collect()[0])


def wait_for_executors(spark: SparkSession, count: int) -> None:
    status: Any = spark.sparkContext._jsc
    until = time.monotonic() + 120
    while status.sc().getExecutorMemoryStatus().size() < count + 1:  # the driver is one too
        assert time.monotonic() < until, "the executors have not come"
        time.sleep(0.2)


def events(folder: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in (folder / "events").rglob("events_*") if path.is_file())
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def executor_heaps(folder: Path, application: str) -> list[Path]:
    """All that the executors hold in memory, in files."""
    listed = subprocess.run(["jcmd", "-l"], capture_output=True, text=True, check=True).stdout
    pids = [line.split()[0] for line in listed.splitlines() if "ExecutorBackend" in line and application in line]
    heaps = []
    for pid in pids:
        heap = folder / f"heap-{pid}"
        subprocess.run(["jcmd", pid, "GC.heap_dump", "-all", str(heap)], capture_output=True, check=True)
        heaps.append(heap)
    return heaps


def contains(path: Path, secret: bytes) -> bool:
    """Java keeps text as bytes of Latin-1, or of UTF-16."""
    content = path.read_bytes()
    return secret in content or secret.decode().encode("utf-16-le") in content


if __name__ == "__main__":
    works = {work.__name__: work for work in (read_and_dump, read_on_a_late_worker)}
    master, work, *arguments = sys.argv[1:]
    print(json.dumps(works[work](master, *arguments)))
