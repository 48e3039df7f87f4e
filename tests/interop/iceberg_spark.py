"""Spark with Iceberg's own library as a reader of mirrors, in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from pathlib import Path

import pyarrow as pa

from lakeport.kernel.schema import StructType
from tests.interop.peers import Peer
from tests.interop.rows import spark_columns
from tests.interop.servers import PEERS, program

WORKER = Path(__file__).with_name("iceberg_worker.py")
STOP_SECONDS = 60


@dataclass(frozen=True)
class IcebergSpark:
    peer: Peer

    def read(self, location: str, snapshots: Mapping[int, StructType]) -> list[pa.Table]:
        """The rows of snapshots, given by their ids with the schemas of the Delta table, variants as JSON."""
        return self.peer.read(*("\n".join([location, str(id), *_columns(schema)]) for id, schema in snapshots.items()))


def _columns(schema: StructType) -> list[str]:
    texts = {field.name: spark_columns(StructType((field,))) for field in schema}
    quoted = {name: name.replace("`", "``") for name in texts}
    return [f"`{quoted[name]}`" if text == "*" else text for name, text in texts.items()]


@contextmanager
def running_iceberg_spark(folder: Path) -> Iterator[IcebergSpark]:
    """Spark for the length of a block."""
    python, jars = program("iceberg-spark/bin/python"), PEERS / "iceberg-jars"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ours, theirs = Pipe()
    with ours, (folder / "iceberg-spark.log").open("wb") as log:
        process = subprocess.Popen(
            [python, WORKER, str(theirs.fileno()), jars],
            cwd=folder,
            env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        try:
            yield IcebergSpark(Peer("iceberg-spark", ours))
        finally:
            ours.close()
            process.wait(STOP_SECONDS)
