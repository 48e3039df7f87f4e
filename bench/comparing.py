"""One job by several libraries in alternation, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.answers import Answer, same

ROUNDS = 5


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    grown_mb: float
    written_mb: float
    answer: Answer


@dataclass(frozen=True)
class Entry:
    """A job as one library does it, in the environment that has the library."""

    name: str
    job: str
    path: Path | str
    python: Path | str = sys.executable
    repeat: int = 1

    def measure(self) -> Result:
        return measure(self.job, self.path, self.repeat, self.python)


@dataclass(frozen=True)
class Limits:
    """At most so much of the best peer's, or, if `absolute`, so many seconds and MB."""

    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_mb: float | None = None
    written_mb: float | None = None
    absolute: bool = False


def measure(job: str, target: Path | str, repeat: int = 1, python: Path | str = sys.executable) -> Result:
    command = [str(python), "-m", "bench.jobs", job, str(target), str(repeat)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def compare(
    title: str, ours: str, peer: str, path: Path, *, limit: float, repeat: int = 1, memory: bool = False
) -> None:
    """Runs both by turns, so that what else the machine does hits both, and prints the median of the ratios."""
    pairs = [(measure(ours, path, repeat), measure(peer, path, repeat)) for _ in range(ROUNDS)]
    report(title, peer, pairs, "seconds", limit)
    if memory:
        report(f"{title}: peak memory", peer, pairs, "peak_mb", limit)
        report(f"{title}: memory grown", peer, pairs, "grown_mb", limit)


def report(title: str, peer: str, pairs: list[tuple[Result, Result]], what: str, limit: float) -> None:
    mine = statistics.median(getattr(a, what) for a, _ in pairs)
    theirs = statistics.median(getattr(b, what) for _, b in pairs)
    ratio = statistics.median(getattr(a, what) / getattr(b, what) for a, b in pairs)
    unit = "s" if what == "seconds" else "MB"
    verdict = "ok" if ratio <= limit else "MISSED"
    numbers = f"{mine:8.2f} {unit:2} {theirs:8.2f} {unit:2} ({peer:19}) ratio {ratio:5.2f}  limit {limit:.2f}"
    print(f"{title:48} {numbers}  {verdict}", flush=True)


def contest(title: str, ours: Entry, peers: Sequence[Entry], limits: Limits) -> None:
    """Compare with the fastest peer: time, CPU time, memory and, where it has a limit, what was written. Entries for
    the same table must give the same rows."""
    results = run_by_turns([ours, *peers])
    best = min(peers, key=lambda entry: median(results[entry], "seconds"))
    titles = {"seconds": "wall", "cpu_seconds": "CPU", "peak_mb": "MB"}
    if limits.written_mb is not None:
        titles["written_mb"] = "written"
    columns = [_column(title, what, results[ours], results[best], limits) for what, title in titles.items()]
    print(f"{title:42} {'  '.join(columns)}  {best.name}", flush=True)
    if others := [f"{peer.name} {_figures(results[peer])}" for peer in peers if peer != best]:
        print(f"    {', '.join(others)}", flush=True)


def run_by_turns(entries: Sequence[Entry], rounds: int | None = None) -> dict[Entry, list[Result]]:
    results: dict[Entry, list[Result]] = {entry: [] for entry in entries}
    for _ in range(rounds or ROUNDS):
        for entry in entries:
            results[entry].append(entry.measure())
    first = entries[0]
    for entry in entries[1:]:
        if entry.path == first.path and not same(results[first][0].answer, results[entry][0].answer):
            raise AssertionError(f"{first.job} and {entry.job} differ in their rows of {first.path}")
    return results


def median(results: Sequence[Result], what: str) -> float:
    return statistics.median(getattr(result, what) for result in results)


def _figures(results: Sequence[Result]) -> str:
    seconds, cpu, peak = (median(results, what) for what in ("seconds", "cpu_seconds", "peak_mb"))
    return f"{seconds:.3f} s, CPU {cpu:.3f} s, {peak:.0f} MB"


def _column(title: str, what: str, ours: Sequence[Result], theirs: Sequence[Result], limits: Limits) -> str:
    mine, other = median(ours, what), median(theirs, what)
    ratio = statistics.median(getattr(a, what) / max(getattr(b, what), 0.01) for a, b in zip(ours, theirs, strict=True))
    limit = getattr(limits, what)
    verdict = ""
    if limit is not None:
        verdict = f"<= {limit:.2f} {'ok' if (mine if limits.absolute else ratio) <= limit else 'MISSED'}"
    places = 0 if what.endswith("_mb") else 3
    return f"{title} {mine:7.{places}f}/{other:7.{places}f} = {ratio:5.2f} {verdict:14}"
