"""Readers and writers of Delta tables that take SQL: Delta's own library on Spark, and DuckDB with its Delta extension.

Each is one process for all tests of a session, since Spark is slow to start, with a Python of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import pyarrow as pa

from tests.interop.servers import PEERS, program

WORKER = Path(__file__).with_name("peer_worker.py")
SECONDS = 300
STOP_SECONDS = 60


class PeerError(Exception):
    """A peer refused a statement."""


@dataclass(frozen=True)
class Peer:
    """SQL in, Arrow tables out."""

    name: str
    connection: Connection

    def run(self, *statements: str) -> None:
        """Runs statements one after another. Raises `PeerError`."""
        self._ask("statements", statements)

    def read(self, *queries: str) -> list[pa.Table]:
        """What queries give; several run at a time. Raises `PeerError`."""
        return [pa.ipc.open_stream(stream).read_all() for stream in self._ask("queries", queries)]

    def _ask(self, kind: str, texts: Sequence[str]) -> list[bytes]:
        self.connection.send((kind, list(texts)))
        if not self.connection.poll(SECONDS):
            raise TimeoutError(f"{self.name} did not answer within {SECONDS} seconds: {texts}")
        answer: list[bytes] | str = self.connection.recv()
        if isinstance(answer, str):
            raise PeerError(answer)
        return answer


@contextmanager
def running(name: str, folder: Path) -> Iterator[Peer]:
    """A peer for the length of a block: `spark` or `duckdb`. It works in `folder`."""
    python = program(f"{name}/bin/python")
    with started(name, folder, lambda connection: [python, WORKER, name, str(connection), PEERS / "jars"]) as peer:
        yield peer


@contextmanager
def started(name: str, folder: Path, command: Callable[[int], Sequence[str | Path]]) -> Iterator[Peer]:
    """A process that answers as a peer, for the length of a block."""
    with connected(name, folder, command) as connection:
        yield Peer(name, connection)


@contextmanager
def connected(name: str, folder: Path, command: Callable[[int], Sequence[str | Path]]) -> Iterator[Connection]:
    """The connection to a process for the length of a block. `command` is told the number of the file by which it is
    connected; what it prints goes to a file in `folder`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ours, theirs = Pipe()
    with ours, (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command(theirs.fileno()),
            cwd=folder,
            env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        try:
            yield ours
        finally:
            ours.close()
            process.wait(STOP_SECONDS)
