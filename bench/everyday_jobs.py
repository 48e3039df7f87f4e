"""Everyday jobs by Lakeport and by its peers: a job's name is that of the tool and that of the task.

A module is imported by the process that runs a job, in the tool's own environment: import nothing here that only some
environments have.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Job = Callable[[str], Callable[[], Any]]
"""Prepares the work on a table, imports included. What the work returns is compared with what others return."""


@dataclass(frozen=True)
class Reading:
    """Rows to read, in a form that every tool takes."""

    columns: tuple[str, ...] | None = None
    where: str | None = None

    def sql(self, table: str) -> str:
        columns = ", ".join(self.columns or "*")
        return f"SELECT {columns} FROM {table}" + (f" WHERE {self.where}" if self.where else "")


READINGS = {
    "all": Reading(),
    "some_columns": Reading(columns=("l_partkey", "l_extendedprice")),
    "few_rows": Reading(where="l_partkey < 800"),
    "one_partition": Reading(where="month = 7"),
}
QUERIES = {
    "q1": "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base,"
    " sum(l_extendedprice * (1 - l_discount)) AS discounted,"
    " sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged, avg(l_quantity) AS mean_quantity,"
    " avg(l_extendedprice) AS mean_price, avg(l_discount) AS mean_discount, count(*) AS orders FROM {table}"
    " WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    "q6": "SELECT sum(l_extendedprice * l_discount) AS revenue FROM {table} WHERE l_shipdate >= DATE '1994-01-01'"
    " AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.049 AND 0.071 AND l_quantity < 24",
    "point": "SELECT * FROM {table} WHERE l_orderkey = 750001",
    "count": "SELECT count(*) AS n FROM {table}",
}


# Rows


def lakeport_read(reading: Reading, path: str) -> Callable[[], Any]:
    from lakeport import scan

    def work() -> Any:
        frame = scan(path)
        if reading.columns is not None:
            frame = frame.select(*reading.columns)
        if reading.where is not None:
            frame = frame.where(reading.where)
        return frame.to_arrow()

    return work


def lakeport_few_rows_by_expression(path: str) -> Callable[[], Any]:
    from lakeport import col, scan

    return lambda: scan(path).where(col("l_partkey") < 800).to_arrow()


def polars_read(reading: Reading, path: str) -> Callable[[], Any]:
    """Into Polars' own frame, which costs it less than Arrow's types."""
    import deltalake  # noqa: F401  # scan_delta imports it
    import polars as pl

    return lambda: _polars_rows(pl.scan_delta(path), reading)


def _polars_rows(frame: Any, reading: Reading) -> Any:
    import polars as pl

    if reading.where is not None:
        frame = frame.filter(pl.sql_expr(reading.where))
    if reading.columns is not None:
        frame = frame.select(reading.columns)
    return frame.collect()


def duckdb_read(reading: Reading, path: str) -> Callable[[], Any]:
    return duckdb_query(reading.sql("{table}"), path)


def deltalake_read(reading: Reading, path: str) -> Callable[[], Any]:
    return deltalake_query(reading.sql("{table}"), path)


def deltalake_to_pyarrow(path: str) -> Callable[[], Any]:
    """Its other way to read, by a dataset of pyarrow: better with many columns."""
    import deltalake
    import pyarrow.dataset  # noqa: F401

    return lambda: deltalake.DeltaTable(path).to_pyarrow_table()


# Queries


def lakeport_query(query: str, path: str) -> Callable[[], Any]:
    import duckdb

    from lakeport import scan

    connection = duckdb.connect()
    return lambda: scan(path).to_duckdb(connection).query("lines", query.format(table="lines")).to_arrow_table()


def duckdb_query(query: str, path: str) -> Callable[[], Any]:
    connection = connect_duckdb()
    return lambda: connection.execute(_over_delta(query, path)).to_arrow_table()


def _over_delta(query: str, path: str) -> str:
    return query.format(table=f"delta_scan('{path}')")


def connect_duckdb() -> Any:
    import duckdb
    import duckdb_extension_delta

    (extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    return connection


def deltalake_query(query: str, path: str) -> Callable[[], Any]:
    import deltalake

    def work() -> Any:
        session = deltalake.QueryBuilder().register("lines", deltalake.DeltaTable(path))
        return session.execute(query.format(table="lines")).read_all()

    return work


# Logs


def lakeport_open(path: str) -> Callable[[], int]:
    from lakeport import scan

    return lambda: len(scan(path).schema)


def deltalake_open(path: str) -> Callable[[], int]:
    import deltalake

    return lambda: len(deltalake.DeltaTable(path).schema().fields)


# Whole processes, start-up included


def lakeport_process(query: str, path: str) -> Callable[[], Any]:
    """`lakeport sql`."""
    command = ["-m", "lakeport", "sql", query.format(table=f'"{path}"'), "--json"]
    return lambda: _JsonRows(_output(*command))


def duckdb_process(query: str, path: str) -> Callable[[], Any]:
    """A script: DuckDB's shell has no Delta extension at hand."""
    script = (
        "import json; from bench.everyday_jobs import connect_duckdb\n"
        f"found = connect_duckdb().execute({_over_delta(query, path)!r})\n"
        "names = [column[0] for column in found.description]\n"
        "for row in found.fetchall(): print(json.dumps(dict(zip(names, row)), default=str))"
    )
    return lambda: _JsonRows(_output("-c", script))


