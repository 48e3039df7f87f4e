"""Workers for operations that touch many files: threads of this process, or tasks of a Spark cluster.

    workers = open_workers(engine, spark)                   # threads where spark is None
    for written in workers.map(write_file, plans, undo=remove_file):
        …

An operation plans, hands tasks to its workers, and commits their results once; the same code serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeport.kernel.engine import Engine
from lakeport.workers.threads import ThreadWorkers
from lakeport.workers.workplace import StoppedError, Workers, Workplace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["StoppedError", "ThreadWorkers", "Workers", "Workplace", "open_workers"]


def open_workers(engine: Engine, spark: SparkSession | None = None) -> Workers:
    """Threads, or Spark tasks if given a session (classic or Connect).

    Raises `ValueError` for an engine that cannot be pickled."""
    if spark is None:
        return ThreadWorkers(engine)
    from lakeport.workers.spark import SparkWorkers

    return SparkWorkers(spark, engine)
