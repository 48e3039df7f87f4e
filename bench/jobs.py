"""One job of one library, in a process of its own: prints its seconds, its peak memory and a number to compare."""

from __future__ import annotations

import atexit
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import everyday_jobs, everyday_writes
from bench.answers import answer_of
from bench.targets import fresh, linked_copy

TWO_COLUMNS = ["i0", "s1"]


def lakeport_list(path: str) -> Callable[[], int]:
    from lakeport import scan

    def work() -> int:
        plan = scan(path).snapshot.scan_builder().build()
        return sum(batch.data.num_rows for batch in plan.scan_files())

    return work


def deltalake_list(path: str) -> Callable[[], int]:
    import deltalake

    return lambda: len(deltalake.DeltaTable(path).file_uris())


def lakeport_scan(path: str) -> Callable[[], int]:
    from lakeport import scan

    return lambda: scan(path).to_arrow().num_rows


def lakeport_two_columns(path: str) -> Callable[[], int]:
    from lakeport import scan

    return lambda: scan(path).select(*TWO_COLUMNS).to_arrow().num_rows


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


def lakeport_append(path: str) -> Callable[[], int]:
    """Rows in memory into a new table; how they were cut into files is noted for `pyarrow_write`."""
    import pyarrow.parquet as pq

    from lakeport import tables

    rows, target = pq.read_table(path), fresh(path, "lakeport")
    tables.create(str(target), schema=rows.schema)

    def work() -> int:
        tables.append(str(target), rows)
        return rows.num_rows

    def note() -> None:
        counts = [pq.read_metadata(file).num_rows for file in target.glob("*.parquet")]
        Path(path, "..", "counts.json").write_text(json.dumps(counts))

    return afterwards(work, note)


def pyarrow_write(path: str) -> Callable[[], int]:
    """The same rows into files of the same sizes, and nothing else."""
    import pyarrow.parquet as pq

    rows, target = pq.read_table(path), fresh(path, "pyarrow")
    counts = json.loads(Path(path, "..", "counts.json").read_text())

    def work() -> int:
        start = 0
        for number, count in enumerate(counts):
            pq.write_table(rows.slice(start, count), target / f"{number}.parquet")
            start += count
        return start

    return work


def deltalake_append(path: str) -> Callable[[], int]:
    import deltalake
    import pyarrow.parquet as pq

    rows, target = pq.read_table(path), fresh(path, "deltalake")
    deltalake.DeltaTable.create(str(target), rows.schema)

    def work() -> int:
        deltalake.write_deltalake(str(target), rows, mode="append")
        return rows.num_rows

    return work


def lakeport_delete(path: str) -> Callable[[], int]:
    from lakeport import tables

    target = linked_copy(path, "lakeport")
    tables.set_properties(str(target), {"delta.enableDeletionVectors": "true"})
    return lambda: tables.delete(str(target), "bucket = 7").metrics["numDeletedRows"]


def deltalake_delete(path: str) -> Callable[[], int]:
    import deltalake

    target = linked_copy(path, "deltalake")
    return lambda: deltalake.DeltaTable(str(target)).delete("bucket = 7")["num_deleted_rows"]


def lakeport_commits(path: str) -> Callable[[], int]:
    """Appends of one row each: every tenth writes a checkpoint too."""
    from lakeport import tables

    target = linked_copy(path, "lakeport")

    def work() -> int:
        return [tables.append(str(target), {"id": [number]}).version for number in range(COMMITS)][-1]

    return work


def deltalake_commits(path: str) -> Callable[[], int]:
    import deltalake
    import pyarrow as pa

    target = linked_copy(path, "deltalake")

    def work() -> int:
        for number in range(COMMITS):
            deltalake.write_deltalake(str(target), pa.table({"id": [number]}), mode="append")
        return deltalake.DeltaTable(str(target)).version()

    return work


def afterwards(work: Callable[[], int], note: Callable[[], None]) -> Callable[[], int]:
    """`work`, and `note` when the process ends: not counted."""
    atexit.register(note)
    return work


COMMITS = 100


def lakeport_shared(target: str) -> Callable[[], int]:
    from lakeport import scan

    return lambda: scan(target).to_arrow().num_rows


def lakeport_shared_two_columns(target: str) -> Callable[[], int]:
    from lakeport import scan

    return lambda: scan(target).select(*TWO_COLUMNS).to_arrow().num_rows


def lakeport_shared_ten_rows(target: str) -> Callable[[], int]:
    """The number of requests that ten rows take."""
    import logging

    from lakeport import scan

    logger = logging.getLogger("urllib3.connectionpool")
    logger.setLevel(logging.DEBUG)
    requests: list[logging.LogRecord] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            requests.extend([record] if "HTTP/" in record.getMessage() else [])

    logger.addHandler(Note())

    def work() -> int:
        rows = scan(target).limit(10).to_arrow()
        assert rows.num_rows == 10
        return len(requests)

    return work


def delta_sharing(target: str, *, delta: bool | None = None) -> Callable[[], int]:
    """All columns: it cannot read fewer. What it gives is a DataFrame of pandas."""
    from delta_sharing import load_as_pandas

    return lambda: len(load_as_pandas(target, use_delta_format=delta))


def delta_sharing_kernel(target: str) -> Callable[[], int]:
    """The same in the delta format, which it reads by a library in Rust."""
    return delta_sharing(target, delta=True)


JOBS: dict[str, everyday_jobs.Job] = (
    everyday_jobs.JOBS
    | everyday_writes.JOBS
    | {
        job.__name__: job
        for job in (
            lakeport_list,
            deltalake_list,
            lakeport_scan,
            lakeport_two_columns,
            pyarrow_scan,
            pyarrow_two_columns,
            duckdb_scan,
            lakeport_append,
            pyarrow_write,
            deltalake_append,
            lakeport_delete,
            deltalake_delete,
            lakeport_commits,
            deltalake_commits,
            lakeport_shared,
            lakeport_shared_two_columns,
            lakeport_shared_ten_rows,
            delta_sharing,
            delta_sharing_kernel,
        )
    }
)


def peak_kb(process: int | str = "self") -> int:
    """The most memory that a process has had. (getrusage would count that of the parent, which forked it.)"""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def peak_with_children_kb() -> int:
    """A job whose work is a process of its own imports nothing itself, so that the child's peak is the larger."""
    return max(peak_kb(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def cpu_seconds() -> float:
    """Of all threads, and of children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def run(name: str, path: str, repeat: int) -> dict[str, Any]:
    """The import is not counted; the first run is, and of several the best."""
    work = JOBS[name](path)
    base = peak_kb()
    times: list[tuple[float, float]] = []
    rows: Any = None
    for _ in range(repeat):
        rows = None
        start, cpu = time.perf_counter(), cpu_seconds()
        rows = work()
        times.append((time.perf_counter() - start, cpu_seconds() - cpu))
    seconds, cpu = min(times)
    peak = peak_with_children_kb() / 1024
    figures = {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak, "grown_mb": peak - base / 1024}
    return figures | {"written_mb": getattr(rows, "written_mb", 0.0), "answer": answer_of(rows)}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
