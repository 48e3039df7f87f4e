"""A stream whose driver is killed (`kill -9`) at random moments, while a writer appends, deletes and optimizes.

    python -m tests.soak.killed_streams [directory] [--kills 20] [--seed 1] [--source lakeport|deltaSharing] [--sink …]

The sink is a table of Lakeport, or Spark's Parquet files. After the last restart it has each row that was ever appended
once: none is lost, and none is there twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO

import pyarrow.dataset as ds
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from tests.spark.streaming import Followed, following

SOURCES = ("lakeport", "deltaSharing")
SINKS = ("lakeport", "parquet")
LONGEST_LIFE = 4.0
"""Seconds from the moment at which a query begins a batch to its end."""
EARLY = 0.25
"""How many of the queries are killed while they start."""
START_SECONDS = 300
END_SECONDS = 900
TRIES = 5
NOT_WAITED = "Python worker failed to connect back"
"""What Spark says when a Python process that it started is not there after ten seconds."""


@dataclass
class Report:
    kills: int = 0
    failed: int = 0
    """Runs in which Spark did not wait for its own Python processes, as on a busy machine."""
    batches: int = 0
    versions: int = 0
    """Of the table that is followed."""
    rows: int = 0
    seconds: float = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.failed} failed starts; {self.rows} rows of {self.versions} versions in "
            f"{self.batches} batches, each row once, in {self.seconds:.0f} s"
        )


@dataclass(frozen=True)
class Query:
    """A stream from a table into a sink."""

    source: Followed
    sink: str
    folder: Path

    @property
    def rows(self) -> Path:
        return self.folder / "sink"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def begun(self) -> Path:
        return self.folder / "begun"

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def start(self, log: IO[bytes], *, to_the_end: bool) -> subprocess.Popen[bytes]:
        source = "deltaSharing" if self.source.sharing else "lakeport"
        given = (source, self.source.target, self.sink, str(self.folder), to_the_end)
        command = [sys.executable, "-c", f"from tests.soak.killed_streams import drive; drive{given!r}"]
        return subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)

    def planned(self) -> int:
        """How many batches there were, with the one that may not be done; Spark does not keep all of them."""
        offsets = self.checkpoint / "offsets"
        numbers = (int(file.name) for file in (offsets.iterdir() if offsets.exists() else ()) if file.name.isdigit())
        return 1 + max(numbers, default=-1)

    def read(self) -> Counter[int]:
        if self.sink == "lakeport":
            return Counter(lakeport.scan(str(self.rows)).to_arrow()["id"].to_pylist())
        return Counter(ds.dataset(_visible(self.rows)).to_table(columns=["id"])["id"].to_pylist())


def drive(source: str, target: str, sink: str, folder: str, to_the_end: bool) -> None:
    """The process that is killed, with the Java process and the workers that it starts."""
    spark = _session()
    query = Query(Followed("", target, source == "deltaSharing"), sink, Path(folder))
    rows = spark.readStream.format(source).options(skipChangeCommits="true", maxFilesPerTrigger="50").load(target)
    writer = rows.writeStream.format(sink).option("checkpointLocation", str(query.checkpoint))
    writer = writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="0 seconds")
    query.begun.touch()
    running = writer.start(str(query.rows))
    running.awaitTermination()
    spark.stop()


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.config("spark.driver.memory", "1g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _visible(folder: Path) -> list[str]:
    """The files that Spark's own log of the sink names: what a killed batch left behind is not among them."""
    log = folder / "_spark_metadata"
    names: dict[int, list[str]] = {}
    compacted = -1
    for file in log.iterdir():
        if file.name.startswith("."):
            continue
        number, is_compact = int(file.name.split(".")[0]), file.name.endswith(".compact")
        lines = file.read_text().splitlines()[1:]
        names[number] = [json.loads(line)["path"].removeprefix("file://") for line in lines]
        compacted = max(compacted, number) if is_compact else compacted
    return [name for number, found in names.items() if number >= compacted for name in found]


