"""Reads tables in object stores by Spark, in a process of its own; what to read comes as JSON, and so does what was
found. See `test_spark_object_store.py`."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakeport
from lakeport.engine.storage import signing
from lakeport.spark import explain, session


def found(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    frame = lakeport.scan(job["target"], storage_options=job["options"])
    rows = frame.to_spark(spark)
    told = {"reader": explain(frame, spark).rpartition("reader")[2].strip(), "plan": plan_of(rows), "ids": ids(rows)}
    time.sleep(job["pause"])
    return told | {"later": ids(rows.where(job["filter"]))}


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def plan_of(rows: DataFrame) -> str:
    with redirect_stdout(StringIO()) as shown:
        rows.explain(extended=True)
    return shown.getvalue() + str(rows._jdf.queryExecution().toString())


if __name__ == "__main__":
    given = json.load(sys.stdin)
    signing._SECONDS = given["life"]
    local = session(spark_master="local[2]", spark_ui_enabled="false", spark_driver_host="127.0.0.1")
    local.sparkContext.setLogLevel("OFF")
    print("found", json.dumps([found(local, job) for job in given["jobs"]]))
    local.stop()
