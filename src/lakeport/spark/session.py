"""A Spark session in which everything works at once."""

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
"""For anything less, Spark adds up the sizes of all columns after each row that goes to Python: that takes longer than
to write the rows. How many rows are in a batch is limited by another setting."""
_REDACTION = "spark.redaction.regex"
_SECRETS = "(?i)secret|password|token|access[.]?key|account[._]?key|sas|credential"
"""Which options' values Spark hides: its own, and those of storages."""
_JARS = "spark.jars"


def session(name: str = "lakeport", **conf: str) -> SparkSession:
    """The session that there is, or a new one: its workers run in this interpreter, the formats can be given filters,
    rows go to Python at full speed, and Spark's own reader takes what it can, also tables whose columns are matched by
    ids. `conf` are Spark's settings, with underscores for dots: `spark_sql_shuffle_partitions="4"`."""
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
