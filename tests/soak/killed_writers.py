"""A writer that is killed (`kill -9`) at random moments of every operation that writes.

    python -m tests.soak.killed_writers [directory] [--kills 25] [--seed 1]

After each kill the table opens at the old or the new version, its rows are those that the operations so far imply, and
the next write succeeds. A reader that looks at the table all the while never sees a part of an operation. In the end,
vacuum deletes all that no version needs any more, and the rows are still there.

The writer notes in a journal what it is about to do and what it has done; so the last operation that is not marked as
done is the only one that the table may have or not have.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

import lakeport
from lakeport import tables
from tests.soak.mixed_writers import ALL_FEATURES
from tests.soak.reading import rows_by_deltalake

ROWS = 30
"""Of each batch, always, in two partitions: less is a part of an operation."""
PARTITIONED = (
    "append",
    "overwrite",
    "replace",
    "delete",
    "update",
    "merge",
    "spilled merge",
    "optimize",
    "zorder",
    "hilbert",
    "vacuum",
    "checkpoint",
)
"""The operations on a partitioned table."""
CLUSTERED = ("append", "merge", "optimize", "full", "cluster by")
"""Those on a clustered table."""
COLUMNS = (["value", "n"], ["batch"], ["n", "batch"])
"""By which it is clustered, one after the other."""
RETENTION = {"delta.deletedFileRetentionDuration": "interval 10 seconds"}
"""More than a look takes, so that vacuum finds something but nothing that the reader needs."""
LONGEST_LIFE = 1.0
"""Seconds from a writer's start to its end."""
VACUUM_VERSIONS = 2
"""Vacuum notes its start and its end in the history; other operations make one version."""

Model = dict[int, int]
"""The value of each batch; all of its rows have it."""
Operation = dict[str, Any]


# The writer


def write_forever(target: str, journal_path: str, kind: str, seed: int, first: int) -> None:
    """The process that is killed: one operation again and again. `first` is the number of its first one."""
    choice = random.Random(seed)
    model = {batch: value for batch, value, _, _ in read_batches(target)}
    with Path(journal_path).open("a") as journal:
        for number in range(first, sys.maxsize):
            operation = choose(choice, kind, number, list(model))
            note(journal, {"doing": operation})
            version = perform(target, operation)
            note(journal, {"done": operation, "version": version})
            model = apply(model, operation)


def note(journal: TextIO, entry: Mapping[str, Any]) -> None:
    journal.write(json.dumps(entry) + "\n")
    journal.flush()
    os.fsync(journal.fileno())


def choose(choice: random.Random, kind: str, number: int, batches: list[int]) -> Operation:
    """The next operation: an append if no rows are left for others."""
    batch = choice.choice(batches) if batches else -1
    return {"kind": kind if batches else "append", "batch": batch, "new": number}


def perform(target: str, operation: Operation) -> int:
    """Does it; the table's version after it."""
    batch, new = operation["batch"], operation["new"]
    match operation["kind"]:
        case "append":
            return tables.append(target, rows_of({new: 0})).version
        case "overwrite":
            return tables.overwrite(target, rows_of({new: 0, batch: 1})).version
        case "replace":
            return tables.overwrite(target, rows_of({batch: new}), where=f"batch = {batch}").version
        case "delete":
            return tables.delete(target, f"batch = {batch}").version
        case "update":
            return tables.update(target, {"value": "value + 1"}, f"batch = {batch}").version
        case "merge":
            return merge(target, batch, new, memory_limit=None)
        case "spilled merge":
            return merge(target, batch, new, memory_limit=20_000)
        case "optimize":
            return tables.optimize(target, purge=True).version
        case "full":
            return tables.optimize(target, full=True, target_size=2_000).version
        case "zorder":
            return tables.optimize(target, zorder_by=["value", "n"], target_size=2_000).version
        case "hilbert":
            return tables.optimize(target, cluster_by=["value", "n"], target_size=2_000).version
        case "cluster by":
            return tables.cluster_by(target, COLUMNS[new % len(COLUMNS)]).version
        case "vacuum":
            tables.vacuum(target, dry_run=False)
            return lakeport.scan(target).version
    return tables.checkpoint(target).version


