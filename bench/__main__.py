"""`make bench`: all benchmarks, or those whose names are given (`python -m bench log scan`)."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import server, tables

ROUNDS = 5


@dataclass(frozen=True)
class Result:
    seconds: float
    peak_mb: float
    grown_mb: float
    answer: int


def measure(job: str, path: Path, repeat: int = 1) -> Result:
    command = [sys.executable, "-m", "bench.jobs", job, str(path), str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def compare(
    title: str, ours: str, peer: str, path: Path, *, limit: float, repeat: int = 1, memory: bool = False
) -> None:
    """Runs both by turns, so that what else the machine does hits both, and prints the median of the ratios."""
    pairs = [(measure(ours, path, repeat), measure(peer, path, repeat)) for _ in range(ROUNDS)]
    report(title, peer, pairs, "seconds", limit)
    if memory:
        report(f"{title}: peak memory", peer, pairs, "peak_mb", limit)
        report(f"{title}: memory grown", peer, pairs, "grown_mb", limit)


def report(title: str, peer: str, pairs: list[tuple[Result, Result]], what: str, limit: float) -> None:
    mine = statistics.median(getattr(a, what) for a, _ in pairs)
    theirs = statistics.median(getattr(b, what) for _, b in pairs)
    ratio = statistics.median(getattr(a, what) / getattr(b, what) for a, b in pairs)
    unit = "s" if what == "seconds" else "MB"
    verdict = "ok" if ratio <= limit else "MISSED"
    numbers = f"{mine:8.2f} {unit:2} {theirs:8.2f} {unit:2} ({peer:19}) ratio {ratio:5.2f}  limit {limit:.2f}"
    print(f"{title:48} {numbers}  {verdict}", flush=True)


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


BENCHMARKS: dict[str, Callable[[Path], None]] = {
    "log": bench_log,
    "checkpoint": bench_checkpoint,
    "scan": bench_scan,
    "append": bench_append,
    "delete": bench_delete,
    "commits": bench_commits,
    "server": bench_server,
}


def main() -> None:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    if unknown := set(chosen) - set(BENCHMARKS):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="lakeport-bench-") as folder:
            BENCHMARKS[name](Path(folder))


if __name__ == "__main__":
    main()
