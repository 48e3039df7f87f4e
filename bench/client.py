"""Reading shared tables, beside the client `delta-sharing` from PyPI: the same server, the same tables, by turns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench import tables
from bench.comparing import Result, measure, report
from bench.server import TOKEN, Server, serving
from bench.server import report as report_value

PEER = Path(__file__).resolve().parents[1] / ".peers/delta-sharing/bin/python"
PEER_JOBS = ("delta_sharing", "delta_sharing_kernel")
"""It has two ways to read; the first is what it takes for these tables unless it is told otherwise."""
ROUNDS = 3


@dataclass(frozen=True)
class Wanted:
    """A job, and how much of the other's time and memory it may take, at most."""

    title: str
    job: str
    seconds: float
    peak_mb: float | None = None


def bench_client(folder: Path) -> None:
    if not PEER.exists():
        print("client: skipped, the client delta-sharing is not in .peers: run scripts/peers.sh")
        return
    with serving(folder, tables.wide_rows(folder, 10_200_000, files=100)) as server:
        target = write_profile(folder, server)
        all_columns = Wanted("100 files, 1 GB, to Arrow", "lakeport_shared", 1 / 3, 1 / 2)
        two_columns = Wanted("the same, 2 of 16 columns", "lakeport_shared_two_columns", 1 / 5)
        compare_clients(target, all_columns, two_columns)
        requests = measure("lakeport_shared_ten_rows", target).answer
        report_value("the same, limit 10", requests, "requests", 9)
    with serving(folder, tables.wide_rows(folder, 500_000, files=5_000)) as server:
        target = write_profile(folder, server)
        compare_clients(target, Wanted("5,000 small files, to Arrow", "lakeport_shared", 1 / 3))


def compare_clients(target: str, *wanted: Wanted) -> None:
    """Each of the jobs, and each of the peer's ways to read all there is, by turns: it cannot read a part."""
    rounds: list[dict[str, Result]] = []
    for _ in range(ROUNDS):
        ours = {want.job: measure(want.job, target) for want in wanted}
        theirs = {job: measure(job, target, python=PEER) for job in PEER_JOBS}
        assert len({result.answer for result in (ours | theirs).values()}) == 1, "the number of rows differs"
        rounds.append(ours | theirs)
    for want in wanted:
        for peer in PEER_JOBS:
            pairs = [(results[want.job], results[peer]) for results in rounds]
            report(want.title, peer, pairs, "seconds", want.seconds)
            if want.peak_mb is not None:
                report(f"{want.title}: peak memory", peer, pairs, "peak_mb", want.peak_mb)


def write_profile(folder: Path, server: Server) -> str:
    """The shared table by the path of a profile."""
    path = folder / "bench.share"
    endpoint = f"http://127.0.0.1:{server.port}/delta-sharing"
    path.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": TOKEN}))
    return f"{path}#bench.main.table"
