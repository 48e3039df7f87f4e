"""Reading shared tables, beside the client `delta-sharing` from PyPI: the same server, the same tables, by turns."""

from __future__ import annotations

import json
from pathlib import Path

from bench import tables
from bench.comparing import ROUNDS, Result, measure, report
from bench.server import TOKEN, Server, serving

PEER = Path(__file__).resolve().parents[1] / ".peers/delta-sharing/bin/python"
PEER_JOBS = ("delta_sharing", "delta_sharing_kernel")


def bench_client(folder: Path) -> None:
    if not PEER.exists():
        print("client: skipped, the client delta-sharing is not in .peers: run scripts/peers.sh")
        return
    with serving(folder, tables.wide_rows(folder, 9_000_000, files=100)) as server:
        target = write_profile(folder, server)
        peers = peer_results(target)
        against(peers, "100 files, 1 GB", "lakeport_shared", target, seconds=1 / 3, peak_mb=1 / 2)
        against(peers, "100 files, 1 GB, 2 of 16 columns", "lakeport_shared_two_columns", target, seconds=1 / 5)
        report_requests(folder, "100 files, 1 GB, limit 10", "lakeport_shared_ten_rows", target, most=9)
    with serving(folder, tables.wide_rows(folder, 500_000, files=5_000)) as server:
        target = write_profile(folder, server)
        against(peer_results(target), "5,000 small files", "lakeport_shared", target, seconds=1 / 3)
