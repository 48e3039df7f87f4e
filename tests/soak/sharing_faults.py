"""Readers of a shared table whose URLs live for five seconds, through a proxy that does harm, while it is written.

    python -m tests.soak.sharing_faults [--readers 4] [--seconds 120] [--rate 0.1] [--seed 1]

Each read ends with exactly the rows of the version that it says, or with an error of Lakeport's own; never with fewer.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions
from lakeport.errors import LakeportError
from lakeport.frame import Frame
from tests.client.faulty_proxy import Fault, Proxy, at_random, faulty_proxy
from tests.client.reading import frame_of, server_at
from tests.server.running import Running, running, sharing

NAME = "sales.eu.orders"
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
LIFE_SECONDS = 5
ROWS = 300
SLOW = 4
"""Batches of a slow read that are followed by a pause."""
LARGE = 300_000
"""Rows of a file that is read by ranges."""


@dataclass(frozen=True)
class Report:
    reads: int
    errors: Counter[str]
    faults: Counter[Fault]
    renewals: int

    def __str__(self) -> str:
        failed = ", ".join(f"{count} × {name}" for name, count in self.errors.items()) or "none"
        harm = self.faults.total() - self.faults[Fault.NONE]
        return f"{self.reads} reads were right, failed: {failed}; {harm} faults, {self.renewals} queries"


def run(folder: Path, *, readers: int, seconds: float, rate: float, seed: int) -> Report:
    """Raises `AssertionError` if a read gives other rows than those of its version."""
    target = folder / "orders"
    tables.create(str(target), _rows(0, LARGE), properties=PROPERTIES)
    content = sharing({NAME: target}, history_shared=True)
    with (
        running(content, pre_signed_url_timeout_seconds=LIFE_SECONDS) as server,
        faulty_proxy(server.url, at_random(seed, rate, tuple(Fault))) as proxy,
        ThreadPoolExecutor(readers + 1) as pool,
    ):
        end = time.monotonic() + seconds
        writer = pool.submit(_write, str(target), end)
        work = [pool.submit(_read, server, proxy, str(target), end, seed + n) for n in range(readers)]
        errors: Counter[str] = sum((job.result() for job in work), Counter())
        writer.result()
        reads = errors.pop("")
        return Report(reads, errors, proxy.done, proxy.asked["query"] + proxy.asked["changes"])


def _rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": numbers, "text": [f"{number * 7919 % 10**9}" for number in numbers]})


def _write(target: str, end: float) -> None:
    number = 0
    while time.monotonic() < end:
        number += 1
        if number % 4:
            tables.append(target, _rows(10_000_000 + number * ROWS, ROWS))
        else:
            tables.delete(target, f"id % 1000 = {number % 1000}")
        time.sleep(0.5)


def _read(server: Running, proxy: Proxy, target: str, end: float, seed: int) -> Counter[str]:
    """How often which error came; the empty text counts the reads that were right."""
    chance, found = random.Random(seed), Counter[str]()
    endpoint = server.endpoint.replace(server.url, proxy.url)
    connections = ConnectionOptions(read_seconds=1, connect_seconds=5)
    retries = RetryOptions(retries=12, first_wait_seconds=0.02, longest_wait_seconds=0.2)
    with server_at(endpoint, HttpPool(HttpOptions(connections=connections, retries=retries))) as client:
        while time.monotonic() < end:
            try:
                _check(frame_of(client, NAME), target, chance)
                found[""] += 1
            except LakeportError as error:
                found[type(error).__name__] += 1
    return found


def _check(frame: Frame, target: str, chance: random.Random) -> None:
    """Reads all rows, some of them slowly enough that their URLs expire, or the changes of some versions."""
    if chance.random() < 0.3:
        last = frame.version
        first = chance.randint(max(0, last - 5), last)
        assert _summed(frame.changes(first, last).to_arrow()) == _expected(target, last, first), (first, last)
        return
    pause = chance.choice([0.0, 0.0, 2.0])
    batches = []
    for batch in frame.to_batches(batch_size=100_000):
        batches.append(batch)
        time.sleep(pause if len(batches) < SLOW else 0)
    found = pa.Table.from_batches(batches, frame.schema)
    assert _summed(found) == _expected(target, frame.version, None), frame.version


def _summed(table: pa.Table) -> tuple[int, int]:
    ids = table.column("id").combine_chunks()
    return table.num_rows, sum(ids.to_pylist())


@cache
def _expected(target: str, version: int, first: int | None) -> tuple[int, int]:
    """The number of rows and the sum of their ids."""
    table = lakeport.scan(target)
    rows = table.at(version=version) if first is None else table.changes(first, version)
    return _summed(rows.to_arrow())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakeport-soak-") as folder:
        print(run(Path(folder), readers=given.readers, seconds=given.seconds, rate=given.rate, seed=given.seed))


if __name__ == "__main__":
    main()
