"""Spark with Iceberg's own library as a reader of mirrors, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakeport.kernel.schema import StructType
from tests.interop.peers import Peer, started
from tests.interop.rows import spark_columns
from tests.interop.servers import PEERS, program

WORKER = Path(__file__).with_name("iceberg_worker.py")


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
    with started("iceberg-spark", folder, lambda connection: [python, WORKER, str(connection), jars]) as peer:
        yield IcebergSpark(peer)
