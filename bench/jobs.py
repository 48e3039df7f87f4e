"""One job of one library, in a process of its own: prints its seconds, its peak memory and a number to compare."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TWO_COLUMNS = ["i0", "s1"]


def lakeport_list(path: str) -> Callable[[], int]:
    import lakeport

    def work() -> int:
        plan = lakeport.scan(path).snapshot.scan_builder().build()
        return sum(batch.data.num_rows for batch in plan.scan_files())

    return work


def deltalake_list(path: str) -> Callable[[], int]:
    import deltalake

    return lambda: len(deltalake.DeltaTable(path).file_uris())


def lakeport_scan(path: str) -> Callable[[], int]:
    import lakeport

    return lambda: lakeport.scan(path).to_arrow().num_rows


def lakeport_two_columns(path: str) -> Callable[[], int]:
    import lakeport

    return lambda: lakeport.scan(path).select(*TWO_COLUMNS).to_arrow().num_rows


def pyarrow_scan(path: str, columns: list[str] | None = None) -> Callable[[], int]:
    import pyarrow.dataset as ds

    return lambda: (
        ds.dataset(path, exclude_invalid_files=False, ignore_prefixes=["_"]).to_table(columns=columns).num_rows
    )


def pyarrow_two_columns(path: str) -> Callable[[], int]:
    return pyarrow_scan(path, TWO_COLUMNS)


def duckdb_scan(path: str) -> Callable[[], int]:
    import duckdb

    connection = duckdb.connect()
    return lambda: connection.execute(f"SELECT * FROM '{path}/*.parquet'").to_arrow_table().num_rows


JOBS: dict[str, Callable[[str], Callable[[], int]]] = {
    job.__name__: job
    for job in (
        lakeport_list,
        deltalake_list,
        lakeport_scan,
        lakeport_two_columns,
        pyarrow_scan,
        pyarrow_two_columns,
        duckdb_scan,
    )
}


def peak_kb() -> int:
    """The most memory that this process has had. (getrusage would count that of the parent, which forked it.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def run(name: str, path: str, repeat: int) -> dict[str, Any]:
    """The import is not counted; the first run is, and of several the best."""
    work = JOBS[name](path)
    base = peak_kb()
    times, answer = [], 0
    for _ in range(repeat):
        start = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - start)
    peak = peak_kb()
    return {"seconds": min(times), "peak_mb": peak / 1024, "grown_mb": (peak - base) / 1024, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
