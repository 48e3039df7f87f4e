"""The oldest and the newest Spark that Lakeport runs on: both formats, frames, filters, changes, writes and streams."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.client.shares import sharing_tables
from tests.conftest import ROOT, missing
from tests.interop.servers import PEERS

pytestmark = pytest.mark.interop

SECONDS = 900
SMOKE = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import lakeport, pyspark
from lakeport.spark import session

path, target, new, checkpoint = sys.argv[1:]
spark = session(spark_ui_enabled="false", spark_sql_shuffle_partitions="2", spark_master="local[2]")
spark.sparkContext.setLogLevel("OFF")

def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())

def tell(what, found):
    print("found", what, found, flush=True)

tell("version", pyspark.__version__)
tell("lakeport", ids(spark.read.format("lakeport").load(path)))
tell("older", ids(spark.read.format("lakeport").option("versionAsOf", 0).load(path)))
tell("shared", ids(spark.read.format("deltaSharing").load(target)))
pushing = spark.read.format("deltaSharing").option("pushFilters", True).option("columns", "city,id").load(target)
tell("pushed", ids(pushing.where("city = 'Oslo'")))
feed = spark.read.format("deltaSharing").options(readChangeFeed=True, startingVersion=1).load(target)
tell("changes", [(row.id, row._change_type) for row in feed.collect()])
tell("frame", ids(lakeport.scan(path).where("amount > 100").to_spark(spark)))
tell("shared frame", ids(lakeport.scan(target).to_spark(spark)))
spark.read.format("lakeport").load(path).write.format("lakeport").mode("append").save(new)
tell("written", ids(spark.read.format("lakeport").load(new)))
stream = spark.readStream.format("deltaSharing").load(target).writeStream.format("lakeport")
query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(new + "-streamed")
query.awaitTermination()
tell("streamed", ids(spark.read.format("lakeport").load(new + "-streamed")))
try:
    spark.read.format("lakeport").load(path + "-nope")
except Exception as error:
    tell("error", str(error).splitlines()[0])
spark.stop()
"""


def interpreters() -> list[Any]:
    """Those that `scripts/peers.sh` has made, by their versions."""
    made = sorted(path.name.removeprefix("spark-") for path in PEERS.glob("spark-*.*.*") if path.is_dir())
    older = pytest.mark.exhaustive(instead="the newest version; tests of Iceberg, which run on the oldest")
    *before, newest = made or ["none"]
    return [*(pytest.param(version, marks=older) for version in before), pytest.param(newest)]


@pytest.mark.parametrize("version", interpreters())
def test_everything_works_on_another_version_of_spark(version: str, tmp_path: Path) -> None:
    python = PEERS / f"spark-{version}" / "bin" / "python"
    if not python.exists():
        missing("no other version of Spark: run make interop")
    script = tmp_path / "smoke.py"
    script.write_text(SMOKE)
    with sharing_tables(tmp_path) as shared:
        target = shared.target("sales.eu.orders")
        arguments = [str(tmp_path / "orders"), target, str(tmp_path / "new"), str(tmp_path / "checkpoint")]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "SPARK_LOCAL_IP": "127.0.0.1"}
        ran = subprocess.run(
            [python, str(script), *arguments], capture_output=True, text=True, timeout=SECONDS, env=environment
        )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr[-3000:]}"
    told = [line.removeprefix("found ") for line in ran.stdout.splitlines() if line.startswith("found ")]
    assert told[:-1] == [
        f"version {version}",
        "lakeport [1, 2, 3, 4]",
        "older [1, 2, 3]",
        "shared [1, 2, 3, 4]",
        "pushed [1, 3]",
        "changes [(4, 'insert')]",
        "frame [1, 4]",
        "shared frame [1, 2, 3, 4]",
        "written [1, 2, 3, 4]",
        "streamed [1, 2, 3, 4]",
    ]
    assert f"there is no Delta table at {tmp_path}/orders-nope" in told[-1]
