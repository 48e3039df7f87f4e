"""Conversion to Iceberg: a large deletion vector, and a table of many files.

A job runs in a process of its own: `python -m bench.iceberg JOB FOLDER` prints its seconds, by how much its memory has
grown, and how many files it has read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench import tables
from bench.jobs import peak_kb
from lakeport import iceberg
from lakeport.engine import default_engine, engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.snapshots.deletes import write_position_deletes, write_puffin
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor, encode_deletion_vector
from lakeport.testing.counting import CountingStorage

POSITIONS, ROWS = 10_000_000, 100_000_000
FILES = 100_000
ROUNDS = 25
VECTOR, DESCRIPTOR = "vector.bin", "vector.json"


@dataclass(frozen=True)
class Result:
    seconds: float
    grown_mb: float
    answer: int | str
    """Bytes that were written, or which files were read."""


def bench_iceberg(folder: Path) -> None:
    make_vector(folder)
    results = [measure("vector_to_v2", folder) for _ in range(3)]
    title = f"a vector of {POSITIONS // 1_000_000} million positions to v2"
    report(title, statistics.median(r.seconds for r in results), 3, "s")
    report(f"{title}: memory grown", max(r.grown_mb for r in results), 150, "MB")
    _report_copies(folder)
    table = tables.large_checkpoint(folder, FILES)
    full = measure("full", table)
    report(f"{FILES:,} files in full", full.seconds, 60, "s")
    report(f"{FILES:,} files in full: memory grown", full.grown_mb, 1000, "MB")
    append_file(table, 11)
    increment = measure("increment", table)
    report("one commit more", increment.seconds, 2, "s")
    print(f"    read: {increment.answer}")
    delete_file(table, 12)
    increment = measure("increment", table)
    report("one commit that removes a file", increment.seconds, 2, "s")
    print(f"    read: {increment.answer}")


def _report_copies(folder: Path) -> None:
    """The vector to v3, against copies of its file. Ours is checked on the way, and on the disk when it is done; so is
    the copy that is compared by a limit, but for the check."""
    times = json.loads(str(measure("vector_to_v3", folder).answer))
    ours, synced, plain = (times[name] for name in ("write_puffin", "synced_copy", "plain_copy"))
    title = f"the same to v3 ({ours['wall']:.1f} ms), against a synced copy ({synced['wall']:.1f} ms)"
    report(title, ours["wall"] / synced["wall"], 1.5, "times")
    print(f"    CPU: {ours['cpu']:.1f} ms, synced copy {synced['cpu']:.1f} ms, plain copy {plain['cpu']:.1f} ms")
    print(f"    a plain copy, left in the cache of the system, takes {plain['wall']:.1f} ms")


def measure(job: str, folder: Path) -> Result:
    command = [sys.executable, "-m", "bench.iceberg", job, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def report(title: str, value: float, limit: float, unit: str) -> None:
    verdict = "ok" if value <= limit else "MISSED"
    print(f"{title:72} {value:8.2f} {unit:6} limit {limit:g}  {verdict}", flush=True)


# What is converted


def make_vector(folder: Path) -> None:
    """A file with one deletion vector, as Delta has it."""
    chosen = np.random.default_rng(1).choice(ROWS, POSITIONS, replace=False)
    payload = encode_deletion_vector(np.sort(chosen).astype(np.uint64))
    checksum = zlib.crc32(payload)
    (folder / VECTOR).write_bytes(b"\1" + len(payload).to_bytes(4, "big") + payload + checksum.to_bytes(4, "big"))
    descriptor = {"size": len(payload), "cardinality": POSITIONS}
    (folder / DESCRIPTOR).write_text(json.dumps(descriptor))


def append_file(table: Path, version: int) -> None:
    stats = {"numRecords": 1000, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    add = {"path": f"new-{version}.parquet", "size": 1, "modificationTime": 0, "dataChange": True}
    _commit(table, version, {"add": {**add, "partitionValues": {}, "stats": json.dumps(stats)}})


def delete_file(table: Path, version: int) -> None:
    remove = {"path": f"new-{version - 1}.parquet", "deletionTimestamp": 0, "dataChange": True}
    _commit(table, version, {"remove": remove})


def _commit(table: Path, version: int, action: dict[str, object]) -> None:
    lines = [json.dumps({"commitInfo": {"operation": "WRITE"}}), json.dumps(action)]
    (table / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines) + "\n")


# Jobs


def vector_to_v2(folder: Path) -> Callable[[], int]:
    engine, vector = default_engine(), _vector(folder)
    return lambda: write_position_deletes(engine, [vector], str(folder / f"{uuid.uuid4()}.parquet")).file_size


def vector_to_v3(folder: Path) -> Callable[[], str]:
    """Milliseconds of the conversion and of copies of the file, in turns: of each, the median."""
    engine, vector = default_engine(), _vector(folder)
    works: dict[str, Callable[[Path], object]] = {
        "write_puffin": lambda path: write_puffin(engine, vector, str(path)),
        "synced_copy": lambda path: synced_copy(folder / VECTOR, path),
        "plain_copy": lambda path: shutil.copyfile(folder / VECTOR, path),
    }

    def work() -> str:
        rounds = [{name: _time(once, folder) for name, once in works.items()} for _ in range(ROUNDS)]
        clocks = ("wall", "cpu")
        medians = {name: {c: statistics.median(times[name][c] for times in rounds) for c in clocks} for name in works}
        return json.dumps(medians)

    return work


def _time(work: Callable[[Path], object], folder: Path) -> dict[str, float]:
    path = folder / f"{uuid.uuid4()}.copy"
    wall, cpu = time.perf_counter(), time.process_time()
    work(path)
    times = {"wall": (time.perf_counter() - wall) * 1000, "cpu": (time.process_time() - cpu) * 1000}
    path.unlink()
    return times


def synced_copy(source: Path, target: Path) -> None:
    """A copy that is on the disk when it is done, and so is its name, as all that the engine writes."""
    with source.open("rb") as read, target.open("xb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def full(table: Path) -> Callable[[], int]:
    return lambda: len(iceberg.convert(str(table)).versions)


def increment(table: Path) -> Callable[[], str]:
    storage = CountingStorage(Storage())

    def work() -> str:
        assert iceberg.convert(str(table), engine=engine_over(storage)).kind == "incremental"
        kinds = Counter(_kind(name) for name in storage.opened)
        return ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))

    return work


def _kind(name: str) -> str:
    """What sort of file it is; commits by their versions."""
    if name.endswith(".avro"):
        return "manifest" if re.search(r"-m\d+\.avro$", name) else "manifest list"
    if ".checkpoint." in name:
        return "checkpoint"
    return f"commit {int(name[:20])}" if name[:20].isdigit() and name.endswith(".json") else name.lstrip("0")


JOBS: dict[str, Callable[[Path], Callable[[], int | str]]] = {
    job.__name__: job for job in (vector_to_v2, vector_to_v3, full, increment)
}


def _vector(folder: Path) -> InternalDeletionVector:
    given = json.loads((folder / DESCRIPTOR).read_text())
    path = str(folder / VECTOR)
    descriptor = DeletionVectorDescriptor("p", path, given["size"], given["cardinality"], 1)
    return InternalDeletionVector(str(folder / "data.parquet"), descriptor, path)


def run(name: str, folder: Path) -> None:
    work = JOBS[name](folder)
    before, start = peak_kb(), time.perf_counter()
    answer = work()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "grown_mb": (peak_kb() - before) / 1024, "answer": answer}))


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
