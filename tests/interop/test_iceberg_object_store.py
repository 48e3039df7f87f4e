"""Mirrors in an object store: exclusive creation decides between converters there too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import default_engine, engine_over
from tests.iceberg.head_storage import HeadStorage
from tests.iceberg.readers import canonical
from tests.interop.buckets import options
from tests.interop.servers import Bucket


def open_mirror(conversion: iceberg.Conversion, bucket: Bucket) -> StaticTable:
    given: dict[str, Any] = options(bucket)
    properties = {
        "s3.endpoint": given["endpoint"],
        "s3.region": given["region"],
        "s3.access-key-id": given["access_key_id"],
        "s3.secret-access-key": given["secret_access_key"],
    }
    return StaticTable.from_metadata(conversion.metadata_location, properties)


@pytest.mark.parametrize("version", [2, 3])
def test_a_mirror_in_an_object_store_follows_its_table(s3: Bucket, version: int) -> None:
    path, access = f"{s3.url}/a b/table{version}", options(s3)
    rows = pa.table({"id": range(100), "g": [f"x {i % 3}:é" for i in range(100)]})
    properties = {"delta.enableDeletionVectors": "true"}
    tables.create(path, rows, partition_by=["g"], properties=properties, storage_options=access)
    iceberg.convert(path, format_version=version, storage_options=access)
    tables.delete(path, "id % 7 = 0", storage_options=access)
    tables.append(path, rows, storage_options=access)

    def run(_: int) -> iceberg.Conversion:
        return iceberg.convert(path, storage_options=access)

    with ThreadPoolExecutor(3) as pool:
        conversion, *_ = pool.map(run, range(3))
    assert conversion.metadata_location == f"{path}/_iceberg/metadata/v2.metadata.json"
    mirror = open_mirror(conversion, s3)
    for snapshot in mirror.metadata.snapshots:
        assert snapshot.summary is not None
        shown = int(snapshot.summary["lakeport.delta.version"] or -1)
        expected = lakeport.scan(path, storage_options=access).at(version=shown).to_arrow()
        assert canonical(mirror.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == canonical(expected)
    assert len(mirror.metadata.snapshots) == 3


def test_an_increment_reads_the_new_commit_and_no_checkpoint(s3: Bucket) -> None:
    path, access = f"{s3.url}/increments", options(s3)
    tables.create(path, pa.table({"id": range(100)}), storage_options=access)
    for round_number in range(3):
        tables.checkpoint(path, storage_options=access)
        storage = HeadStorage(default_engine(access).storage)
        conversion = iceberg.convert(path, engine=engine_over(storage))
        assert conversion.version == round_number
        log = [name for name in storage.opened if name[:20].isdigit() and not name.endswith(".crc")]
        assert round_number == 0 or log == [f"{round_number:020d}.json"]
        tables.append(path, pa.table({"id": [round_number]}), storage_options=access)
