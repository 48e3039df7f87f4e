"""A sync that is killed (`kill -9`) at random moments, while the provider goes on writing.

    python -m tests.soak.killed_sync [directory] [--kills 100] [--seed 1]

After each kill the copy, if there is one, is a whole version of the shared table, with its rows; now and then a sync
may end, and then every row of every version of the copy is the provider's. Nothing that was fetched whole is fetched
again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.client.sync.plan import parse_copy
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import TableNotFoundError
from lakeport.kernel.engine import OutputFile
from tests.client.syncing import Provider, providing, synced_version
from tests.interop.shareable import OWN

LONGEST_LIFE = 0.8
"""Seconds from the moment at which a sync begins to its end."""
LARGE = 300_000
"""Rows of a file that is fetched in several pieces."""


@dataclass
class Report:
    kills: int = 0
    ended: int = 0
    """Syncs that ended before they were to be killed."""
    shared: int = 0
    """Versions of the provider."""
    versions: int = 0
    """Versions of the copy."""
    files: int = 0
    left: int = 0
    """Files that a killed sync left half."""
    seconds: float = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.ended} ended before; {self.shared} versions shared, {self.versions} copied, "
            f"{self.files} files, {self.left} left half, in {self.seconds:.0f} s"
        )


def sync_once(target: str, dest: str, begun: str) -> None:
    """The process that is killed."""
    Path(begun).touch()
    lakeport.sync(target, dest)


class KillingStorage(Storage):
    """Ends the process at the step of this number: before a file is made, in the middle of it, and before its end."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps
        self._lock = Lock()

    def step(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self.step()
        super().write(path, data, overwrite=overwrite)
        self.step()

    def open_output(self, path: str) -> OutputFile:
        self.step()
        return KillingOutput(super().open_output(path), self.step)


@dataclass
class KillingOutput:
    output: OutputFile
    step: Callable[[], None]

    def write(self, data: bytes | memoryview) -> int:
        half = len(data) // 2
        self.output.write(data[:half])
        self.step()
        return half + self.output.write(data[half:])

    def close(self) -> None:
        self.step()
        self.output.close()
        self.step()

    def abort(self) -> None:
        self.output.abort()


def sync_steps(target: str, dest: str, steps: int) -> None:
    """The process that ends itself."""
    lakeport.sync(target, dest, engine=engine_over(KillingStorage(steps)))


def run_steps(folder: Path, *, each: int) -> int:
    """Syncs that end after `each` steps, after twice as many and so on, of a table that grows once there is a copy. How
    many of them ended so. Raises `AssertionError`."""
    choice, killed = random.Random(1), 0
    with providing(folder / "provider", "orders") as provider:
        path, dest = provider.path("orders"), folder / "copy"
        tables.create(path, some(0, 30, choice), properties=OWN["advanced"], partition_by=["part"])
        tables.delete(path, "id % 5 = 1")
        for _ in range(2):
            killed += _kill_at_steps(provider, dest, each)
            assert provider.sync("orders", dest, verify=True).commits == 0
            tables.append(path, some(100, 30, choice))
            tables.update(path, {"value": "value + 1"}, "id % 11 = 3")
        compare_versions(path, dest)
    count_files(dest, Report())
    return killed


def _kill_at_steps(provider: Provider, dest: Path, each: int) -> int:
    for steps in range(each, 1000, each):
        command = "from tests.soak.killed_sync import sync_steps; "
        command += f"sync_steps({provider.target('orders')!r}, {str(dest)!r}, {steps})"
        code = subprocess.run([sys.executable, "-c", command], check=False).returncode
        check(provider.path("orders"), dest)
        if code == 0:
            return steps // each - 1
        assert code == -signal.SIGKILL, "the sync failed: its error is above"
    raise AssertionError("the sync never ends")


def run(folder: Path, *, kills: int, seed: int) -> Report:
    """Kills syncs of a table that grows, checking after each. Raises `AssertionError`."""
    choice, report, start = random.Random(seed), Report(), time.monotonic()
    with providing(folder / "provider", "orders", pre_signed_url_timeout_seconds=2) as provider:
        path, dest = provider.path("orders"), folder / "copy"
        tables.create(path, some(0, LARGE, choice), properties=OWN["advanced"], partition_by=["part"])
        for number in range(kills):
            kill_one(provider, dest, choice, report)
            check(path, dest)
            write(path, number, choice)
            if choice.random() < 0.2:
                provider.sync("orders", dest, verify=True)
        provider.sync("orders", dest, verify=True)
        compare_versions(path, dest)
    count_files(dest, report)
    report.shared, report.versions = (lakeport.scan(str(p)).version + 1 for p in (path, dest))
    report.seconds = time.monotonic() - start
    return report


def kill_one(provider: Provider, dest: Path, choice: random.Random, report: Report) -> None:
    begun = provider.folder / "begun"
    begun.unlink(missing_ok=True)
    command = "from tests.soak.killed_sync import sync_once; "
    command += f"sync_once({provider.target('orders')!r}, {str(dest)!r}, {str(begun)!r})"
    with subprocess.Popen([sys.executable, "-c", command]) as process:
        while not begun.exists():
            assert process.poll() is None, "the sync failed before it began: its error is above"
            time.sleep(0.005)
        time.sleep(choice.uniform(0, LONGEST_LIFE))
        if process.poll() is None:
            process.kill()
            report.kills += 1
        else:
            assert process.returncode == 0, "the sync failed: its error is above"
            report.ended += 1


def check(path: str, dest: Path) -> None:
    """The copy is a whole version."""
    try:
        copied = synced_version(dest)
    except TableNotFoundError:
        return
    assert digest(str(dest)) == digest(path, copied)


def digest(path: str, version: int | None = None) -> tuple[int, int, int]:
    frame = lakeport.scan(path)
    found = (frame if version is None else frame.at(version=version)).select("id", "value").to_arrow()
    ids, values = found["id"].to_numpy(), found["value"].to_numpy()
    return found.num_rows, int(ids.sum()), int((ids * values).sum())


def write(path: str, number: int, choice: random.Random) -> None:
    first = (number + 1) * LARGE
    match choice.randrange(5):
        case 0:
            tables.delete(path, f"id % 7 = {choice.randrange(7)}")
        case 1:
            tables.update(path, {"value": "value + 1"}, f"id % 11 = {choice.randrange(11)}")
        case 2:
            tables.optimize(path)
        case _:
            tables.append(path, some(first, choice.choice([10, 1000, LARGE // 4]), choice))


def some(first: int, count: int, choice: random.Random) -> pa.Table:
    ids = np.arange(first, first + count)
    values = np.random.default_rng(choice.randrange(1 << 30)).integers(0, 1 << 40, count)
    return pa.table({"id": ids, "part": ids % 3, "value": values})


def compare_versions(path: str, dest: Path) -> None:
    for commit in lakeport.scan(str(dest)).history():
        shared = int(commit.info["operationParameters"]["version"])
        assert digest(str(dest), commit.version) == digest(path, shared), f"version {commit.version}"


def count_files(dest: Path, report: Report) -> None:
    """No file was fetched twice: besides one that is whole there are only parts, of syncs that were killed."""
    sizes: dict[str, list[int]] = {}
    for file in dest.glob("*.parquet"):
        sizes.setdefault(parse_copy(file.name) or "", []).append(file.stat().st_size)
    assert "" not in sizes
    for name, found in sizes.items():
        assert Counter(found)[max(found)] == 1, f"{name} is there twice"
    report.files = len(sizes)
    report.left = sum(len(found) - 1 for found in sizes.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        print(f"{given.kills} kills, seed {given.seed}")
        print(run(Path(folder), kills=given.kills, seed=given.seed))


if __name__ == "__main__":
    main()
