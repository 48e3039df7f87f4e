"""Processes that append to one table on an S3-compatible server at the same time; and a server that goes away."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.engine.storage.storage import Storage
from lakeport.errors import StorageError
from tests.interop.buckets import options
from tests.interop.servers import Bucket, s3_bucket
from tests.soak import writers


def test_eight_processes_append_to_s3_without_losing_or_doubling_a_row(s3: Bucket) -> None:
    report = writers.run(f"{s3.url}/{uuid4().hex}", options(s3), writers=8, commits=5)
    assert report.versions == 40
    assert report.rebased > 0, "the writers never met"


def test_a_connection_that_is_lost_in_an_append_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    with ExitStack() as server:
        bucket = server.enter_context(s3_bucket(tmp_path))
        target = f"{bucket.url}/table"
        tables.create(target, {"id": [1]}, storage_options=options(bucket))

        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"id": range(300_000)})
            server.close()
            yield pa.record_batch({"id": range(300_000)})

        with pytest.raises(StorageError, match="table/part-"):
            tables.append(target, rows(), storage_options=options(bucket))
    with s3_bucket(tmp_path) as bucket:
        assert lakeport.scan(target, storage_options=options(bucket)).to_arrow().to_pylist() == [{"id": 1}]
        files = Storage(options(bucket)).list_all(target)
        assert len([file for file in files if file.path.endswith(".parquet")]) == 1
        assert tables.append(target, {"id": [2]}, storage_options=options(bucket)).version == 1
