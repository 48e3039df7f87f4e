"""`make bench`: all benchmarks, or those whose names are given (`python -m bench log scan`).

The name before a hyphen stands for all such parts, unless it is a benchmark itself: `stores`, `everyday`, `growth`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench import client, everyday, growth, iceberg, server, spark, spark_native, spark_write, stores, tables
from bench.comparing import ROUNDS, compare, measure, report


def bench_log(folder: Path) -> None:
    log = tables.large_json_log(folder)
    if log is None:
        print("300,000 files in JSON commits: skipped, the shared tables are not at hand")
    else:
        compare("300,000 files in JSON commits", "lakeport_list", "deltalake_list", log, limit=0.25, memory=True)


def bench_checkpoint(folder: Path) -> None:
    for files in (250_000, 500_000, 1_000_000):
        path = tables.large_checkpoint(folder, files)
        compare(f"{files:,} files in a checkpoint", "lakeport_list", "deltalake_list", path, limit=1.0, memory=True)


def bench_scan(folder: Path) -> None:
    path = tables.wide_rows(folder, 5_000_000)
    compare("5 million rows, 16 columns", "lakeport_scan", "pyarrow_scan", path, limit=1.1, repeat=3)
    compare("5 million rows, 2 of 16 columns", "lakeport_two_columns", "pyarrow_two_columns", path, limit=1.2, repeat=5)
    compare("5 million rows, 16 columns", "lakeport_scan", "duckdb_scan", path, limit=1.0, repeat=3)
    deleted = tables.wide_rows(folder, 5_000_000, deleted=0.05)
    compare("5 % of the rows deleted, 16 columns", "lakeport_scan", "pyarrow_scan", deleted, limit=1.3, repeat=3)


def bench_append(folder: Path) -> None:
    rows = tables.rows_to_write(folder, 5_000_000)
    compare("append of 5 million rows, 16 columns", "lakeport_append", "pyarrow_write", rows, limit=1.3)
    compare("append of 5 million rows, 16 columns", "lakeport_append", "deltalake_append", rows, limit=1.0)


def bench_delete(folder: Path) -> None:
    table = tables.rows_to_delete(folder, files=100, rows=5_000_000)
    compare("delete of 1 % of 5 million rows in 100 files", "lakeport_delete", "deltalake_delete", table, limit=0.2)


def bench_commits(folder: Path) -> None:
    """The same commits after a long history and after a short one: the ratio says what the history costs."""
    short, long = tables.many_versions(folder, 100), tables.many_versions(folder, 10_000)
    pairs = [(measure("lakeport_commits", long), measure("lakeport_commits", short)) for _ in range(ROUNDS)]
    report("100 commits after 10,000 versions, after 100", "after 100 versions", pairs, "seconds", 1.2)
    compare("100 commits after 10,000 versions", "lakeport_commits", "deltalake_commits", long, limit=1.0)


def bench_server(folder: Path) -> None:
    server.bench_server(folder, tables.large_json_log(folder))


def bench_client(folder: Path) -> None:
    client.bench_client(folder)


def bench_spark(folder: Path) -> None:
    spark.bench_spark(folder)


def bench_spark_native(folder: Path) -> None:
    spark_native.bench_spark_native(folder)


def bench_spark_write(folder: Path) -> None:
    spark_write.bench_spark_write(folder)


def bench_iceberg(folder: Path) -> None:
    iceberg.bench_iceberg(folder)


BENCHMARKS: dict[str, Callable[..., None]] = {
    **{f"everyday-{part}": partial(everyday.bench_everyday, part) for part in everyday.PARTS},
    **{f"growth-{part.name}": partial(growth.bench_growth, part) for part in growth.GROWTHS},
    "log": bench_log,
    "checkpoint": bench_checkpoint,
    "scan": bench_scan,
    "append": bench_append,
    "delete": bench_delete,
    "commits": bench_commits,
    "server": bench_server,
    "client": bench_client,
    **{f"stores-{part}": partial(stores.bench_stores, part) for part in stores.PARTS},
    "iceberg": bench_iceberg,
    "spark": bench_spark,
    "spark-native": bench_spark_native,
    "spark-write": bench_spark_write,
}
SHARING_TABLES = ("everyday-", "growth-")
"""Parts of these read the same tables, which are kept."""
DATA = Path(__file__).with_name("data")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), metavar="NAME")
    parser.add_argument("--latency", type=int, action="append", metavar="MS", help="of stores; may be repeated")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # peers were compiled when they were installed
    for name in [each for chosen in given.names for each in _named(chosen)]:
        more = {"latencies": given.latency} if given.latency and name.startswith("stores-") else {}
        with _folder(name) as folder:
            BENCHMARKS[name](folder, **more)


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    if name.startswith(SHARING_TABLES):
        DATA.mkdir(exist_ok=True)
        yield DATA
    else:
        with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
            yield Path(folder)


def _named(name: str) -> list[str]:
    """The benchmark of this name, or all of its parts."""
    found = [name] if name in BENCHMARKS else [each for each in BENCHMARKS if each.startswith(f"{name}-")]
    return found or sys.exit(f"no benchmark {name}; there are {', '.join(BENCHMARKS)}")


if __name__ == "__main__":
    main()
