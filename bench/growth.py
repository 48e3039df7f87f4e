"""How the cost of reading and writing grows with rows, files, columns and commits, beside the fastest peer.

Each job is measured by a run of its own, which keeps its figures; the plots show the newest ones of all jobs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import lineitem
from bench.comparing import median, run_by_turns
from bench.everyday import DELTALAKE, DUCKDB, LAKEPORT, POLARS, Tool
from bench.plot import Line, Look, Panel, draw

FIGURES = Path(__file__).with_name("growth.json")
ROUNDS = 3
LOOKS = {
    "lakeport, wall": Look("#1f5fbf"),
    "lakeport, CPU": Look("#1f5fbf", dashed=True),
    "fastest peer, wall": Look("#d9730d"),
    "fastest peer, CPU": Look("#d9730d", dashed=True),
}


@dataclass(frozen=True)
class Growth:
    """A job on tables that differ in one size."""

    name: str
    title: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[Path, int], Path]
    task: str
    peers: Sequence[Tool]


_READERS = (POLARS, DUCKDB, DELTALAKE)
_ROWS = (1_000_000, 4_000_000, 16_000_000)
_FILES = (100, 1_000, 10_000)
_COLUMNS = (10, 100, 1_000, 4_000)
_COMMITS = (100, 1_000, 5_000, 20_000)
_IN_FILES = "rows, in files of 500,000"


def _of_rows(folder: Path, rows: int) -> Path:
    return lineitem.line_table(folder, rows, rows // 500_000)


def _of_files(folder: Path, files: int) -> Path:
    return lineitem.line_table(folder, 1_000_000, files)


READING = (
    Growth("read-rows", "Read all columns to Arrow", _IN_FILES, _ROWS, _of_rows, "all", _READERS),
    Growth("read-files", "Read 1 million rows", "files", _FILES, _of_files, "all", _READERS),
    Growth("read-columns", "Read 3 rows", "columns", _COLUMNS, lineitem.wide_table, "all", _READERS),
    Growth("commits", "List files, no checkpoint", "commits", _COMMITS, lineitem.long_log, "list", (DELTALAKE,)),
)
WRITING = tuple(
    Growth(name, title, unit, sizes, make, f"{task}_lines", (DELTALAKE,))
    for name, title, unit, sizes, make, task in (
        ("append-rows", "Append to an empty table", "rows", _ROWS, lineitem.empty_table, "append"),
        ("delete-rows", "Delete 1 %, copy on write", _IN_FILES, _ROWS, _of_rows, "delete"),
        ("optimize-files", "Compact 1 million rows", "files", _FILES, _of_files, "optimize"),
        ("delete-files", "Delete one order of 250,000", "files", _FILES, _of_files, "delete_order"),
        ("append-columns", "Append 3 rows", "columns", _COLUMNS, lineitem.wide_table, "append"),
        ("delete-columns", "Delete one of 3 rows", "columns", _COLUMNS, lineitem.wide_table, "delete_one"),
    )
)
PLOTS = {
    Path(__file__).with_name(f"growth-{kind}.svg"): jobs
    for kind, jobs in {"reading": READING, "writing": WRITING}.items()
}
GROWTHS = (*READING, *WRITING)


@dataclass(frozen=True)
class Point:
    """Median times for a table of this size."""

    size: int
    seconds: float
    cpu_seconds: float


Found = dict[str, list[Point]]
"""The points of each tool."""


def bench_growth(growth: Growth, folder: Path) -> None:
    show(growth, times(growth, {size: growth.make(folder, size) for size in growth.sizes}))


def times(growth: Growth, tables: Mapping[int, Path]) -> Found:
    tools = [tool for tool in (LAKEPORT, *growth.peers) if Path(tool.python).exists()]
    found: Found = {tool.name: [] for tool in tools}
    for size, table in tables.items():
        entries = {tool.name: tool.on(growth.task, table) for tool in tools}
        results = run_by_turns(list(entries.values()), ROUNDS)
        for name, entry in entries.items():
            of_tool = results[entry]
            found[name].append(Point(size, median(of_tool, "seconds"), median(of_tool, "cpu_seconds")))
    return found


def show(growth: Growth, found: Found) -> None:
    print(f"{growth.title}: {growth.unit}")
    for name, points in found.items():
        print(f"  {name:10} {_figures(points)}{'  fastest peer' if name == _best(found) else ''}", flush=True)
    _keep(growth, found)
    _plot()


def _kept() -> dict[str, Found]:
    if not FIGURES.exists():
        return {}
    kept = json.loads(FIGURES.read_text(encoding="utf-8"))
    return {
        growth: {tool: [Point(**point) for point in points] for tool, points in found.items()}
        for growth, found in kept.items()
    }


def _keep(growth: Growth, found: Found) -> None:
    kept = _kept() | {growth.name: found}
    plain = {
        name: {tool: [asdict(point) for point in points] for tool, points in of_tools.items()}
        for name, of_tools in kept.items()
    }
    FIGURES.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _plot() -> None:
    kept = _kept()
    for plot, jobs in PLOTS.items():
        if panels := [_panel(growth, kept[growth.name]) for growth in jobs if growth.name in kept]:
            plot.write_text(draw(panels, LOOKS), encoding="utf-8")


def _best(found: Found) -> str:
    """The peer that is fastest at the largest size."""
    return min((name for name in found if name != LAKEPORT.name), key=lambda name: found[name][-1].seconds)


def _panel(growth: Growth, found: Found) -> Panel:
    best = _best(found)
    lines = [
        Line(f"{label}, {clock}", [(point.size, getattr(point, what)) for point in found[name]])
        for label, name in {"lakeport": LAKEPORT.name, "fastest peer": best}.items()
        for clock, what in {"wall": "seconds", "CPU": "cpu_seconds"}.items()
    ]
    return Panel(f"{growth.title} (peer: {best})", growth.unit, "seconds", lines)


def _figures(points: Sequence[Point]) -> str:
    """Times at each size, and the exponent by which CPU time grows at the end: 1 is linear."""
    times = [f"{point.size:,}: {point.seconds:.3f} s, CPU {point.cpu_seconds:.3f} s" for point in points]
    small, large = points[-2:]
    exponent = math.log(large.cpu_seconds / small.cpu_seconds) / math.log(large.size / small.size)
    return f"{'; '.join(times)}; exponent {exponent:.2f}"
