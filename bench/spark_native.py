"""Shared tables by Spark's own reader, beside two others in one session, on the same server: the same reader over plain
HTTP paths, with nothing planned; and the connector of Delta Sharing for the JVM, where its jars are at hand."""

from __future__ import annotations

import base64
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import tables
from bench.client import write_profile
from bench.server import serving

ROUNDS = 5
ROWS, FILES = 6_000_000, 12
_PEERS = Path(__file__).resolve().parents[1] / ".peers"
_CONNECTOR = "io.delta.sharing.spark.DeltaSharingDataSource"
_QUERIES: dict[str, Callable[[Any], Any]] = {
    "all columns": lambda rows: rows,
    "2 of 16 columns": lambda rows: rows.select("i0", "d0"),
    "a selective filter": lambda rows: rows.where("i0 < 100"),
}


def bench_spark_native(folder: Path, rows: int = ROWS, rounds: int = ROUNDS) -> None:
    spark = _session(_compiled(folder))
    for title, deleted, limit in (("", 0.0, 1.2), (", 5 % deleted", 0.05, 1.3)):
        table = tables.wide_rows(folder, rows, files=FILES, deleted=deleted, ordered=True)
        with serving(folder, table) as server:
            target = write_profile(folder, server)
            for name, query in _QUERIES.items():
                _compare(f"{name}{title}", spark, target, query, limit, rounds)
    spark.stop()


def _compare(title: str, spark: Any, target: str, query: Callable[[Any], Any], limit: float, rounds: int) -> None:
    """All by turns, each round the other way round, rows thrown away; the first round is not counted. Beside plain
    paths, which nobody plans, the table was planned before; beside the connector, each plans it every time."""
    import lakeport.spark

    ours, plain = lakeport.spark.load(spark, target), _plain(spark, target)
    ways: dict[str, Callable[[], Any]] = {"ours, planned": lambda: ours, "plain paths": lambda: plain}
    if _jars():
        connector = spark.read.format(_CONNECTOR).option("responseFormat", "delta")
        ways["ours"] = lambda: lakeport.spark.load(spark, target)
        ways["the connector"] = lambda: connector.load(f"file://{target}")
    times: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            times[way].append(_measure(ways[way], query))
    _report(title, times, "ours, planned", "plain paths", limit)
    if "the connector" in ways:
        _report(title, times, "ours", "the connector", 1.0)
    else:
        print(f"{title:36} beside the connector: skipped, its jars are not in .peers: run scripts/peers.sh")


def _report(title: str, times: dict[str, list[float]], mine: str, peer: str, limit: float) -> None:
    pairs = list(zip(times[mine][1:], times[peer][1:], strict=True))
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    verdict = "ok" if ratio <= limit else "MISSED"
    numbers = f"{ours:8.2f} s {theirs:8.2f} s ({peer:13}) ratio {ratio:5.2f}  limit {limit:.2f}"
    print(f"{title:36} {numbers}  {verdict}", flush=True)


def _measure(read: Callable[[], Any], query: Callable[[Any], Any]) -> float:
    start = time.perf_counter()
    query(read()).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _plain(spark: Any, target: str) -> Any:
    """Spark's own reader over the URLs of the files, deleted rows and all."""
    import lakeport

    frame = lakeport.scan(target)
    storage: Any = frame.engine.storage
    schema = frame.to_spark(spark).schema
    paths = [_path(storage.signed(file.path).url, file.size) for file in frame.files()]
    return spark.read.schema(schema).parquet(*paths)


def _path(url: str, size: int) -> str:
    return f"plain://http/{size}.{base64.urlsafe_b64encode(url.encode()).decode()}.parquet"


def _session(plain: Path) -> Any:
    from pyspark.sql import SparkSession  # a large package, which only this needs

    from lakeport.spark.native.jar import JAR

    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = [plain, JAR, *_jars()]
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.hadoop.fs.plain.impl": "plain.PlainHttpFileSystem",
    }
    if _jars():
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _jars() -> list[Path]:
    sharing = sorted((_PEERS / "sharing-jars").glob("*.jar"))
    return [*sharing, *sorted((_PEERS / "jars").glob("*.jar"))] if sharing else []


def _compiled(folder: Path) -> Path:
    """The classes of `bench/jvm`."""
    import pyspark

    classes = folder / "classes"
    jars = Path(pyspark.__file__).parent / "jars"
    source = Path(__file__).parent / "jvm/plain/PlainHttpFileSystem.java"
    subprocess.run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", classes, source], check=True)
    return classes
