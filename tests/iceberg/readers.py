"""Independent readers of Iceberg tables: pyiceberg, and DuckDB in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.table import StaticTable

import lakeport
from lakeport.iceberg import Conversion
from tests.conftest import ROOT, missing
from tests.interop.peers import Peer, started

WORKER = Path(__file__).with_name("duckdb_worker.py")


class Reader(Protocol):
    def read(self, metadata_location: str, snapshot_id: int) -> pa.Table:
        """The rows of a snapshot."""


class PyIceberg:
    def read(self, metadata_location: str, snapshot_id: int) -> pa.Table:
        return StaticTable.from_metadata(metadata_location).scan(snapshot_id=snapshot_id).to_arrow()


@dataclass(frozen=True)
class DuckDb:
    peer: Peer

    def read(self, metadata_location: str, snapshot_id: int) -> pa.Table:
        location = metadata_location.replace("'", "''")
        sql = f"SELECT * FROM iceberg_scan('{location}', snapshot_from_id = {snapshot_id})"
        (rows,) = self.peer.read(sql)
        return rows


def duckdb_python() -> Path:
    """A Python that has DuckDB with the extensions: the one that LAKEPORT_DUCKDB_PYTHON names, or one of our own."""
    python = Path(os.environ.get("LAKEPORT_DUCKDB_PYTHON") or ROOT / ".peers/duckdb/bin/python")
    needed = "import duckdb_extension_avro, duckdb_extension_iceberg"
    if not python.exists() or subprocess.run([python, "-c", needed], capture_output=True).returncode:
        missing(f"{python} has no DuckDB with the extensions avro and iceberg: run scripts/peers.sh")
    return python


@contextmanager
def running_duckdb(folder: Path) -> Iterator[DuckDb]:
    """DuckDB for the length of a block."""
    python = duckdb_python()
    with started("duckdb", folder, lambda connection: [python, WORKER, str(connection)]) as peer:
        yield DuckDb(peer)


def canonical(rows: pa.Table) -> list[str]:
    """Rows as a sorted list, in which NaN equals NaN."""
    return sorted(repr(list(row.items())) for row in rows.to_pylist())


def metadata_of(conversion: Conversion) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads(Path(conversion.metadata_location).read_text())
    return metadata


@contextmanager
def edited(conversion: Conversion) -> Iterator[dict[str, Any]]:
    """The metadata of a mirror, to be changed by hand."""
    metadata = metadata_of(conversion)
    yield metadata
    Path(conversion.metadata_location).write_text(json.dumps(metadata))


def snapshots_of(conversion: Conversion) -> dict[int, dict[str, Any]]:
    """The snapshots of a mirror by the versions that they show; of one version, the last."""
    return {int(s["summary"]["lakeport.delta.version"]): s for s in metadata_of(conversion)["snapshots"]}


def ids_of(conversion: Conversion) -> dict[int, int]:
    """The ids of the snapshots of a mirror by the versions that they show, in their order."""
    return {version: snapshot["snapshot-id"] for version, snapshot in sorted(snapshots_of(conversion).items())}


def assert_mirrors(reader: Reader, table: str, conversion: Conversion, versions: list[int] | None = None) -> None:
    """The mirror has snapshots of these versions, and each has the rows of the Delta table at it."""
    ids = ids_of(conversion)
    assert versions is None or list(ids) == versions
    for version, snapshot_id in ids.items():
        expected = lakeport.scan(table).at(version=version).to_arrow()
        found = reader.read(conversion.metadata_location, snapshot_id)
        assert found.column_names == expected.column_names
        assert canonical(found) == canonical(expected), f"version {version}"
