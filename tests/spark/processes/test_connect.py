"""Spark Connect: formats, `to_spark` and operations work through a client that has no JVM of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.shares import sharing_tables
from tests.spark.processes.elsewhere import compare_operations

pytest.importorskip("grpc")
pytest.importorskip("zstandard")

CLIENT = """
import sys
from pyspark.sql import SparkSession
import lakeport

remote, path, target = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
print("lakeport", spark.read.format("lakeport").load(path).where("id > 1").count())
print("version", spark.read.format("lakeport").option("versionAsOf", 0).load(path).count())
print("deltaSharing", spark.read.format("deltaSharing").load(target).select("city").distinct().count())
print("frame", lakeport.scan(path).where("id > 2").select("id").to_spark(spark).toArrow().to_pylist())
print("shared frame", lakeport.scan(target).to_spark(spark).count())
try:
    spark.read.format("lakeport").load(path + "-nope").count()
except Exception as error:
    print("error", str(error).splitlines()[0])
spark.stop()
"""


def test_both_formats_and_frames_work_through_spark_connect(tmp_path: Path, connect: str) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    with sharing_tables(tmp_path) as shared:
        arguments = [connect, str(tmp_path / "orders"), shared.target("sales.eu.orders")]
        ran = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = dict(line.split(" ", 1) for line in ran.stdout.splitlines() if not line.startswith("shared"))
    assert told["lakeport"] == "3"
    assert told["version"] == "3"
    assert told["deltaSharing"] == "3"
    assert "{'id': 3}" in told["frame"]
    assert "shared frame 4" in ran.stdout
    assert f"there is no Delta table at {tmp_path}/orders-nope" in told["error"]


def test_operations_run_through_spark_connect(tmp_path: Path, connect: str) -> None:
    compare_operations(tmp_path, connect)
