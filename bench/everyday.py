"""What people do every day, beside the best tool for it: Polars, DuckDB with its Delta extension, and deltalake.

A peer that cannot read a kind of table is left out there: Polars and deltalake don't support column mapping.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import lineitem
from bench.client import write_profile
from bench.comparing import Entry, Limits, contest
from bench.server import serving

_PEERS = Path(__file__).resolve().parents[1] / ".peers"


@dataclass(frozen=True)
class Tool:
    """A library under test, and the Python that has it."""

    name: str
    python: Path | str = sys.executable

    def on(self, task: str, path: Path | str) -> Entry:
        return Entry(self.name, f"{self.name}_{task}", path, self.python)


LAKEPORT, POLARS, DELTALAKE = Tool("lakeport"), Tool("polars"), Tool("deltalake")
DUCKDB = Tool("duckdb", _PEERS / "duckdb/bin/python")
DELTA_SHARING = Tool("delta_sharing", _PEERS / "delta-sharing/bin/python")
URLS = Tool("urls_polars")

ALL = Limits(seconds=0.9, peak_mb=1.0)
TWO_COLUMNS = Limits(seconds=0.7, peak_mb=1.0)
FEW_ROWS = Limits(seconds=1.0, peak_mb=1.0)
GROUPING = Limits(seconds=1.0, peak_mb=2.0)
SELECTIVE = Limits(seconds=1.1, peak_mb=2.0)
PROCESS = Limits(seconds=1.3)
START = Limits(seconds=0.15, cpu_seconds=0.15, absolute=True)
LINEAR = Limits(cpu_seconds=2.2)
"""For twice as much."""


def bench_everyday(folder: Path) -> None:
    for tool in (DUCKDB, DELTA_SHARING):
        if not Path(tool.python).exists():
            print(f"everyday: without {tool.name}, which is not in .peers: run scripts/peers.sh")
    print("ours/best peer's = ratio, and what it should be at most; medians of five; the fastest peer\n")
    _start_up()
    _logs(folder)
    lines = lineitem.line_table(folder)
    _plain_table(lines)
    contest_of("400 small files", "all", lineitem.small_commits(folder), (POLARS, DUCKDB, DELTALAKE), ALL)
    _wide_tables(folder)
    _kind_of_table("5 % deleted", lineitem.deleted_rows(folder, lines), (POLARS, DUCKDB, DELTALAKE))
    _kind_of_table("column mapping", lineitem.mapped_columns(folder), (DUCKDB,))
    _partitioned_table(lineitem.partitioned(folder))
    _shared_table(folder, lines)


def contest_of(title: str, task: str, path: Path | str, peers: Sequence[Tool], limits: Limits) -> None:
    """The same task by every tool."""
    entries = [tool.on(task, path) for tool in peers if Path(tool.python).exists()]
    if entries:
        contest(title, LAKEPORT.on(task, path), entries, limits)


def _start_up() -> None:
    contest_of("import", "import", "", (DELTALAKE, POLARS, DUCKDB), START)
    version = Entry("lakeport", "lakeport_version", "")
    contest("lakeport --version, import deltalake", version, [DELTALAKE.on("import", "")], START)


def _logs(folder: Path) -> None:
    commits = lineitem.small_commits(folder, rows=4_000)
    contest_of("open a table with 400 commits", "open", commits, (DELTALAKE,), Limits(seconds=1.0, peak_mb=1.5))
    long, half = (lineitem.long_log(folder, count) for count in (20_000, 10_000))
    contest_of("20,000 commits, no checkpoint: list files", "list", long, (DELTALAKE,), Limits(cpu_seconds=0.8))
    doubled = [Entry("10,000 commits", "lakeport_list", half)]
    contest("the same beside 10,000", LAKEPORT.on("list", long), doubled, LINEAR)


def _plain_table(lines: Path) -> None:
    readers = (POLARS, DUCKDB, DELTALAKE)
    contest_of("read all to Arrow", "all", lines, readers, ALL)
    contest_of("2 of 16 columns", "some_columns", lines, readers, TWO_COLUMNS)
    contest_of("a filter as text that keeps 0.4 %", "few_rows", lines, readers, FEW_ROWS)
    expression = Entry("lakeport", "lakeport_few_rows_by_expression", lines)
    contest("the same as an expression", expression, [POLARS.on("few_rows", lines)], FEW_ROWS)
    engines = (DUCKDB, DELTALAKE)
    contest_of("SQL in Python: Q1", "q1", lines, engines, GROUPING)
    for task, title in {"q6": "Q6", "point": "a point look-up", "count": "count(*)"}.items():
        contest_of(f"SQL in Python: {title}", task, lines, engines, SELECTIVE)
    for task in ("q1", "q6"):
        contest_of(f"lakeport sql, start-up included: {task.upper()}", f"process_{task}", lines, (DUCKDB,), PROCESS)


def _wide_tables(folder: Path) -> None:
    narrow, wide = (lineitem.wide_table(folder, columns) for columns in (4_000, 8_000))
    peer = Entry("deltalake", "deltalake_to_pyarrow", narrow)
    contest("4,000 columns, 3 rows", LAKEPORT.on("all", narrow), [peer], Limits(seconds=1.0))
    contest_of("4,000 columns, 3 rows", "all", narrow, (POLARS, DUCKDB), Limits())
    doubled = [Entry("4,000 columns", "lakeport_all", narrow)]
    contest("8,000 columns, 3 rows, beside 4,000", LAKEPORT.on("all", wide), doubled, LINEAR)


def _kind_of_table(kind: str, table: Path, peers: Sequence[Tool]) -> None:
    contest_of(f"{kind}: read all", "all", table, peers, ALL)
    contest_of(f"{kind}: 2 columns", "some_columns", table, peers, TWO_COLUMNS)
    contest_of(f"{kind}: filter", "few_rows", table, peers, FEW_ROWS)
    engines = [tool for tool in peers if tool is not POLARS]
    contest_of(f"{kind}: Q1", "q1", table, engines, GROUPING)
    contest_of(f"{kind}: Q6", "q6", table, engines, SELECTIVE)


def _partitioned_table(table: Path) -> None:
    peers = (POLARS, DUCKDB, DELTALAKE)
    _kind_of_table("84 partitions", table, peers)
    contest_of("84 partitions: one of them", "one_partition", table, peers, FEW_ROWS)


def _shared_table(folder: Path, lines: Path) -> None:
    with serving(folder, lines) as server:
        target = write_profile(folder, server)
        contest_of("shared: read all", "all", target, (URLS, DELTA_SHARING), ALL)
        contest_of("shared: 2 columns", "some_columns", target, (URLS,), TWO_COLUMNS)
        contest_of("shared: filter", "few_rows", target, (URLS,), FEW_ROWS)
