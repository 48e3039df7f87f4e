"""Delta tables that change in the ways a mirror must follow."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.engine import default_engine
from lakeport.kernel.schema import StructType, schema_from_arrow
from lakeport.kernel.snapshot import Table
from lakeport.kernel.transaction.transaction import replace_table as kernel_replace
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.properties import VECTORS

FORMATS = pytest.mark.parametrize("version", [2, 3])


def numbers(start: int, end: int, groups: int = 3) -> pa.Table:
    ids = range(start, end)
    return pa.table({"id": pa.array(ids, pa.int64()), "g": [i % groups for i in ids], "name": [f"n{i}" for i in ids]})


def change_in_all_ways(path: str) -> None:
    """Versions 1 to 9: a first vector, a greater one, an append, a file deleted whole, a compaction, updates, a restore
    that takes vectors back, and a commit of nothing but metadata."""
    tables.delete(path, "id % 7 = 0")
    tables.delete(path, "id % 5 = 0")
    tables.append(path, numbers(100, 130))
    tables.delete(path, "g = 1")
    tables.optimize(path, purge=True)
    tables.delete(path, "id > 120")
    tables.update(path, {"name": "'changed'"}, where="id < 10")
    tables.restore(path, version=1)
    tables.set_properties(path, {"delta.appendOnly": "false"})


def remove_commits(path: str, versions: Iterable[int]) -> None:
    """As the cleanup of a log does, after a checkpoint."""
    tables.checkpoint(path)
    for version in versions:
        Path(path, "_delta_log", f"{version:020d}.json").unlink()


def vector_table(root: Path, schema: StructType | None = None) -> TableBuilder:
    """A table to be built, with deletion vectors and without checksums."""
    features = protocol(features=["deletionVectors"])
    return TableBuilder(default_engine(), str(root), schema or struct(id="long"), protocol=features)


def replace_table(path: str, rows: pa.Table, partition_by: Sequence[str] = (), **properties: str) -> None:
    """As CREATE OR REPLACE TABLE does: in the same log, with another id. Then a version with rows."""
    engine = default_engine()
    latest = Table.for_path(engine, path).latest_snapshot()
    transaction = kernel_replace(latest, schema_from_arrow(rows.schema), partition_by, VECTORS | properties)
    metadata = msgspec.structs.replace(transaction.metadata, id=str(uuid.uuid4()))
    transaction.definition = replace(transaction.definition, metadata=metadata)
    transaction.commit()
    assert Table.for_path(engine, path).latest_snapshot().metadata.id != latest.metadata.id
    tables.append(path, rows)