def merge(target: str, batch: int, new: int, memory_limit: int | None) -> int:
    """Changes one batch and brings another."""
    source, on = rows_of({batch: 0, new: 5}), "target.batch = source.batch AND target.n = source.n"
    merge = tables.merge(target, source, on, memory_limit=memory_limit)
    return merge.when_matched_update({"value": "target.value + 10"}).when_not_matched_insert_all().execute().version


def apply(model: Model, operation: Operation) -> Model:
    """What the operation makes of the rows."""
    batch, new = operation["batch"], operation["new"]
    match operation["kind"]:
        case "append":
            return model | {new: 0}
        case "overwrite":
            return {new: 0, batch: 1}
        case "replace":
            return model | {batch: new}
        case "delete":
            return {name: value for name, value in model.items() if name != batch}
        case "update":
            return model | {batch: model[batch] + 1}
        case "merge" | "spilled merge":
            return model | {batch: model[batch] + 10, new: 5}
    return model


def rows_of(batches: Model) -> pa.Table:
    names = [batch for batch in batches for _ in range(ROWS)]
    numbers = list(range(ROWS)) * len(batches)
    values = [batches[batch] for batch in names]
    return pa.table({"batch": names, "part": [n % 2 for n in numbers], "n": numbers, "value": values})


# The reader


def read_batches(target: str) -> Iterator[tuple[int, int, int, int]]:
    """Of each batch: its number, its least and its greatest value, its rows."""
    rows = lakeport.scan(target).to_arrow()
    groups = rows.group_by("batch").aggregate([("value", "min"), ("value", "max"), ("n", "count_distinct")])
    assert pc.sum(groups["n_count_distinct"]).as_py() in (rows.num_rows, None), "a row is there twice"
    columns = ("batch", "value_min", "value_max", "n_count_distinct")
    return zip(*(groups[name].to_pylist() for name in columns), strict=True)


def read_forever(target: str, stop: str) -> None:
    """The process that looks, until the file `stop` is there. It ends with an error if it ever sees a part."""
    looks = 0
    while not Path(stop).exists():
        for batch, least, greatest, count in read_batches(target):
            assert (count, least) == (ROWS, greatest), f"a part of batch {batch}: {count} rows, {least} to {greatest}"
        looks += 1
    print(looks)


# The one who kills


@dataclass
class Report:
    kills: int = 0
    looks: int = 0
    """How often the reader read the whole table."""
    done: Counter[str] = field(default_factory=Counter)
    """Operations that ended before the kill."""
    landed: Counter[str] = field(default_factory=Counter)
    """Operations in which the writer was killed, after their commit."""
    lost: Counter[str] = field(default_factory=Counter)
    """The same, before their commit."""
    versions: int = 0
    seconds: float = 0

    def kills_in(self, kind: str) -> int:
        """How many writers were killed in the midst of such an operation."""
        return self.landed[kind] + self.lost[kind]

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.versions} versions, {self.looks} looks in {self.seconds:.0f} s\n"
            f"  done before the kill: {dict(self.done)}\n"
            f"  killed after the commit: {dict(self.landed)}\n"
            f"  killed before the commit: {dict(self.lost)}"
        )


