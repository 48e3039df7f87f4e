"""Tables in an object store some milliseconds away, beside Polars and deltalake.

MinIO runs on this machine behind a proxy. A job runs in a process of its own: `python -m bench.stores JOB URL OPTIONS`
prints its seconds, its CPU time, its peak memory and a number to compare.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.distance import Distance, at_distance, free_port, running
from bench.jobs import peak_kb
from bench.tables import large_checkpoint

MINIO = Path(__file__).resolve().parents[1] / ".peers/bin/minio"
USER, SECRET, BUCKET = "bench-access", "bench-secret", "bench"
LATENCY = 0.02
ROUNDS = 5
ROWS, FILES, COMMITS, PARTITIONS, PARTS = 6_000_000, 12, 2_000, 200, 10
TWO_COLUMNS = ["l_orderkey", "l_extendedprice"]

Options = dict[str, str]
Job = Callable[[str, Options], int]


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
    """What a job may take, as a share of its best peer's time."""

    title: str
    table: str
    job: str
    peers: tuple[str, ...]
    limit: float
    requests: int | None = None
    """How many requests it may send."""


POLARS, DELTALAKE, BOTH = ("polars",), ("deltalake",), ("polars", "deltalake")
COMPARISONS = [
    Comparison("open and list files", "line", "list", DELTALAKE, 0.75),
    Comparison("read all", "line", "read", BOTH, 1.0),
    Comparison("2 of 16 columns", "line", "two_columns", BOTH, 0.8),
    Comparison("a filter that keeps 0.4 %", "line", "filter", BOTH, 1.0),
    Comparison("count", "line", "count", DELTALAKE, 1.0),
    Comparison("400 small files", "small", "read", BOTH, 1.0),
    Comparison("2,000 commits, opened", "commits", "list", DELTALAKE, 0.5),
    Comparison("one of 200 partitions", "partitions", "partition", BOTH, 1.0),
    Comparison("a checkpoint in 10 parts, opened", "parts", "list", DELTALAKE, 0.4),
    Comparison("one file of 200 MB", "one", "read", POLARS, 1.1),
    Comparison("one file of 200 MB, 2 of 16 columns", "one", "two_columns", POLARS, 1.0),
    Comparison("second scan in one process", "line", "again", DELTALAKE, 1.0, requests=2),
    Comparison("a search of 400 files for rows to delete", "small", "delete", DELTALAKE, 0.27),
]


def bench_stores(folder: Path, chosen: Iterable[Comparison] = COMPARISONS) -> None:
    if not MINIO.exists():
        print("stores: skipped, minio is not in .peers: run scripts/peers.sh")
        return
    make_tables(folder / "tables")
    with minio(folder) as port, at_distance(port, LATENCY) as store:
        upload(folder / "tables", _options(port))
        for comparison in chosen:
            compare(comparison, store)


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


def compare(comparison: Comparison, store: Distance) -> None:
    """Alternate between all libraries, and print the medians beside those of the fastest peer."""
    libraries = ("lakeport", *comparison.peers)
    rounds = [
        {name: measure(f"{name}_{comparison.job}", comparison.table, store) for name in libraries}
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


def measure(job: str, table: str, store: Distance) -> Result:
    """A job in a process of its own. Requests are counted from when it is ready."""
    command = [sys.executable, "-m", "bench.stores", job, f"s3://{BUCKET}/{table}", json.dumps(_options(store.port))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        store.requests.clear()
        output, _ = process.communicate("go\n")
    assert process.returncode == 0, f"{job} failed"
    return Result(requests=len(store.requests), **json.loads(output))


# Jobs


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


def lakeport_delete(table: str, options: Options) -> int:
    from lakeport import tables

    return int(tables.delete(table, _NOTHING, storage_options=options).metrics["numDeletedRows"])


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
    "lakeport_delete": lakeport_delete,
    "deltalake_delete": lambda t, o: int(deltalake(t, o).delete(_NOTHING)["num_deleted_rows"]),
    "lakeport_stream": lambda t, o: sum(batch.num_rows for batch in lakeport(t, o).to_batches()),
}
JOBS |= {f"{library}_again": JOBS[f"{library}_list"] for library in ("lakeport", "deltalake")}
_IMPORTS = {
    "lakeport": ["lakeport.engine", "lakeport.frame", "lakeport.tables", "obstore.store", "pyarrow.parquet"],
    "polars": ["deltalake", "polars", "pyarrow"],
    "deltalake": ["deltalake", "pyarrow"],
}


def run(job: str, table: str, options: Options) -> dict[str, Any]:
    """Imports are not counted; of a job done `again`, neither is the first time."""
    for module in _IMPORTS[job.partition("_")[0]]:
        importlib.import_module(module)
    work = JOBS[job]
    if job.endswith("_again"):
        work(table, options)
    print("ready", flush=True)
    sys.stdin.readline()
    start, cpu = time.perf_counter(), time.process_time()
    answer = work(table, options)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak_kb() / 1024, "answer": answer}


# Tables


