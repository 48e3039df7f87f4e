"""Tables in an object store some milliseconds away, beside Polars and deltalake.

MinIO runs on this machine behind a proxy that delays and counts. Each part makes its own tables.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from bench.distance import Distance, at_distance, free_port, running
from bench.stores_jobs import Options
from bench.stores_tables import TABLES

if TYPE_CHECKING:
    from obstore.store import S3Store

MINIO = Path(__file__).resolve().parents[1] / ".peers/bin/minio"
USER, SECRET, BUCKET = "bench-access", "bench-secret", "bench"
LATENCIES = (20,)
"""Milliseconds, unless others are asked for."""
ROUNDS = 5


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    answer: float
    requests: float

    def __str__(self) -> str:
        taken = f"{self.seconds:7.3f} s {self.cpu_seconds:7.2f} s CPU {self.peak_mb:8.1f} MB"
        return f"{taken} {self.requests:6.0f} requests"


_MEASURED = [field.name for field in fields(Result)]


@dataclass(frozen=True)
class Comparison:
    """What a job may take at 20 ms, as a share of its best peer's time."""

    title: str
    table: str
    job: str
    peers: tuple[str, ...]
    limit: float
    requests: int | None = None
    """How many requests it may send."""


POLARS, DELTALAKE, BOTH = ("polars",), ("deltalake",), ("polars", "deltalake")
PARTS: dict[str, Sequence[Comparison]] = {
    "logs": (
        Comparison("open and list files", "line", "list", DELTALAKE, 0.75),
        Comparison("count", "line", "count", DELTALAKE, 1.0),
        Comparison("second scan in one process", "line", "list_again", DELTALAKE, 1.0, requests=2),
        Comparison("2,000 commits, opened", "commits", "list", DELTALAKE, 0.5),
        Comparison("a checkpoint in 10 parts, opened", "parts", "list", DELTALAKE, 0.4),
    ),
    "rows": (
        Comparison("read all", "line", "read", BOTH, 1.0),
        Comparison("2 of 16 columns", "line", "two_columns", BOTH, 0.8),
        Comparison("2 of 16 columns, again", "line", "two_columns_again", BOTH, 0.8),
        Comparison("a filter that keeps 0.4 %", "line", "filter", BOTH, 1.0),
    ),
    "files": (
        Comparison("400 small files", "small", "read", POLARS, 1.0),
        Comparison("one of 200 partitions", "partitions", "partition", BOTH, 1.0),
        Comparison("one file of 200 MB", "one", "read", POLARS, 1.1),
        Comparison("one file of 200 MB, 2 of 16 columns", "one", "two_columns", POLARS, 1.0),
    ),
    "writes": (
        Comparison("append 200,000 rows", "line", "append", DELTALAKE, 0.8),
        Comparison("delete 0.4 %, copy on write", "line", "delete", DELTALAKE, 0.9),
        Comparison("delete that searches 400 small files", "small", "search", DELTALAKE, 0.15),
    ),
}


def bench_stores(part: str, folder: Path, latencies: Sequence[int] = LATENCIES) -> None:
    """The jobs of one part, at each latency in turn."""
    if not MINIO.exists():
        print("stores: skipped, minio is not in .peers: run scripts/peers.sh")
        return
    comparisons = PARTS[part]
    for table in {comparison.table for comparison in comparisons}:
        TABLES[table](folder / "tables" / table)
    with minio(folder) as port:
        bucket = _bucket(port)
        upload(folder / "tables", bucket)
        for latency in latencies:
            print(f"{part} at {latency} ms", flush=True)
            with at_distance(port, latency / 1000) as distance:
                for comparison in comparisons:
                    compare(comparison, distance, bucket)


@contextmanager
def minio(folder: Path) -> Iterator[int]:
    """MinIO with an empty bucket; its port."""
    (folder / "minio" / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [str(MINIO), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder / "minio")]
    environment = {
        "MINIO_ROOT_USER": USER,
        "MINIO_ROOT_PASSWORD": SECRET,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
    }
    with running(command, port, folder / "minio.log", {**os.environ, **environment, "HOME": str(folder)}):
        yield port


def _options(port: int) -> Options:
    """The store's options under obstore's names."""
    keys = {"access_key_id": USER, "secret_access_key": SECRET, "region": "us-east-1"}
    return keys | {"endpoint": f"http://127.0.0.1:{port}", "allow_http": "true"}


def _bucket(port: int) -> S3Store:
    from obstore.store import S3Store

    config = {name: value for name, value in _options(port).items() if name != "allow_http"}
    return S3Store(BUCKET, client_options={"allow_http": True}, config=config)


def upload(root: Path, bucket: S3Store) -> None:
    files = [file for file in root.rglob("*") if file.is_file()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: bucket.put(str(file.relative_to(root)), file), files))


def compare(comparison: Comparison, distance: Distance, bucket: S3Store) -> None:
    """Alternate between all libraries, and print the medians beside those of the fastest peer."""
    libraries = ("lakeport", *comparison.peers)
    rounds = [
        {name: measure(f"{name}_{comparison.job}", comparison.table, distance, bucket) for name in libraries}
        for _ in range(ROUNDS)
    ]
    answers = {result.answer for results in rounds for result in results.values()}
    assert len(answers) == 1, f"{comparison.title}: the answers differ: {answers}"
    of = {
        name: Result(*(statistics.median(getattr(r[name], what) for r in rounds) for what in _MEASURED))
        for name in libraries
    }
    best = min(comparison.peers, key=lambda name: of[name].seconds)
    ratio = statistics.median(results["lakeport"].seconds / results[best].seconds for results in rounds)
    within = comparison.requests is None or of["lakeport"].requests <= comparison.requests
    verdict = "ok" if ratio <= comparison.limit and within else "MISSED"
    for name in libraries:
        print(f"{comparison.title if name == 'lakeport' else '':42} {name:10} {of[name]}", flush=True)
    most = "" if comparison.requests is None else f", at most {comparison.requests} requests"
    print(f"{'':42} ratio {ratio:.2f} to {best}, limit {comparison.limit:.2f}{most}  {verdict}", flush=True)


def measure(job: str, table: str, distance: Distance, bucket: S3Store) -> Result:
    """A job in a process of its own. Requests are counted from when it is ready."""
    options = json.dumps(_options(distance.port))
    command = [sys.executable, "-m", "bench.stores_jobs", job, f"s3://{BUCKET}/{table}", options]
    with unchanged(table, bucket), subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        distance.requests.clear()
        output, _ = process.communicate("go\n")
    assert process.returncode == 0, f"{job} failed"
    return Result(requests=len(distance.requests), **json.loads(output))


@contextmanager
def unchanged(table: str, bucket: S3Store) -> Iterator[None]:
    """Remove the objects that a job adds: a Delta table never changes those that are there."""
    before = _names(table, bucket)
    yield
    bucket.delete(sorted(_names(table, bucket) - before))


def _names(table: str, bucket: S3Store) -> set[str]:
    return {found["path"] for chunk in bucket.list(f"{table}/") for found in chunk}