def run(
    folder: Path,
    kinds: Sequence[str] = PARTITIONED,
    *,
    kills: int,
    seed: int,
    properties: Mapping[str, str] = ALL_FEATURES,
) -> Report:
    """Kills writers of a new table in the folder, so many in each kind of operation, checking after each. Raises
    `AssertionError`."""
    target, journal = str(folder / "table"), folder / "journal"
    (folder / "temporary").mkdir()
    model: Model = {0: 0}
    layout = {"cluster_by": COLUMNS[0]} if "cluster by" in kinds else {"partition_by": ["part"]}
    tables.create(target, rows_of(model), **layout, properties={**properties, **RETENTION})
    report, choice, start, version = Report(), random.Random(seed), time.monotonic(), 0
    with reader(target, folder, report):
        while kind := next((kind for kind in kinds if report.kills_in(kind) < kills), None):
            journal.write_text("")
            report.kills += 1
            kill_one(target, journal, kind, choice, first=report.kills * 1_000 + 1)
            model, version = check(target, journal, model, version, report)
            model, version = write_next(target, model, version, number=-report.kills)
    tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False)
    expected = sorted((batch, n, value) for batch, value in model.items() for n in range(ROWS))
    assert rows_by_deltalake(target, None, "batch", "n", "value") == expected
    report.versions, report.seconds = version + 1, time.monotonic() - start
    return report


@contextmanager
def reader(target: str, folder: Path, report: Report) -> Iterator[None]:
    """A process that looks at the table the while; fails if it has seen what it should not."""
    stop = folder / "stop"
    command = f"from tests.soak.killed_writers import read_forever; read_forever({target!r}, {str(stop)!r})"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            stop.touch()
            output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, "the reader saw a part of an operation: its error is above"
    report.looks = int(output)


def kill_one(target: str, journal: Path, kind: str, choice: random.Random, first: int) -> None:
    """Starts a writer, and kills it some time after it began to write."""
    seed, life = choice.randrange(1 << 30), choice.uniform(0, LONGEST_LIFE)
    command = "from tests.soak.killed_writers import write_forever; "
    command += f"write_forever({target!r}, {str(journal)!r}, {kind!r}, {seed}, {first})"
    temporary = journal.parent / "temporary"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-c", command], env=environment) as process:
        while not journal.stat().st_size:
            assert process.poll() is None, "the writer failed before it wrote anything: its error is above"
            time.sleep(0.005)
        time.sleep(life)
        assert process.poll() is None, "the writer failed: its error is above"
        process.kill()
    assert kind != "spilled merge" or not list(temporary.iterdir())
    shutil.rmtree(temporary)
    temporary.mkdir()


def check(target: str, journal: Path, model: Model, version: int, report: Report) -> tuple[Model, int]:
    """Compares the table with what the journal implies. The rows and the version that it has."""
    # A line that the kill cut short has no end: what it notes did not begin, or has been done.
    entries = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    for entry in entries:
        if done := entry.get("done"):
            model, version = apply(model, done), entry["version"]
            report.done[done["kind"]] += 1
    found = lakeport.scan(target)
    rows = sorted(found.select("batch", "n", "value").to_arrow().to_pylist(), key=lambda row: (row["batch"], row["n"]))
    pending = entries[-1].get("doing") if entries else None
    if pending is not None and found.version > version:
        assert found.version <= version + (VACUUM_VERSIONS if pending["kind"] == "vacuum" else 1)
        model, version = apply(model, pending), found.version
        report.landed[pending["kind"]] += 1
    elif pending is not None:
        report.lost[pending["kind"]] += 1
    assert found.version == version
    assert rows == [{"batch": b, "n": n, "value": model[b]} for b in sorted(model) for n in range(ROWS)]
    return model, version


def write_next(target: str, model: Model, version: int, number: int) -> tuple[Model, int]:
    """The write after the kill."""
    operation = {"kind": "append", "batch": -1, "new": number}
    made = perform(target, operation)
    assert made == version + 1
    return apply(model, operation), made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kills", type=int, default=25, help="in each operation")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for kinds in (PARTITIONED, CLUSTERED):
        with tempfile.TemporaryDirectory(dir=given.directory) as folder:
            print(f"{given.kills} kills in each of {', '.join(kinds)}, seed {given.seed}")
            print(run(Path(folder), kinds, kills=given.kills, seed=given.seed))


if __name__ == "__main__":
    main()
