"""One job of one library on a table in an object store, in a process of its own.

`python -m bench.stores_jobs JOB URL OPTIONS` prints its seconds, its CPU time, its peak memory and a number to compare.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from bench.jobs import peak_kb
from bench.stores_tables import ROWS, line_items

TWO_COLUMNS = ["l_orderkey", "l_extendedprice"]

Options = dict[str, str]
Job = Callable[[str, Options], int]


def lakeport(table: str, options: Options) -> Any:
    from lakeport import scan

    return scan(table, storage_options=options)


def deltalake(table: str, options: Options) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table, storage_options=_prefixed(options))


def polars(table: str, options: Options) -> Any:
    from polars import scan_delta

    return scan_delta(table, storage_options=_prefixed(options))


def _prefixed(options: Options) -> Options:
    return {f"aws_{name}": value for name, value in options.items()}


def deltalake_rows(table: str, options: Options, what: str = "*", where: str = "true") -> int:
    from deltalake import QueryBuilder

    query = QueryBuilder().register("t", deltalake(table, options))
    return sum(batch.num_rows for batch in query.execute(f"SELECT {what} FROM t WHERE {where}"))


def polars_where(table: str, options: Options, condition: str) -> int:
    from polars import sql_expr

    return int(polars(table, options).filter(sql_expr(condition)).collect().height)


def lakeport_deleted(table: str, options: Options, condition: str) -> int:
    from lakeport import tables

    return int(tables.delete(table, condition, storage_options=options).metrics["numDeletedRows"])


def deltalake_deleted(table: str, options: Options, condition: str) -> int:
    return int(deltalake(table, options).delete(condition)["num_deleted_rows"])


@cache
def new_rows() -> pa.Table:
    return line_items(np.random.default_rng(19), ROWS, 200_000)


def lakeport_append(table: str, options: Options) -> int:
    from lakeport import tables

    tables.append(table, new_rows(), storage_options=options)
    return len(new_rows())


def deltalake_append(table: str, options: Options) -> int:
    from deltalake import write_deltalake

    write_deltalake(table, new_rows(), mode="append", storage_options=_prefixed(options))
    return len(new_rows())


_FEW, _ONE, _NOTHING = f"l_orderkey < {ROWS // 250}", "p = 'p017'", "id = -1"

JOBS: dict[str, Job] = {
    "lakeport_list": lambda t, o: len(lakeport(t, o).files()),
    "deltalake_list": lambda t, o: len(deltalake(t, o).file_uris()),
    "lakeport_read": lambda t, o: lakeport(t, o).to_arrow().num_rows,
    "polars_read": lambda t, o: polars(t, o).collect().height,
    "deltalake_read": deltalake_rows,
    "lakeport_two_columns": lambda t, o: lakeport(t, o).select(*TWO_COLUMNS).to_arrow().num_rows,
    "polars_two_columns": lambda t, o: polars(t, o).select(TWO_COLUMNS).collect().height,
    "deltalake_two_columns": lambda t, o: deltalake_rows(t, o, ", ".join(TWO_COLUMNS)),
    "lakeport_filter": lambda t, o: lakeport(t, o).where(_FEW).to_arrow().num_rows,
    "polars_filter": lambda t, o: polars_where(t, o, _FEW),
    "deltalake_filter": lambda t, o: deltalake_rows(t, o, where=_FEW),
    "lakeport_count": lambda t, o: lakeport(t, o).count(),
    "deltalake_count": lambda t, o: deltalake(t, o).count(),
    "lakeport_partition": lambda t, o: lakeport(t, o).where(_ONE).to_arrow().num_rows,
    "polars_partition": lambda t, o: polars_where(t, o, _ONE),
    "deltalake_partition": lambda t, o: deltalake_rows(t, o, where=_ONE),
    "lakeport_append": lakeport_append,
    "deltalake_append": deltalake_append,
    "lakeport_delete": lambda t, o: lakeport_deleted(t, o, _FEW),
    "deltalake_delete": lambda t, o: deltalake_deleted(t, o, _FEW),
    "lakeport_search": lambda t, o: lakeport_deleted(t, o, _NOTHING),
    "deltalake_search": lambda t, o: deltalake_deleted(t, o, _NOTHING),
    "lakeport_stream": lambda t, o: sum(batch.num_rows for batch in lakeport(t, o).to_batches()),
}
JOBS |= {f"{name}_again": job for name, job in JOBS.items()}
_IMPORTS = {
    "lakeport": ["lakeport.engine", "lakeport.frame", "lakeport.tables", "obstore.store", "pyarrow.parquet"],
    "polars": ["deltalake", "polars", "pyarrow"],
    "deltalake": ["deltalake", "pyarrow"],
}


def run(job: str, table: str, options: Options) -> dict[str, Any]:
    """Imports and the rows to append are not counted; of a job done `again`, neither is the first time."""
    for module in _IMPORTS[job.partition("_")[0]]:
        importlib.import_module(module)
    work = JOBS[job]
    if job.endswith("_again"):
        work(table, options)
    if "append" in job:
        new_rows()
    print("ready", flush=True)
    sys.stdin.readline()
    start, cpu = time.perf_counter(), time.process_time()
    answer = work(table, options)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak_kb() / 1024, "answer": answer}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
