"""A Spark session with everything configured."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from lakeport.spark.launch import launch_quietly
from lakeport.spark.native.jar import JAR
from lakeport.spark.native.readable import FIELD_IDS

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = str(2**31 - 1)
"""Below this, Spark adds up the sizes of all columns after each row sent to Python, which takes longer than writing the
rows. Another setting limits the rows per batch."""
_REDACTION = "spark.redaction.regex"
_SECRETS = "(?i)secret|password|token|access[.]?key|account[._]?key|sas|credential"
"""Options whose values Spark redacts: its own, and those of storages."""
_JARS = "spark.jars"


def session(name: str = "lakeport", **conf: str) -> SparkSession:
    """The existing session, or a new one: its workers use this interpreter, the formats accept filters, rows reach
    Python at full speed, and Spark's own reader is used if possible, even for tables with column mapping by id. `conf`
    are Spark settings, with underscores for dots: `spark_sql_shuffle_partitions="4"`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {_PUSHDOWN: "true", FIELD_IDS: "true", _BATCH_BYTES: _UNLIMITED, _REDACTION: _SECRETS}
    settings |= {key.replace("_", "."): value for key, value in conf.items()}
    if JAR.exists():
        settings[_JARS] = ",".join(filter(None, [settings.get(_JARS), str(JAR)]))
    launch_quietly({**settings, "spark.app.name": name})
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
