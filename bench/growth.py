"""How cost grows with rows, files, columns and commits, beside the fastest peer: figures, and a plot of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import lineitem
from bench.comparing import Result, median, run_by_turns
from bench.everyday import DELTALAKE, DUCKDB, LAKEPORT, POLARS, Tool
from bench.plot import Line, Look, Panel, draw

PLOT = Path(__file__).with_name("growth.svg")
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

    title: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[Path, int], Path]
    task: str
    peers: Sequence[Tool]


GROWTHS = (
    Growth(
        "Read all columns to Arrow",
        "rows, in files of 500,000",
        (1_000_000, 4_000_000, 16_000_000),
        lambda folder, rows: lineitem.line_table(folder, rows, rows // 500_000),
        "all",
        (POLARS, DUCKDB, DELTALAKE),
    ),
    Growth(
        "Read 1 million rows",
        "files",
        (100, 1_000, 10_000),
        lambda folder, files: lineitem.line_table(folder, 1_000_000, files),
        "all",
        (POLARS, DUCKDB, DELTALAKE),
    ),
    Growth("Read 3 rows", "columns", (10, 100, 1_000, 4_000), lineitem.wide_table, "all", (POLARS, DUCKDB, DELTALAKE)),
    Growth(
        "List files, no checkpoint", "commits", (100, 1_000, 5_000, 20_000), lineitem.long_log, "list", (DELTALAKE,)
    ),
)


def bench_growth(folder: Path) -> None:
    PLOT.write_text(draw([_measure(folder, growth) for growth in GROWTHS], LOOKS))
    print(f"plotted in {PLOT}")


def _measure(folder: Path, growth: Growth) -> Panel:
    tools = [tool for tool in (LAKEPORT, *growth.peers) if Path(tool.python).exists()]
    found: dict[Tool, list[tuple[int, list[Result]]]] = {tool: [] for tool in tools}
    for size in growth.sizes:
        table = growth.make(folder, size)
        entries = {tool: tool.on(growth.task, table) for tool in tools}
        results = run_by_turns(list(entries.values()), ROUNDS)
        for tool, entry in entries.items():
            found[tool].append((size, results[entry]))
    best = min(tools[1:], key=lambda tool: median(found[tool][-1][1], "seconds"))
    print(f"{growth.title}: {growth.unit}")
    for tool in tools:
        print(f"  {tool.name:10} {_figures(found[tool])}{'  fastest peer' if tool == best else ''}", flush=True)
    lines = [
        Line(f"{name}, {clock}", [(size, median(results, what)) for size, results in found[tool]])
        for name, tool in {"lakeport": LAKEPORT, "fastest peer": best}.items()
        for clock, what in {"wall": "seconds", "CPU": "cpu_seconds"}.items()
    ]
    return Panel(f"{growth.title} (peer: {best.name})", growth.unit, "seconds", lines)


def _figures(found: Sequence[tuple[int, Sequence[Result]]]) -> str:
    """Times at each size, and the exponent by which CPU time grows at the end: 1 is linear."""
    times = [
        f"{size:,}: {median(results, 'seconds'):.3f} s, CPU {median(results, 'cpu_seconds'):.3f} s"
        for size, results in found
    ]
    (small, few), (large, many) = found[-2:]
    exponent = math.log(median(many, "cpu_seconds") / median(few, "cpu_seconds")) / math.log(large / small)
    return f"{'; '.join(times)}; exponent {exponent:.2f}"
