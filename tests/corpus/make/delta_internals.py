"""Steps that SQL has no words for, by the classes of Delta's libraries in the JVM."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = Callable[[Any, str], object]
DAY = 86_400


def delete_inline(*rows: int) -> Step:
    """Delete rows of the first file, by their positions, with a deletion vector in the log itself.

    SQL always writes vectors to files."""

    def step(spark: Any, path: str) -> None:
        delta = spark._jvm.org.apache.spark.sql.delta
        bitmap = delta.deletionvectors.RoaringBitmapArray()
        for row in rows:
            bitmap.add(row)
        data = bitmap.serializeAsByteArray(delta.deletionvectors.RoaringBitmapArrayFormat.Portable())
        vector = delta.actions.DeletionVectorDescriptor.inlineInLog(data, len(rows))
        transaction = delta_log(spark, path).startTransaction()
        files = transaction.snapshot().allFiles().collect()
        changed = min(files, key=lambda file: file.path()).removeRows(vector, True, True)
        commit(spark, transaction, [changed._1(), changed._2()])

    return step


def set_domain(domain: str, configuration: str, removed: bool = False) -> Step:
    """Set or remove the metadata of a domain."""

    def step(spark: Any, path: str) -> None:
        action = spark._jvm.org.apache.spark.sql.delta.actions.DomainMetadata(domain, configuration, removed)
        commit(spark, delta_log(spark, path).startTransaction(), [action])

    return step


def compact_log(first: int, last: int) -> Step:
    """Write a compaction of these commits. Delta on Spark only reads compactions; Delta Kernel writes them."""

    def step(spark: Any, path: str) -> None:
        kernel = spark._jvm.io.delta.kernel
        folder = kernel.internal.fs.Path(f"file:{path}")
        engine = kernel.defaults.engine.DefaultEngine.create(spark._jsc.hadoopConfiguration())
        writer = kernel.internal.compaction.LogCompactionWriter(
            folder, kernel.internal.fs.Path(folder, "_delta_log"), first, last, 0
        )
        writer.writeLogCompactionFile(engine)

    return step


def checkpoint(spark: Any, path: str) -> None:
    """Write a checkpoint of the latest version now."""
    log = delta_log(spark, path)
    log.update(False, none(spark), none(spark))
    log.checkpoint()


def age_log(days: int) -> Step:
    """Make all log files older by their modification times, so that the next checkpoint cleans them up."""

    def step(spark: Any, path: str) -> None:
        then = time.time() - days * DAY
        for file in sorted(Path(path, "_delta_log").glob("*.*")):
            os.utime(file, (then, then))
            then += 1
        forget(spark)

    return step


def overwrite_schema(query: str) -> Step:
    """Overwrite the table with the rows and the columns of a query."""

    def step(spark: Any, path: str) -> None:
        writer = spark.sql(query).write.format("delta").mode("overwrite")
        writer.option("overwriteSchema", "true").option("partitionOverwriteMode", "static").save(path)

    return step


def forget(spark: Any) -> None:
    """Read the logs of all tables anew."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def delta_log(spark: Any, path: str) -> Any:
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)


def none(spark: Any) -> Any:
    return spark._jvm.scala.Option.empty()


def commit(spark: Any, transaction: Any, actions: list[Any]) -> None:
    name = "org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$"
    operation = spark._jvm.org.apache.spark.util.Utils.classForName(name, True, False).getField("MODULE$").get(None)
    transaction.commit(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(actions), operation)
