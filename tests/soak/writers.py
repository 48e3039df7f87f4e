"""Processes that append to one table at the same time: each commit becomes a version, no row is lost or doubled.

    python -m tests.soak.writers [path or s3 url] [--writers 8] [--commits 50]

For an object store, the environment has what it takes to write to it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lakeport import tables
from lakeport.engine import default_engine
from lakeport.kernel.snapshot import Table
from tests.soak.reading import rows_by_deltalake, rows_by_lakeport

ROWS = 20
"""In each commit."""

Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Report:
    """What the writers did."""

    versions: int
    seconds: float
    rebased: int
    """Commits that were put on top of others' since they began."""

    def __str__(self) -> str:
        rate = self.versions / self.seconds
        return f"{self.versions} versions in {self.seconds:.1f} s: {rate:.1f} commits/s, {self.rebased} rebased"


def run(target: str, options: Options = None, *, writers: int = 8, commits: int = 50) -> Report:
    """Lets the writers loose on a new table and checks what they leave. Raises `AssertionError`."""
    schema = pa.schema([("writer", pa.int64()), ("commit", pa.int64()), ("n", pa.int64())])
    tables.create(target, schema=schema, storage_options=options)
    context = get_context("spawn")
    gate = context.Barrier(writers + 1)
    with ProcessPoolExecutor(writers, context, initializer=gate.wait) as pool:
        work = [pool.submit(write, target, options, writer, commits) for writer in range(writers)]
        gate.wait()
        start = time.monotonic()
        made = [version for future in work for version in future.result()]
        seconds = time.monotonic() - start
    assert sorted(made) == list(range(1, writers * commits + 1)), "two writers were given one version, or none"
    check_rows(target, options, writers, commits)
    return Report(len(made), seconds, count_rebased(target, options))


def write(target: str, options: Options, writer: int, commits: int) -> list[int]:
    """One process: so many appends. The versions that they were."""
    return [tables.append(target, batch(writer, commit), storage_options=options).version for commit in range(commits)]


def batch(writer: int, commit: int) -> pa.Table:
    return pa.table({"writer": [writer] * ROWS, "commit": [commit] * ROWS, "n": list(range(ROWS))})


def check_rows(target: str, options: Options, writers: int, commits: int) -> None:
    expected = [(w, c, n) for w in range(writers) for c in range(commits) for n in range(ROWS)]
    columns = ("writer", '"commit"', "n")
    assert rows_by_lakeport(target, options, "writer", "commit", "n") == expected
    assert rows_by_deltalake(target, options, *columns) == expected


def count_rebased(target: str, options: Options) -> int:
    history = Table.for_path(default_engine(options), target).latest_snapshot().history()
    return sum(commit.info.get("readVersion", commit.version - 1) < commit.version - 1 for commit in history)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", help="a directory or a URL; a table is made in it")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--commits", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = f"{given.target or folder}/{uuid4().hex}"
        print(f"{given.writers} writers, {given.commits} commits each, on {target}")
        print(run(target, writers=given.writers, commits=given.commits))


if __name__ == "__main__":
    main()
