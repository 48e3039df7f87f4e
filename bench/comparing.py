"""One job by two libraries, by turns, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 5


@dataclass(frozen=True)
class Result:
    seconds: float
    peak_mb: float
    grown_mb: float
    answer: int


def measure(job: str, target: Path | str, repeat: int = 1, python: Path | str = sys.executable) -> Result:
    command = [str(python), "-m", "bench.jobs", job, str(target), str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
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
