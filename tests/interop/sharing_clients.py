"""Clients of Delta Sharing that others wrote: `delta-sharing` from PyPI, and the connector for Spark.

Each is a process with a Python of its own. Both read what a server in this process shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import missing
from tests.interop.peers import SECONDS, connected
from tests.interop.servers import PEERS, program
from tests.server.running import TOKEN, Running


class ClientError(Exception):
    """What a client said instead of an answer."""


@dataclass(frozen=True)
class Call:
    """A call of a function of the Python client; rows come in the types of `schema`."""

    function: str
    arguments: dict[str, Any]
    schema: pa.Schema | None = None


@dataclass(frozen=True)
class Read:
    """A table that Spark is to read: as a frame, or with `stream` as a stream to where it ends now."""

    url: str
    query: str = "SELECT * FROM {t}"
    """With the table as `{t}`."""
    options: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    checkpoint: str | None = None
    """A folder where a stream notes how far it came, and goes on from there; None for one that is not gone on with."""
    pause: float = 0
    """Seconds between the first row and the others."""


@dataclass(frozen=True)
class Streamed:
    """What a stream gave, and in how many micro-batches."""

    rows: pa.Table
    batches: int


@dataclass(frozen=True)
class PythonClient:
    connection: Connection

    def call(self, *calls: Call) -> list[Any]:
        """What each call gives: rows as a table, or a value, or a `ClientError`, which is not raised."""
        texts = [(c.function, c.arguments, c.schema and bytes(c.schema.serialize())) for c in calls]
        return [_parsed(*answer) for answer in _ask(self.connection, texts)]


@dataclass(frozen=True)
class SparkClient:
    connection: Connection

    def read(self, *reads: Read, settings: Mapping[str, str] | None = None) -> list[Any]:
        """What each read gives: a table, `Streamed`, or a `ClientError`, which is not raised; several run at a time.
        The settings of the session are for these reads only."""
        answers = _ask(self.connection, (dict(settings or {}), [asdict(read) for read in reads]))
        return [_read(read, *answer) for read, answer in zip(reads, answers, strict=True)]


@contextmanager
def python_client(folder: Path) -> Iterator[PythonClient]:
    """The client from PyPI for the length of a block."""
    with _worker("delta-sharing", "sharing_python_worker.py", folder) as connection:
        yield PythonClient(connection)


@contextmanager
def spark_client(folder: Path) -> Iterator[SparkClient]:
    """Spark with the connector for the length of a block."""
    program("spark/bin/python")
    if not list((PEERS / "sharing-jars").glob("*.jar")):
        if (PEERS / "sharing-connector.unpublished").exists():
            pytest.skip("the Maven registry has no Delta Sharing connector for Spark")
        missing("the Delta Sharing connector for Spark is not in .peers/sharing-jars: run scripts/peers.sh")
    jars = [str(PEERS / "jars"), str(PEERS / "sharing-jars")]
    with _worker("spark", "sharing_spark_worker.py", folder, *jars) as connection:
        yield SparkClient(connection)


def write_profile(server: Running, folder: Path) -> str:
    """The path of a profile file for the server."""
    path = folder / "ann.share"
    content = {"shareCredentialsVersion": 1, "endpoint": server.endpoint, "bearerToken": TOKEN}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def _worker(environment: str, module: str, folder: Path, *arguments: str) -> AbstractContextManager[Connection]:
    worker = [program(f"{environment}/bin/python"), Path(__file__).with_name(module)]
    return connected(environment, folder, lambda connection: [*worker, str(connection), *arguments])


def _ask(connection: Connection, question: Any) -> list[tuple[Any, Any]]:
    connection.send(question)
    if not connection.poll(SECONDS):
        raise TimeoutError(f"the client did not answer within {SECONDS} seconds: {str(question)[:500]}")
    answers: list[tuple[Any, Any]] = connection.recv()
    return answers


def _parsed(kind: str, answer: Any) -> Any:
    if kind == "error":
        return ClientError(answer)
    return _table(answer) if kind == "rows" else answer


def _read(read: Read, rows: bytes | None, details: Any) -> Any:
    if rows is None:
        return ClientError(details)
    return Streamed(_table(rows), details) if read.stream else _table(rows)


def _table(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
