"""Many readers of a shared table while it is written: no request fails, every answer is of one version, and whole.

python -m tests.soak.sharing_load [--readers 64] [--seconds 120] [--kills 20]
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from bench.server import TABLE, TOKEN, Server, serving
from lakeport import tables

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
CAPABILITIES = "responseformat=delta;readerfeatures=deletionvectors"


@dataclass(frozen=True)
class Report:
    answers: int
    versions: int
    """Different ones among the answers."""
    written: int

    def __str__(self) -> str:
        return f"{self.answers} answers of {self.versions} versions while {self.written} commits were made"


@dataclass(frozen=True)
class Told:
    """What an answer says: its version and the rows in its files, less those that deletion vectors delete."""

    version: int
    files: int
    rows: int


def run(folder: Path, *, readers: int, seconds: float) -> Report:
    """Raises `AssertionError` if a request fails, or an answer is not what its version holds."""
    target = folder / "table"
    tables.create(str(target), _rows(0), properties=PROPERTIES)
    with serving(folder, target) as server, ThreadPoolExecutor(readers + 1) as pool:
        end = time.monotonic() + seconds
        writer = pool.submit(_write, str(target), end)
        answers = [told for work in [pool.submit(_read, server, end) for _ in range(readers)] for told in work.result()]
        written = writer.result()
    wrong = {told for told in set(answers) if told != _expected(str(target), told.version)}
    assert not wrong, f"answers that are of no version: {wrong}"
    return Report(len(answers), len({told.version for told in answers}), written)


def _rows(start: int) -> pa.Table:
    return pa.table({"id": range(start, start + 100)})


def _write(target: str, end: float) -> int:
    commits = 0
    while time.monotonic() < end:
        commits += 1
        if commits % 5:
            tables.append(target, _rows(commits * 100))
        else:
            tables.delete(target, f"id % 100 = {commits % 100}")
        time.sleep(0.02)
    return commits


def _read(server: Server, end: float) -> list[Told]:
    with connected(server) as connection:
        seen = [_told(*ask(connection, {}))]
        while time.monotonic() < end:
            seen.append(_told(*ask(connection, {})))
    assert [told.version for told in seen] == sorted(told.version for told in seen), "time ran backwards"
    return seen


def connected(server: Server) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60))


def ask(connection: http.client.HTTPConnection, body: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """The version and the lines of a whole answer."""
    headers = {"Authorization": f"Bearer {TOKEN}", "delta-sharing-capabilities": CAPABILITIES}
    connection.request("POST", f"{TABLE}/query", json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, content
    return int(answer.headers["Delta-Table-Version"]), [json.loads(line) for line in content.splitlines()]


def _told(version: int, lines: list[dict[str, Any]]) -> Told:
    adds = [line["file"]["deltaSingleAction"]["add"] for line in lines[2:]]
    assert lines[1]["metaData"]["numFiles"] == len(adds), "the answer is cut short"
    deleted = sum(add.get("deletionVector", {}).get("cardinality", 0) for add in adds)
    return Told(version, len(adds), sum(json.loads(add["stats"])["numRecords"] for add in adds) - deleted)


def _expected(target: str, version: int) -> Told:
    files = list(lakeport.scan(target).at(version=version).snapshot.scan_builder().with_stats().build().files())
    return Told(version, len(files), sum(file.num_records or 0 for file in files))


def kill(folder: Path, table: Path, *, kills: int, seed: int = 0) -> Counter[str]:
    """Kills a server at random moments of an answer: the client has a whole answer or an error."""
    moments = random.Random(seed)
    ends: Counter[str] = Counter()
    with serving(folder, table) as server:
        started = time.monotonic()
        whole = _lines(server)
        seconds = time.monotonic() - started
    for _ in range(kills):
        with contextlib.suppress(ProcessLookupError), serving(folder, table) as server:
            timer = threading.Timer(moments.uniform(0.0, seconds), os.kill, (server.pid, signal.SIGKILL))
            timer.start()
            ends[_end(server, whole)] += 1
            timer.join()
    return ends


def _end(server: Server, whole: int) -> str:
    try:
        lines = _lines(server)
    except (http.client.HTTPException, OSError):
        return "error"
    assert lines == whole, f"an answer of {lines} lines looks whole; it should have {whole}"
    return "whole"


def _lines(server: Server) -> int:
    lines = 0
    with connected(server) as connection:
        connection.request("POST", f"{TABLE}/query", "{}", {"Authorization": f"Bearer {TOKEN}"})
        with connection.getresponse() as answer:
            while chunk := answer.read(1 << 16):
                lines += chunk.count(b"\n")
    return lines


def many_files(folder: Path, files: int) -> Path:
    """A table whose answer takes a while. Its data files need not exist: nobody reads them."""
    log = folder / "many" / "_delta_log"
    log.mkdir(parents=True)
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "m", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                      "partitionColumns": [], "configuration": {}}},
    ]  # fmt: skip
    add = {"partitionValues": {}, "size": 1000, "modificationTime": 0, "dataChange": True}
    adds = ({"add": {"path": f"part-{number:08d}.parquet", **add}} for number in range(files))
    lines = (json.dumps(action) for actions in (head, adds) for action in actions)
    (log / f"{0:020d}.json").write_text("\n".join(lines))
    return log.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), readers=options.readers, seconds=options.seconds))
    with tempfile.TemporaryDirectory() as folder:
        ends = kill(Path(folder), many_files(Path(folder), 200_000), kills=options.kills)
        print(f"{options.kills} servers killed while they answered: {dict(ends)}")


if __name__ == "__main__":
    main()