def importing(module: str, path: str) -> Callable[[], int]:
    return lambda: len(_output("-c", f"import {module}"))


def lakeport_version(path: str) -> Callable[[], int]:
    return lambda: int(_output("-m", "lakeport", "--version") == "")


def _output(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class _JsonRows:
    """Printed rows, which are parsed after the clock has stopped."""

    text: str

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa

        rows = [json.loads(line) for line in self.text.splitlines()]
        return pa.Table.from_pylist(rows).__arrow_c_stream__(requested_schema)


# Shared tables, by the path of a profile


def urls_polars_read(reading: Reading, target: str) -> Callable[[], Any]:
    """Polars on the URLs that the server gives for the table, which it is asked for as part of the job."""
    import polars as pl

    return lambda: _polars_rows(pl.scan_parquet(_signed_urls(target)), reading)


def _signed_urls(target: str) -> list[str]:
    from urllib.request import Request, urlopen

    path, _, name = target.rpartition("#")
    profile = json.loads(Path(path).read_text())
    share, schema, table = name.split(".")
    headers = {"Authorization": f"Bearer {profile['bearerToken']}", "Content-Type": "application/json"}
    address = f"{profile['endpoint']}/shares/{share}/schemas/{schema}/tables/{table}/query"
    with urlopen(Request(address, b"{}", headers)) as answer:
        return [line["file"]["url"] for line in map(json.loads, answer) if "file" in line]


def delta_sharing_all(target: str) -> Callable[[], Any]:
    """What it gives is a DataFrame of pandas, of all columns: it cannot read fewer."""
    from delta_sharing import load_as_pandas

    return lambda: load_as_pandas(target)


JOBS: dict[str, Job] = {
    **{
        f"{tool}_{task}": partial(read, reading)
        for tool, read in {
            "lakeport": lakeport_read,
            "polars": polars_read,
            "duckdb": duckdb_read,
            "deltalake": deltalake_read,
            "urls_polars": urls_polars_read,
        }.items()
        for task, reading in READINGS.items()
    },
    **{
        f"{tool}_{task}": partial(ask, query)
        for tool, ask in {
            "lakeport": lakeport_query,
            "duckdb": duckdb_query,
            "deltalake": deltalake_query,
            "lakeport_process": lakeport_process,
            "duckdb_process": duckdb_process,
        }.items()
        for task, query in QUERIES.items()
    },
    **{f"{tool}_import": partial(importing, tool) for tool in ("lakeport", "deltalake", "polars", "duckdb")},
    **{
        job.__name__: job
        for job in (
            lakeport_few_rows_by_expression,
            deltalake_to_pyarrow,
            lakeport_open,
            deltalake_open,
            lakeport_version,
            delta_sharing_all,
        )
    },
}