class Writer(Thread):
    """Appends rows, each with a number of its own, and deletes and optimizes in between."""

    def __init__(self, path: str, choice: random.Random, after: Path) -> None:
        super().__init__(name="writer")
        self._path, self._choice, self._after = path, choice, after
        self.stopped = Event()
        self.appended = 0
        self.error: BaseException | None = None

    def append(self) -> None:
        rows = self._choice.choice([1, 10, 500])
        numbers = list(range(self.appended, self.appended + rows))
        tables.append(self._path, {"id": numbers, "part": [number % 3 for number in numbers]})
        self.appended += rows

    def run(self) -> None:
        try:
            while not self.stopped.wait(self._choice.uniform(0.2, 2.0)):
                self._write()
        except BaseException as error:
            self.error = error

    def _write(self) -> None:
        """Rows are only deleted once the stream has begun: it would never see them."""
        may_delete = self._after.exists()
        match self._choice.randrange(10):
            case 0 if may_delete:
                tables.delete(self._path, f"id % 17 = {self._choice.randrange(17)}")
            case 1 if may_delete:
                tables.delete(self._path, f"part = {self._choice.randrange(3)} AND id < {self.appended // 2}")
            case 2:
                tables.optimize(self._path)
            case _:
                self.append()


def run(folder: Path, *, source: str, sink: str, kills: int, seed: int) -> Report:
    """Kills drivers of a stream, and lets the last one go to the end. Raises `AssertionError`."""
    choice, report, start = random.Random(seed), Report(), time.monotonic()
    with following(source, folder) as (table, _):
        query = Query(table, sink, folder)
        tables.create(table.path, schema="id long, part long", properties={"delta.enableDeletionVectors": "true"})
        if sink == "lakeport":
            tables.create(str(query.rows), schema="id long, part long")
        writer = Writer(table.path, choice, query.checkpoint / "commits" / "0")
        for _ in range(5):
            writer.append()
        writer.start()
        try:
            while report.kills < kills:
                kill_one(query, choice, report)
        finally:
            writer.stopped.set()
            writer.join()
        assert writer.error is None, writer.error
        finish(query, report)
        check(query, writer.appended)
        report.batches = query.planned()
        report.versions, report.rows = lakeport.scan(table.path).version + 1, writer.appended
    report.seconds = time.monotonic() - start
    return report


def kill_one(query: Query, choice: random.Random, report: Report) -> None:
    query.begun.unlink(missing_ok=True)
    with query.log.open("wb") as log, query.start(log, to_the_end=False) as process:
        planned = query.planned()
        early = planned > 0 and choice.random() < EARLY
        wait_until(lambda: query.begun.exists() if early else query.planned() > planned, process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(choice.uniform(0, LONGEST_LIFE))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            report.kills += 1
            return
    check_failure(query, report)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + START_SECONDS
    while not condition() and process.poll() is None:
        assert time.monotonic() < ends, "the stream does not begin"
        time.sleep(0.01)


def finish(query: Query, report: Report) -> None:
    """Lets the stream read to the end."""
    for _ in range(TRIES):
        with query.log.open("wb") as log, query.start(log, to_the_end=True) as process:
            if process.wait(END_SECONDS) == 0:
                return
        check_failure(query, report)
    raise AssertionError("the stream does not come to an end")


def check_failure(query: Query, report: Report) -> None:
    """Raises `AssertionError` unless it was Spark that did not wait."""
    text = query.log.read_text(errors="replace")
    assert NOT_WAITED in text, f"the stream failed: {text[-5000:]}"
    report.failed += 1


def check(query: Query, appended: int) -> None:
    """Each row is there once."""
    found = query.read()
    twice = [number for number, count in found.items() if count > 1]
    lost = [number for number in range(appended) if number not in found]
    assert not twice, f"{len(twice)} rows are there twice: {sorted(twice)[:10]} …"
    assert not lost, f"{len(lost)} rows are lost: {lost[:10]} …"
    assert len(found) == appended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", choices=SOURCES, action="append")
    parser.add_argument("--sink", choices=SINKS, action="append")
    given = parser.parse_args()
    for source in given.source or SOURCES:
        for sink in given.sink or SINKS:
            with tempfile.TemporaryDirectory(dir=given.directory) as folder:
                print(f"from {source} to {sink}: {given.kills} kills, seed {given.seed}", flush=True)
                print(run(Path(folder), source=source, sink=sink, kills=given.kills, seed=given.seed), flush=True)


if __name__ == "__main__":
    main()
