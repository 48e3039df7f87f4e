"""Conversions to Iceberg that are killed (`kill -9`) at random moments, one or two at once, while the table grows.

    python -m tests.soak.killed_conversions [directory] [--kills 100] [--seed 1]

After each kill the mirror, if there is one, opens at a whole version, with the rows of the Delta table; now and then a
conversion may end, also beside another, and then each version has one snapshot, the same for both. What killed
conversions have left, `clean` removes, and nothing else.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import StaticTable

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import engine_over
from lakeport.iceberg.table.metadata import DELTA_VERSION
from tests.soak.killed_sync import KillingStorage

FIRST_LIFE = 0.6
"""Seconds from the moment at which a conversion begins to the latest at which it is killed. It becomes longer with each
that is killed and shorter with each that ends before, so that all moments are hit, however busy the machine is."""
ROWS = 20_000
CONVERT = (
    "import sys, pathlib, lakeport.iceberg as i; pathlib.Path(sys.argv[2]).touch(); i.convert(sys.argv[1], since=0)"
)
"""The process that is killed. It imports nothing that it does not need: many of them are started."""


@dataclass
class Report:
    kills: int = 0
    ended: int = 0
    """Conversions that ended before they were to be killed."""
    together: int = 0
    """Times that two ran at once, and ended."""
    versions: int = 0
    cleaned: int = 0
    """Files that were left."""
    seconds: float = 0
    life: float = FIRST_LIFE

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.ended} ended before, {self.together} times two at once; "
            f"{self.versions} versions, {self.cleaned} files were left, in {self.seconds:.0f} s"
        )


def convert_steps(path: str, steps: int) -> None:
    """The process that ends itself, at a step of its writing."""
    iceberg.convert(path, since=0, engine=engine_over(KillingStorage(steps)))


def run(folder: Path, *, kills: int, seed: int, format_version: int = 2) -> Report:
    """Kills conversions of a table that changes, checking after each. Raises `AssertionError`."""
    choice, report, start = random.Random(seed), Report(), time.monotonic()
    path = str(folder / "table")
    properties = {"delta.enableDeletionVectors": "true"}
    tables.create(path, some(0, ROWS), partition_by=["part"], properties=properties)
    iceberg.convert(path, format_version=format_version)
    number = 0
    while report.kills < kills:
        number += 1
        write(path, number, choice)
        kill_one(folder, path, choice, report)
        check(path)
        if number % 5 == 0:
            convert_twice(folder, path, report)
    convert_twice(folder, path, report)
    compare_versions(path, report)
    report.cleaned = clean(path)
    report.seconds = time.monotonic() - start
    return report


def run_steps(folder: Path, *, each: int, format_version: int = 2) -> int:
    """Conversions that end after `each` steps, after twice as many and so on, the first of which would make the mirror.
    How many of them ended so. Raises `AssertionError`."""
    path = str(folder / "table")
    tables.create(path, some(0, 100), partition_by=["part"], properties={"delta.enableDeletionVectors": "true"})
    for remainder in range(4):
        tables.delete(path, f"id % 9 = {remainder}")
    for steps in range(each, 1000, each):
        command = f"from tests.soak.killed_conversions import convert_steps; convert_steps({path!r}, {steps})"
        code = subprocess.run([sys.executable, "-c", command], check=False).returncode
        check(path)
        if code == 0:
            assert iceberg.convert(path).kind == "none"
            return steps // each - 1
        assert code == -signal.SIGKILL, "the conversion failed: its error is above"
    raise AssertionError("the conversion never ends")


def some(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "part": ids % 3, "value": ids * 7})


def write(path: str, number: int, choice: random.Random) -> None:
    """A version or more; a conversion that was killed has left some too."""
    for _ in range(choice.randint(1, 3)):
        match choice.randrange(6):
            case 0:
                tables.optimize(path, purge=True)
            case 1:
                tables.update(path, {"value": "value + 1"}, f"id % 11 = {choice.randrange(11)}")
            case 2:
                tables.restore(path, version=lakeport.scan(path).version - 1)
            case 3:
                tables.append(path, some(number * ROWS, choice.choice([10, 1000])))
            case _:
                tables.delete(path, f"id % 17 = {choice.randrange(17)}")


def start_one(folder: Path, path: str, name: str) -> subprocess.Popen[bytes]:
    """A conversion that has begun."""
    begun = folder / f"begun-{name}"
    begun.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", CONVERT, path, str(begun)])
    while not begun.exists():
        assert process.poll() is None, "the conversion failed before it began: its error is above"
        time.sleep(0.002)
    return process


def kill_one(folder: Path, path: str, choice: random.Random, report: Report) -> None:
    with start_one(folder, path, "killed") as process:
        time.sleep(choice.uniform(0, report.life))
        if process.poll() is None:
            process.kill()
            report.kills += 1
            report.life *= 1.2
        else:
            assert process.returncode == 0, "the conversion failed: its error is above"
            report.ended += 1
            report.life *= 0.6


def convert_twice(folder: Path, path: str, report: Report) -> None:
    with start_one(folder, path, "one") as one, start_one(folder, path, "other") as other:
        assert (one.wait(), other.wait()) == (0, 0), "a conversion failed: its error is above"
    report.together += 1
    assert check(path) == lakeport.scan(path).version


def check(path: str) -> int | None:
    """The latest metadata, and those that the hint names, open at a whole version: which; None without a mirror."""
    metadata = Path(path, "_iceberg/metadata")
    numbers = sorted(int(file.name[1:].partition(".")[0]) for file in metadata.glob("v*.metadata.json"))
    if not numbers:
        return None
    assert numbers == [*range(1, len(numbers) + 1)], "a version of the metadata is missing"
    hint = metadata / "version-hint.text"
    hinted = int(hint.read_text()) if hint.exists() else 1
    return max(check_metadata(path, str(metadata / f"v{number}.metadata.json")) for number in {hinted, numbers[-1]})


def check_metadata(path: str, metadata: str) -> int:
    table = StaticTable.from_metadata(metadata)
    version = int(table.properties[DELTA_VERSION])
    assert digest(table.scan().to_arrow()) == digest(lakeport.scan(path).at(version=version).to_arrow())
    return version


def digest(rows: pa.Table) -> tuple[int, int, int]:
    ids, values = rows["id"].to_numpy(), rows["value"].to_numpy()
    return rows.num_rows, int(ids.sum()), int((ids * values).sum())


def compare_versions(path: str, report: Report) -> None:
    """Each version has one snapshot, with its rows."""
    conversion = iceberg.convert(path)
    table = StaticTable.from_metadata(conversion.metadata_location)
    versions = [int(str(snapshot.summary[DELTA_VERSION])) for snapshot in table.snapshots() if snapshot.summary]
    assert versions == list(range(lakeport.scan(path).version + 1))
    for version, snapshot in zip(versions, table.snapshots(), strict=True):
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert digest(found) == digest(lakeport.scan(path).at(version=version).to_arrow()), f"version {version}"
    report.versions = len(versions)


def clean(path: str) -> int:
    """Removes what killed conversions have left; every version is still there."""
    found = iceberg.clean(path, retention="1000 weeks", grace="0 seconds", dry_run=False)
    assert not found.expired
    compare_versions(path, Report())
    assert not iceberg.clean(path, retention="1000 weeks", grace="0 seconds").files
    return len(found.files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for format_version in (2, 3):
        with tempfile.TemporaryDirectory(dir=given.directory) as folder:
            print(f"{given.kills // 2} kills, seed {given.seed}, format version {format_version}")
            print(run(Path(folder), kills=given.kills // 2, seed=given.seed, format_version=format_version))


if __name__ == "__main__":
    main()
