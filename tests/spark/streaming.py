"""Streams as Spark runs them, without Spark: a checkpoint of offsets, and a reader that is asked for batches."""

from __future__ import annotations

import json
import pickle
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeport.spark.options import ReadOptions
from lakeport.spark.schemas import to_spark_schema
from lakeport.spark.stream.reader import StreamPartition, TableStreamReader
from tests.client.shares import profile_text
from tests.server.running import Running, running, sharing

Row = dict[str, Any]
Offset = dict[str, Any]


@dataclass(frozen=True)
class Followed:
    """A table on a disk, and how it is called as the source of a stream."""

    path: str
    target: str
    sharing: bool

    def reader(self, **options: Any) -> TableStreamReader:
        given = {"path": self.target, **{name: str(value) for name, value in options.items()}}
        schema = ReadOptions.parse(given, sharing=self.sharing).schema()
        return TableStreamReader(given, to_spark_schema(schema), sharing=self.sharing)


@contextmanager
def following(kind: str, folder: Path, **settings: Any) -> Iterator[tuple[Followed, Running | None]]:
    """The table `events`, which need not exist yet, as a format of Spark has it; and the server that shares it."""
    path = str(folder / "events")
    if kind == "lakeport":
        yield Followed(path, path, sharing=False), None
        return
    with running(sharing({"lake.raw.events": path}, history_shared=True), **settings) as server:
        profile = folder / "config.share"
        profile.write_text(profile_text(server.endpoint))
        yield Followed(path, f"{profile}#lake.raw.events", sharing=True), server


def requests_to(server: Running) -> Counter[str]:
    """How often each operation of a server was asked for. A request counts when its answer is gone, which is a moment
    after the client has it."""
    counted, before = _counted(server), None
    while counted != before:
        time.sleep(0.3)
        counted, before = _counted(server), counted
    return counted


def _counted(server: Running) -> Counter[str]:
    found = re.findall(
        r'lakeport_requests_total\{operation="([^"]+)",status="\d+"\} (\d+)',
        server.app.services.metrics.text().decode(),
    )
    return Counter({operation: int(count) for operation, count in found})


@dataclass
class Checkpoint:
    """What Spark would have kept of a query: the offset of each batch, as text."""

    offsets: list[str] = field(default_factory=list)

    @property
    def last(self) -> Offset:
        offset: Offset = json.loads(self.offsets[-1])
        return offset

    def batches(self, reader: TableStreamReader, limit: Any = None) -> Iterator[list[Row]]:
        """Batches, each until nothing is new."""
        for start, end in self.ranges(reader, limit):
            yield rows_between(reader, start, end)

    def ranges(self, reader: TableStreamReader, limit: Any = None) -> Iterator[tuple[Offset, Offset]]:
        """Where batches begin and end; each is done with when the next is asked for."""
        if not self.offsets:
            self.offsets.append(json.dumps(reader.initialOffset()))
        while True:
            start = self.last
            end = json.dumps(reader.latestOffset(start, limit or reader.getDefaultReadLimit()))
            if end == self.offsets[-1]:
                return
            self.offsets.append(end)
            yield start, json.loads(end)
            reader.commit(json.loads(end))

    def run(self, reader: TableStreamReader, found: list[Row] | None = None) -> list[Row]:
        """The rows of all batches, which are also in `found` if one of them fails."""
        rows = [] if found is None else found
        for batch in self.batches(reader):
            rows += batch
        return rows


def rows_between(reader: TableStreamReader, start: Offset, end: Offset) -> list[Row]:
    return [row for batch in batches_between(reader, start, end) for row in batch.to_pylist()]


def batches_between(reader: TableStreamReader, start: Offset, end: Offset) -> list[pa.RecordBatch]:
    """The rows of a batch, read by what is left of the reader and of its partitions in another process."""
    worker = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    return [batch for part in parts for batch in worker.read(part)]


def files_between(reader: TableStreamReader, start: Offset, end: Offset) -> list[str]:
    found = []
    for part in reader.partitions(start, end):
        assert isinstance(part, StreamPartition)
        found += [piece.file.path for piece in part.task.pieces]
    return sorted(found)


def ids(rows: list[Row]) -> list[int]:
    return sorted(row["id"] for row in rows)
