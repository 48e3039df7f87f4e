"""Spark's classes, parsed once and kept in a file that Java maps: a driver then starts in half the CPU time.
`python -m tests.class_archive` makes the file, and tests use it if it is there. Java ignores one that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for processes that end before thorough compilation pays: a quarter less CPU time."""


def java_options() -> str:
    """Java options for the short-lived processes of Spark that tests start."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else SHORT_LIVED


def make_archive() -> None:
    """Run a typical driver, and have Java write down its classes at the end."""
    unfinished = ARCHIVE.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    options = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    command = [sys.executable, "-m", "tests.class_archive", "drive"]
    subprocess.run(command, env=os.environ | {"SPARK_SUBMIT_OPTS": options}, stderr=subprocess.DEVNULL)
    if unfinished.exists():
        unfinished.replace(ARCHIVE)
    else:
        print("Java wrote no archive of Spark's classes: tests that start Spark take longer, or say what is missing.")


def drive() -> None:
    """Use what most tests use: Parquet files, SQL, both readers, writes, a stream."""
    import lakeport
    from lakeport import spark, tables

    with tempfile.TemporaryDirectory() as folder, spark.session() as session:
        orders, copy = f"{folder}/orders", f"{folder}/copy"
        tables.create(orders, {"id": [1, 2, 3], "city": ["Oslo", "Cork", "Oslo"]})
        session.read.format("lakeport").load(orders).createOrReplaceTempView("orders")
        session.sql("SELECT city, count(*) FROM orders JOIN range(5) USING (id) GROUP BY city ORDER BY 1").collect()
        lakeport.scan(orders).to_spark(session).write.parquet(copy)
        session.read.parquet(copy).write.format("lakeport").mode("append").save(orders)
        stream = session.readStream.format("lakeport").load(orders).writeStream.format("noop")
        stream.trigger(availableNow=True).option("checkpointLocation", f"{folder}/log").start().awaitTermination()
        java = session.sparkContext._gateway.proc
    java.stdin.close()
    java.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["drive"]:
        drive()
    elif not ARCHIVE.exists():
        make_archive()
