"""Processes that append to, delete from, update and optimize one table at the same time.

    python -m tests.soak.mixed_writers [directory] [--seconds 60]

An operation that conflicts with another is refused and changes nothing. In the end the table has what the operations
that succeeded imply: no delete and no update is lost.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Event
from uuid import uuid4

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.errors import CommitConflictError
from tests.soak.reading import Row, rows_by_deltalake, rows_by_lakeport

ROWS = 40
"""In each batch, in two partitions; those who delete take a quarter, so that they meet in the same files."""
PATIENCE = 120.0
"""Seconds."""
COPY_ON_WRITE: Mapping[str, str] = {}
DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
ALL_FEATURES = DELETION_VECTORS | {
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointInterval": "7",
}


@dataclass
class Done:
    """What one writer did."""

    appended: list[str] = field(default_factory=list)
    deleted: list[tuple[str, int]] = field(default_factory=list)
    """Batches, and which quarter of them."""
    updated: list[str] = field(default_factory=list)
    """Batches whose values went up by one."""
    counts: Counter[str] = field(default_factory=Counter)


def run(target: str, properties: Mapping[str, str], seconds: float, seed: int = 1) -> Counter[str]:
    """Lets the writers loose on a new table and checks what they leave. How often what was done, or refused."""
    schema = pa.schema([("batch", pa.string()), ("part", pa.int64()), ("n", pa.int64()), ("value", pa.int64())])
    tables.create(target, schema=schema, partition_by=["part"], properties=properties)
    roles = [append, append, delete, delete, update, optimize]
    context = get_context("spawn")
    together = (context.Barrier(len(roles)), context.Event())
    with ProcessPoolExecutor(len(roles), context, _share, together) as pool:
        work = [pool.submit(write, role, target, seconds, seed + index) for index, role in enumerate(roles)]
        done = [future.result() for future in work]
    expected = implied_rows(done)
    columns = ("batch", "part", "n", "value")
    assert rows_by_lakeport(target, None, *columns) == expected
    assert rows_by_deltalake(target, None, *columns) == expected
    total: Counter[str] = sum((each.counts for each in done), Counter())
    commits = sum(count for name, count in total.items() if not name.endswith("refused"))
    assert len(tables.history(target)) <= commits + 1
    return total


def implied_rows(done: list[Done]) -> list[Row]:
    deleted = [pair for each in done for pair in each.deleted]
    assert len(set(deleted)) == len(deleted), "two writers deleted the same rows"
    updates = Counter(batch for each in done for batch in each.updated)
    appended = [batch for each in done for batch in each.appended]
    gone = set(deleted)
    every = ((batch, n % 2, n, updates[batch]) for batch in appended for n in range(ROWS))
    return sorted(row for row in every if (row[0], row[2] % 4) not in gone)


Role = Callable[[str, random.Random, Done], None]


def _share(started: Barrier, have_met: Event) -> None:
    """Give this process what all of them have in common."""
    global _started, _have_met
    _started, _have_met = started, have_met


def write(role: Role, target: str, seconds: float, seed: int) -> Done:
    """One process. On a busy machine it goes on until it has done something, and writers have met."""
    _started.wait(PATIENCE)
    done, choice, start = Done(), random.Random(seed), time.monotonic()
    while (passed := time.monotonic() - start) < PATIENCE:
        if passed > seconds and done.counts[role.__name__] and _have_met.is_set():
            break
        try:
            role(target, choice, done)
        except CommitConflictError:
            done.counts[f"{role.__name__} refused"] += 1
            _have_met.set()
    return done


def append(target: str, choice: random.Random, done: Done) -> None:
    name, numbers = uuid4().hex, list(range(ROWS))
    columns = {"batch": [name] * ROWS, "part": [n % 2 for n in numbers], "n": numbers, "value": [0] * ROWS}
    tables.append(target, columns)
    done.appended.append(name)
    done.counts["append"] += 1


def delete(target: str, choice: random.Random, done: Done) -> None:
    if (row := some_row(target, choice)) is None:
        return
    batch, quarter = row["batch"], row["n"] % 4
    result = tables.delete(target, f"batch = '{batch}' AND n % 4 = {quarter}")
    if result.metrics.get("numDeletedRows"):
        done.deleted.append((batch, quarter))
        done.counts["delete"] += 1


def update(target: str, choice: random.Random, done: Done) -> None:
    if (row := some_row(target, choice)) is None:
        return
    result = tables.update(target, {"value": "value + 1"}, f"batch = '{row['batch']}'")
    if result.metrics.get("numUpdatedRows"):
        done.updated.append(row["batch"])
        done.counts["update"] += 1


def optimize(target: str, choice: random.Random, done: Done) -> None:
    tables.optimize(target, purge=choice.random() < 0.5)
    done.counts["optimize"] += 1
    time.sleep(choice.random())


def some_row(target: str, choice: random.Random) -> Mapping[str, object] | None:
    rows = lakeport.scan(target).to_arrow()
    found: Mapping[str, object] | None = None
    if rows.num_rows:
        found = rows.slice(choice.randrange(rows.num_rows), 1).to_pylist()[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in ("COPY_ON_WRITE", "DELETION_VECTORS", "ALL_FEATURES"):
        with tempfile.TemporaryDirectory() as folder:
            target = f"{given.directory or folder}/{uuid4().hex}"
            print(f"{name.lower()}, seed {given.seed}:", dict(run(target, globals()[name], given.seconds, given.seed)))


if __name__ == "__main__":
    main()