def make_tables(root: Path) -> None:
    """Commits of one file each, except for the partitions and the parts."""
    random = np.random.default_rng(18)
    lines = [line_items(random, number * ROWS // FILES, ROWS // FILES) for number in range(FILES)]
    write_table(root / "line", lines)
    write_table(root / "one", [pa.concat_tables(lines)])
    write_table(root / "small", [_numbers(random, n, 2500) for n in range(400)], bounds=False)
    write_table(root / "commits", [_numbers(random, n, 1) for n in range(COMMITS)])
    parts = {f"p{n:03d}": lines[0].slice(n * 2500, 2500) for n in range(PARTITIONS)}
    write_table(root / "partitions", list(parts.values()), partitions=list(parts))
    write_parts(root / "parts")


def line_items(random: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Rows like those of TPC-H's `lineitem`, in the order of their first column."""

    def chosen(*words: str) -> pa.Array:
        return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))

    days = random.integers(8000, 10_500, rows).astype("int32")
    comments = pa.array([f"{a} the {b} requests" for a in _WORDS for b in _WORDS])
    return pa.table(
        {
            "l_orderkey": np.arange(first, first + rows),
            "l_partkey": random.integers(0, 200_000, rows),
            "l_suppkey": random.integers(0, 10_000, rows),
            "l_linenumber": random.integers(1, 8, rows).astype("int32"),
            "l_quantity": random.integers(1, 51, rows).astype(float),
            "l_extendedprice": random.integers(90_000, 10_500_000, rows) / 100,
            "l_discount": random.integers(0, 11, rows) / 100,
            "l_tax": random.integers(0, 9, rows) / 100,
            "l_returnflag": chosen("A", "N", "R"),
            "l_linestatus": chosen("F", "O"),
            "l_shipdate": pa.array(days).cast(pa.date32()),
            "l_commitdate": pa.array(days + random.integers(-60, 60, rows).astype("int32")).cast(pa.date32()),
            "l_receiptdate": pa.array(days + random.integers(1, 30, rows).astype("int32")).cast(pa.date32()),
            "l_shipinstruct": chosen("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"),
            "l_shipmode": chosen("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
            "l_comment": pc.binary_join_element_wise(
                comments.take(pa.array(random.integers(0, len(comments), rows))),
                pa.array(random.integers(0, 1_000_000, rows)).cast(pa.string()),
                " ",
            ),
        }
    )


_WORDS = [
    f"{how}ly {what}"
    for how in ("furious", "careful", "quick", "sly", "blithe")
    for what in ["bold", "even", "final", "ironic", "pending", "regular", "silent", "special", "unusual", "express"]
]


def _numbers(random: np.random.Generator, number: int, rows: int) -> pa.Table:
    return pa.table({"id": np.arange(number * rows, (number + 1) * rows), "x": random.random(rows)})


def write_table(table: Path, files: list[pa.Table], partitions: Sequence[str] = (), bounds: bool = True) -> None:
    """A commit for each file, or one for all partitions."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    actions = _first(files[0].schema, bool(partitions))
    for number, rows in enumerate(files):
        path = f"p={partitions[number]}/{number}.parquet" if partitions else f"{number}.parquet"
        (table / path).parent.mkdir(exist_ok=True)
        pq.write_table(rows, table / path)
        values = {"p": partitions[number]} if partitions else {}
        actions.append({"add": _add(table, path, rows if bounds else None) | {"partitionValues": values}})
        if not partitions or number + 1 == len(files):
            version = 0 if partitions else number
            (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
            actions = []


def _first(schema: pa.Schema, partitioned: bool) -> list[dict[str, Any]]:
    types = {name: _TYPES[str(kind)] for name, kind in zip(schema.names, schema.types, strict=True)}
    columns = types | ({"p": "string"} if partitioned else {})
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "configuration": {}, "createdTime": 0}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    metadata |= {"partitionColumns": ["p"] if partitioned else []}
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


_TYPES = {"int64": "long", "int32": "integer", "double": "double", "string": "string", "date32[day]": "date"}


def _add(table: Path, path: str, rows: pa.Table | None) -> dict[str, Any]:
    """The add of a file; with the bounds of its first column if given its rows."""
    size = (table / path).stat().st_size
    add = {"path": path, "size": size, "modificationTime": 0, "dataChange": True}
    if rows is not None:
        first = rows.column(0)
        bounds = {"minValues": first[0].as_py(), "maxValues": first[-1].as_py(), "nullCount": 0}
        stats = {what: {rows.column_names[0]: bound} for what, bound in bounds.items()}
        add["stats"] = json.dumps({"numRecords": rows.num_rows, **stats})
    return add


def write_parts(table: Path, files: int = 10_000) -> None:
    """A checkpoint of as many files, none of which exists, in parts."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    whole = pq.read_table(large_checkpoint(table.parent, files) / "_delta_log" / f"{10:020d}.checkpoint.parquet")
    for part in range(PARTS):
        rows = whole.slice(part * len(whole) // PARTS, (part + 1) * len(whole) // PARTS - part * len(whole) // PARTS)
        pq.write_table(rows, log / f"{10:020d}.checkpoint.{part + 1:010d}.{PARTS:010d}.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": files + 2, "parts": PARTS}))
    (log / f"{10:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")


def upload(root: Path, options: Options) -> None:
    from obstore.store import S3Store

    store = S3Store(
        BUCKET, client_options={"allow_http": True}, config={k: v for k, v in options.items() if k != "allow_http"}
    )
    files = [file for file in root.rglob("*") if file.is_file()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: store.put(str(file.relative_to(root)), file), files))


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
