"""A driver on a cluster that reads tables by Spark's own reader; see `test_native_cluster.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lakeport
from lakeport.spark.native.frames import to_native_frame, why_not_native


def main(master: str, target: str, secret: str, folder: str) -> dict[str, Any]:
    Path(folder, "events").mkdir()
    spark = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.speculation.multiplier", "1.0")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", f"file://{folder}/events")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("INFO")
    spark.range(10).count()  # the session runs already when it meets the jar
    frame = lakeport.scan(target)
    reason = why_not_native(frame, spark)
    rows = to_native_frame(frame, spark)
    rows.explain(extended=True)
    with_files = rows.selectExpr("id", "input_file_name() AS file")
    found = with_files.selectExpr("count(*)", "sum(id)", "count(distinct file)").collect()[0]
    heaps = executor_heaps(Path(folder), spark.sparkContext.applicationId)
    told = [str(heap) for heap in heaps if contains(heap, secret.encode())]
    spark.stop()
    return {"reason": reason, "found": list(found), "heaps": len(heaps), "told": told}


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
    print(json.dumps(main(*sys.argv[1:])))
