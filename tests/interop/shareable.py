"""What the tests of the clients share: the shared set of tables, and tables of our own with more versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakeport
from lakeport import tables
from lakeport.server.catalog.model import CatalogContent
from tests.acceptance.real_tables import BY_NAME, SHAREABLE, Entry, path_of, shared_name, table_of
from tests.interop.written_tables import with_everything
from tests.properties import FEED, MAPPED, VECTORS
from tests.server.running import sharing

OWN = {"plain": FEED, "advanced": FEED | VECTORS | MAPPED}
"""Two tables with the same rows: one for either format."""
_ONLY_IN_THE_LOG = {"v2Checkpoint", "vacuumProtocolCheck"}


def content(folder: Path) -> CatalogContent:
    """A catalog with all tables; those of our own are written into the folder."""
    own = {f"own.default.{name}": str(folder / name) for name in (*OWN, "appended", "everything")}
    for name, properties in OWN.items():
        write_orders(str(folder / name), properties)
    write_appended(str(folder / "appended"))
    with_everything(str(folder / "everything"))
    shared = {shared_name(name): path_of(name) for name in SHAREABLE}
    return sharing({**shared, **own}, history_shared=True)


def orders(start: int, end: int) -> pa.Table:
    numbers = range(start, end)
    days = [f"2026-01-0{1 + number // 5 % 2}" for number in numbers]
    return pa.table({"id": numbers, "day": days, "amount": [number / 4 for number in numbers]})


def write_orders(path: str, properties: Mapping[str, str]) -> None:
    """Five versions: three inserts, a delete, an update."""
    tables.create(path, orders(0, 10), properties=properties, partition_by=["day"])
    tables.append(path, orders(10, 20))
    tables.append(path, orders(20, 30))
    tables.delete(path, "id % 10 = 3")
    tables.update(path, {"amount": "amount + 100"}, "id < 2")


def write_appended(path: str) -> None:
    """Four versions, each with two files, and rows that are only ever inserted."""
    tables.create(path, orders(0, 10), properties=VECTORS | MAPPED, partition_by=["day"])
    for start in (10, 20, 30):
        tables.append(path, orders(start, start + 10))


def times(path: str) -> dict[int, int]:
    """When each version was made, in milliseconds since the epoch."""
    return {commit.version: commit.timestamp for commit in lakeport.scan(path).history()}


def moment(milliseconds: int) -> str:
    """A time as clients write it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def features_of(name: str) -> set[str]:
    """The reader features of the latest version that concern a recipient."""
    entry: Entry = BY_NAME[name]
    features = set(entry["protocol"].get("readerFeatures") or ()) - _ONLY_IN_THE_LOG
    return features | ({"columnMapping"} if _is_mapped(entry) else set())


def beyond_parquet(name: str) -> set[str]:
    """Those of the features that the data make use of: the parquet format cannot tell of them."""
    entry: Entry = BY_NAME[name]
    unused = set() if _is_mapped(entry) else {"columnMapping"}
    return features_of(name) - unused - (set() if _has_vectors(name) else {"deletionVectors"})


@cache
def _has_vectors(name: str) -> bool:
    files = table_of(name).latest_snapshot().scan_builder().build().files()
    return any(file.deletion_vector for file in files)


def _is_mapped(entry: Entry) -> bool:
    return bool((entry.get("configuration") or {}).get("delta.columnMapping.mode", "none") != "none")


def same_columns(rows: pa.Table, *names: str) -> list[Any]:
    """The rows as tuples of these columns, in order."""
    return sorted(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
