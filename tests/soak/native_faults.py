"""Spark's own reader over a shared table whose URLs live for five seconds: one scan of a minute, whose rows are used
slowly; then reads through a proxy that does harm.

    python -m tests.soak.native_faults [--scan-seconds 60] [--seconds 120] [--rate 0.1] [--seed 1]

Each read ends with exactly the rows of the table, or with a clear error that tells no URL; never with fewer rows.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has none
from pyspark.sql import DataFrame, SparkSession

import lakeport
from lakeport import tables
from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions
from lakeport.client.rest.server import SharingServer
from lakeport.spark.native.frames import to_native_frame
from tests.client.faulty_proxy import Choose, Fault, Proxy, faulty_proxy
from tests.client.faulty_proxy import at_random as faults_at_random
from tests.client.reading import frame_of, server_at
from tests.parts import write_parts
from tests.properties import VECTORS
from tests.server.running import TOKEN, running, sharing

NAME = "sales.eu.orders"
LIFE_SECONDS = 5
FILES, ROWS = 12, 100_000
CORES, BATCH = 2, 10_000
SECRETS = (TOKEN, "/files/", "expires=", "Signature")


@dataclass(frozen=True)
class Report:
    scan: float
    """Seconds that the slow scan took."""
    renewals_of_scan: int
    reads: int
    errors: Counter[str]
    faults: Counter[Fault]
    renewals: int
    longest: float

    def __str__(self) -> str:
        failed = ", ".join(f"{count} × {text}" for text, count in self.errors.items()) or "none"
        harm = self.faults.total() - self.faults[Fault.NONE]
        return (
            f"a scan of {self.scan:.0f} s was right, {self.renewals_of_scan} queries for URLs of {LIFE_SECONDS} s; "
            f"{self.reads} reads were right, failed: {failed}; {harm} faults, {self.renewals} queries, "
            f"the longest read took {self.longest:.0f} s"
        )


def run(spark: SparkSession, folder: Path, *, scan_seconds: float, seconds: float, rate: float, seed: int) -> Report:
    """Raises `AssertionError` if a read gives other rows than the table's, or an error tells a secret."""
    target = _table(folder)
    rows = lakeport.scan(target).select("id").to_arrow().column("id")
    expected = len(rows), sum(rows.to_pylist())
    scan, renewals = _scan_slowly(spark, target, expected, scan_seconds)
    reads, errors, longest = 0, Counter[str](), 0.0
    with _served(target, faults_at_random(seed, rate, tuple(Fault))) as (client, proxy):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                found = _native(spark, client).selectExpr("count(*)", "sum(id)", "sum(length(text))").collect()
                assert tuple(found[0])[:2] == expected, (found, expected)
                reads += 1
            except Py4JJavaError as error:
                errors[_told(str(error))] += 1
            longest = max(longest, time.monotonic() - began)
        return Report(scan, renewals, reads, errors, proxy.done, proxy.asked["query"], longest)


@contextmanager
def _served(target: str, choose: Choose) -> Iterator[tuple[SharingServer, Proxy]]:
    """The table on a server, and its files, behind a proxy that does harm; and the proxy."""
    connections = ConnectionOptions(read_seconds=1, connect_seconds=5)
    retries = RetryOptions(retries=12, first_wait_seconds=0.02, longest_wait_seconds=0.2)
    with (
        running(sharing({NAME: target}), pre_signed_url_timeout_seconds=LIFE_SECONDS) as server,
        faulty_proxy(server.url, choose) as proxy,
        server_at(
            server.endpoint.replace(server.url, proxy.url),
            HttpPool(HttpOptions(connections=connections, retries=retries)),
        ) as client,
    ):
        yield client, proxy


def _native(spark: SparkSession, client: SharingServer) -> DataFrame:
    frame = frame_of(client, NAME)
    rows = to_native_frame(frame, spark)
    assert isinstance(rows, DataFrame), rows
    return rows


def _scan_slowly(spark: SparkSession, target: str, expected: tuple[int, int], seconds: float) -> tuple[float, int]:
    """A scan that takes so long because its rows are used slowly: files are opened, one after the other, all the time.
    The seconds that it took, and how often the server was asked for URLs."""
    pause = seconds * CORES * BATCH / expected[0]

    def use(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(pause)
            yield batch

    with _served(target, lambda path, byte_range: Fault.NONE) as (client, proxy):
        began = time.monotonic()
        used = _native(spark, client).select("id").mapInArrow(use, "id long")
        found = used.selectExpr("count(*)", "sum(id)").collect()[0]
        took = time.monotonic() - began
        assert tuple(found) == expected, (found, expected)
        assert took > 3 * LIFE_SECONDS, f"the scan took {took:.0f} s only"
        assert proxy.asked["query"] > 2, "no URL was renewed"
        return took, proxy.asked["query"]


def _told(text: str) -> str:
    """The cause of a failure, which tells no secret: of a URL, nothing but the host."""
    assert not [secret for secret in SECRETS if secret in text], text
    causes = [line for line in text.splitlines() if "Caused by" in line and ("table" in line or "storage" in line)]
    assert causes, text
    return re.sub(r"\d+", "…", causes[-1].strip())


def _table(folder: Path) -> str:
    target = str(folder / "orders")
    ids = [range(number * ROWS, (number + 1) * ROWS) for number in range(FILES)]
    parts = (pa.table({"id": some, "text": [f"{i * 7919 % 10**9}" for i in some]}) for some in ids)
    write_parts(target, parts, properties=VECTORS)
    tables.delete(target, f"id % 7 = 3 AND id < {FILES * ROWS // 2}")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan-seconds", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH)
    spark = builder.config("spark.hadoop.fs.lakeport.stall.seconds", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory(prefix="lakeport-soak-") as folder:
        print(run(spark, Path(folder), **vars(given)))
    spark.stop()


if __name__ == "__main__":
    main()
