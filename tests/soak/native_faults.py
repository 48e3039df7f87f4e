"""Spark's own reader over a shared table whose URLs live for five seconds, through a proxy that does harm.

    python -m tests.soak.native_faults [--seconds 120] [--rate 0.1] [--seed 1]

Each read ends with exactly the rows of the table, or with a clear error that tells no URL; never with fewer rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has none
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from lakeport.client.connections import ConnectionOptions
from lakeport.client.http import HttpOptions, HttpPool
from lakeport.client.retrying import RetryOptions
from lakeport.spark.native.frames import to_native_frame, why_not_native
from tests.client.faulty_proxy import Fault, faulty_proxy
from tests.client.faulty_proxy import at_random as faults_at_random
from tests.client.reading import frame_of, server_at
from tests.server.running import TOKEN, running, sharing

NAME = "sales.eu.orders"
LIFE_SECONDS = 5
FILES, ROWS = 12, 100_000


@dataclass(frozen=True)
class Report:
    reads: int
    errors: Counter[str]
    faults: Counter[Fault]
    renewals: int
    longest: float

    def __str__(self) -> str:
        failed = ", ".join(f"{count} × {text}" for text, count in self.errors.items()) or "none"
        harm = self.faults.total() - self.faults[Fault.NONE]
        return (
            f"{self.reads} reads were right, failed: {failed}; {harm} faults, {self.renewals} queries, "
            f"the longest read took {self.longest:.0f} s"
        )


def run(spark: SparkSession, folder: Path, *, seconds: float, rate: float, seed: int) -> Report:
    """Raises `AssertionError` if a read gives other rows than the table's, or an error tells a secret."""
    target = _table(folder)
    rows = lakeport.scan(target).select("id").to_arrow().column("id")
    expected = len(rows), sum(rows.to_pylist())
    connections = ConnectionOptions(read_seconds=1, connect_seconds=5)
    retries = RetryOptions(retries=12, first_wait_seconds=0.02, longest_wait_seconds=0.2)
    reads, errors, longest = 0, Counter[str](), 0.0
    with (
        running(sharing({NAME: target}), pre_signed_url_timeout_seconds=LIFE_SECONDS) as server,
        faulty_proxy(server.url, faults_at_random(seed, rate, tuple(Fault))) as proxy,
        server_at(
            server.endpoint.replace(server.url, proxy.url),
            HttpPool(HttpOptions(connections=connections, retries=retries)),
        ) as client,
    ):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            frame = frame_of(client, NAME)
            assert why_not_native(frame, spark) is None
            try:
                found = to_native_frame(frame, spark).selectExpr("count(*)", "sum(id)", "sum(length(text))").collect()
                assert tuple(found[0])[:2] == expected, (found, expected)
                reads += 1
            except Py4JJavaError as error:
                errors[_told(str(error), proxy.url)] += 1
            longest = max(longest, time.monotonic() - began)
        return Report(reads, errors, proxy.done, proxy.asked["query"], longest)


def _told(text: str, url: str) -> str:
    """The cause of a failure, which tells no secret."""
    assert url not in text, text
    assert TOKEN not in text, text
    causes = [line for line in text.splitlines() if "Caused by" in line and "table" in line]
    assert causes, text
    return causes[-1].strip()


def _table(folder: Path) -> str:
    target = str(folder / "orders")
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = pa.table({"id": ids, "text": [f"{i * 7919 % 10**9}" for i in ids]})
        if number:
            tables.append(target, rows)
        else:
            tables.create(target, rows, properties={"delta.enableDeletionVectors": "true"})
    tables.delete(target, f"id % 7 = 3 AND id < {FILES * ROWS // 2}")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.hadoop.fs.lakeport.stall.seconds", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory(prefix="lakeport-soak-") as folder:
        print(run(spark, Path(folder), seconds=given.seconds, rate=given.rate, seed=given.seed))
    spark.stop()


if __name__ == "__main__":
    main()
