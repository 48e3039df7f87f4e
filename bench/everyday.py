"""What people do every day, beside the best tool for it: Polars, DuckDB with its Delta extension, and deltalake.

A peer that cannot read a kind of table is left out there: Polars and deltalake don't support column mapping. Where
deltalake cannot write a kind of table, it changes the same rows in a plain one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import lineitem
from bench.client import write_profile
from bench.comparing import ROUNDS, Entry, Limits, contest
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


SAME_SIZE = 1.01
"""Files of the same rows differ a little by where row groups end."""
APPEND = Limits(seconds=0.6, peak_mb=0.9, written_mb=SAME_SIZE)
OPTIMIZE = Limits(seconds=0.9, peak_mb=1.1, written_mb=SAME_SIZE)
CHANGES = {
    "delete": Limits(seconds=0.55, peak_mb=0.8, written_mb=SAME_SIZE),
    "update": Limits(seconds=0.25, peak_mb=0.6, written_mb=SAME_SIZE),
    "merge": Limits(seconds=0.55, peak_mb=0.8, written_mb=SAME_SIZE),
}


def bench_everyday(part: str, folder: Path) -> None:
    for tool in (DUCKDB, DELTA_SHARING):
        if not Path(tool.python).exists():
            print(f"everyday: without {tool.name}, which is not in .peers: run scripts/peers.sh")
    print(f"everyday-{part}: ours/fastest peer's = ratio, and what it should be at most; medians of {ROUNDS}")
    PARTS[part](folder)


def contest_of(title: str, task: str, path: Path | str, peers: Sequence[Tool], limits: Limits) -> None:
    """The same task by every tool."""
    entries = [tool.on(task, path) for tool in peers if Path(tool.python).exists()]
    if entries:
        contest(title, LAKEPORT.on(task, path), entries, limits)


def _start_up(folder: Path) -> None:
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


def _reads(folder: Path) -> None:
    lines, readers = lineitem.line_table(folder), (POLARS, DUCKDB, DELTALAKE)
    contest_of("read all to Arrow", "all", lines, readers, ALL)
    contest_of("2 of 16 columns", "some_columns", lines, readers, TWO_COLUMNS)
    contest_of("a filter as text that keeps 0.4 %", "few_rows", lines, readers, FEW_ROWS)
    expression = Entry("lakeport", "lakeport_few_rows_by_expression", lines)
    contest("the same as an expression", expression, [POLARS.on("few_rows", lines)], FEW_ROWS)
    contest_of("400 small files", "all", lineitem.small_commits(folder), readers, ALL)


def _queries(folder: Path) -> None:
    lines, engines = lineitem.line_table(folder), (DUCKDB, DELTALAKE)
    contest_of("SQL in Python: Q1", "q1", lines, engines, GROUPING)
    for task, title in {"q6": "Q6", "point": "a point look-up", "count": "count(*)"}.items():
        contest_of(f"SQL in Python: {title}", task, lines, engines, SELECTIVE)
    for task in ("q1", "q6"):
        contest_of(f"lakeport sql, start-up included: {task.upper()}", f"process_{task}", lines, (DUCKDB,), PROCESS)


def _many_columns(folder: Path) -> None:
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


def _deleted_rows(folder: Path) -> None:
    table = lineitem.deleted_rows(folder, lineitem.line_table(folder))
    _kind_of_table("5 % deleted", table, (POLARS, DUCKDB, DELTALAKE))


def _mapped_columns(folder: Path) -> None:
    _kind_of_table("column mapping", lineitem.mapped_columns(folder), (DUCKDB,))


def _partitions(folder: Path) -> None:
    table, peers = lineitem.partitioned(folder), (POLARS, DUCKDB, DELTALAKE)
    _kind_of_table("84 partitions", table, peers)
    contest_of("84 partitions: one of them", "one_partition", table, peers, FEW_ROWS)


def _shared_table(folder: Path) -> None:
    with serving(folder, lineitem.line_table(folder)) as server:
        target = write_profile(folder, server)
        contest_of("shared: read all", "all", target, (URLS, DELTA_SHARING), ALL)
        contest_of("shared: 2 columns", "some_columns", target, (URLS,), TWO_COLUMNS)
        contest_of("shared: filter", "few_rows", target, (URLS,), FEW_ROWS)


def _writes(folder: Path) -> None:
    lines = lineitem.with_sources(lineitem.line_table(folder))
    change_of("append 2 million rows", "append", lines, APPEND)
    change_of("optimize 400 small files", "optimize", lineitem.small_commits(folder), OPTIMIZE)
    for task, limits in CHANGES.items():
        change_of(_TITLES[task], task, lines, limits)


_TITLES = {
    "delete": "delete 1 %",
    "update": "update 1 %, one column",
    "merge": "merge 200,000 into 6 million",
}


def change_of(title: str, task: str, table: Path, limits: Limits, plain: Path | None = None) -> None:
    """The same change by both; deltalake changes the `plain` table, if there is one."""
    name = f"{task}_lines"
    contest(title, LAKEPORT.on(name, table), [DELTALAKE.on(name, plain or table)], limits)


def _writes_to(kind: str, table: Path, plain: Path | None = None) -> None:
    for task, limits in {"append": APPEND, **CHANGES}.items():
        change_of(f"{kind}: {task}", task, table, limits, plain)


def _writes_with_feed(folder: Path) -> None:
    lines, on = lineitem.line_table(folder), {"delta.enableChangeDataFeed": "true"}
    _writes_to("change feed", lineitem.with_sources(lineitem.with_properties(folder, lines, "feed", on)))


def _writes_with_vectors(folder: Path) -> None:
    lines, on = lineitem.with_sources(lineitem.line_table(folder)), {"delta.enableDeletionVectors": "true"}
    vectors = lineitem.with_sources(lineitem.with_properties(folder, lines, "vectors", on))
    _writes_to("deletion vectors", vectors, lines)


def _writes_with_mapping(folder: Path) -> None:
    lines = lineitem.with_sources(lineitem.line_table(folder))
    _writes_to("column mapping", lineitem.with_sources(lineitem.mapped_columns(folder)), lines)


def _writes_by_partition(folder: Path) -> None:
    _writes_to("84 partitions", lineitem.with_sources(lineitem.partitioned(folder), by_month=True))


def _writes_wide(folder: Path) -> None:
    rows, columns = 500_000, 200
    lines = lineitem.line_table(folder, rows, 12, columns)
    _writes_to("200 columns", lineitem.with_sources(lines, rows, columns))
    narrow, wide = (lineitem.wide_table(folder, columns) for columns in (4_000, 8_000))
    for task in ("append", "delete_one"):
        title = f"{task.partition('_')[0]} in 4,000 columns"
        change_of(title, task, narrow, Limits(seconds=1.0))
        doubled = [Entry("4,000 columns", f"lakeport_{task}_lines", narrow)]
        contest("the same in 8,000", LAKEPORT.on(f"{task}_lines", wide), doubled, LINEAR)


PARTS: dict[str, Callable[[Path], None]] = {
    "start": _start_up,
    "logs": _logs,
    "read": _reads,
    "sql": _queries,
    "read-wide": _many_columns,
    "read-deleted": _deleted_rows,
    "read-mapped": _mapped_columns,
    "read-partitioned": _partitions,
    "read-shared": _shared_table,
    "write": _writes,
    "write-feed": _writes_with_feed,
    "write-vectors": _writes_with_vectors,
    "write-mapped": _writes_with_mapping,
    "write-partitioned": _writes_by_partition,
    "write-wide": _writes_wide,
}
