"""A Spark session in which everything works at once."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def session(name: str = "lakeport", **conf: str) -> SparkSession:
    """The session that there is, or a new one: its workers run in this interpreter, and filters are pushed down to
    tables. `conf` are Spark's settings, with underscores for dots: `spark_sql_shuffle_partitions="4"`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config(_PUSHDOWN, "true")
    for key, value in conf.items():
        builder = builder.config(key.replace("_", "."), value)
    return builder.getOrCreate()
