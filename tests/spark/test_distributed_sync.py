"""Copies of shared tables whose files are fetched by the tasks of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakeport import tables
from lakeport.errors import MissingFileError
from tests.client.syncing import providing
from tests.properties import FEED, VECTORS
from tests.rows import texts_of
from tests.spark.distributed import changes_of, rows_from, table_in
from tests.tables.maintained import data_files


def test_a_copy_is_the_same_with_spark(tmp_path: Path, spark: SparkSession) -> None:
    shared = table_in(tmp_path / "provider", VECTORS, FEED)
    with providing(Path(shared).parent, Path(shared).name) as provider:
        table = Path(shared).name
        local, distributed = tmp_path / "local", tmp_path / "distributed"
        first = provider.sync(table, local)
        assert provider.sync(table, distributed, spark=spark, verify=True).fetched_files == first.fetched_files
        tables.update(shared, {"v": "'x'"}, "id < 9")
        tables.append(shared, rows_from(100, 5, "new"))
        expected, found = provider.sync(table, local), provider.sync(table, distributed, spark=spark)
    assert found == expected
    assert found.commits == 2
    assert texts_of(distributed) == texts_of(local) == texts_of(shared)
    assert changes_of(str(distributed), found.version - 1) == changes_of(str(local), found.version - 1)
    assert len(data_files(str(distributed))) == len(data_files(str(local)))


def test_what_came_before_a_failure_is_not_fetched_again(tmp_path: Path, spark: SparkSession) -> None:
    shared = table_in(tmp_path / "provider")
    table = Path(shared).name
    lost = max(Path(shared).rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)  # no other took its place
    kept = lost.read_bytes()
    with providing(Path(shared).parent, table) as provider:
        lost.unlink()
        with pytest.raises(MissingFileError):
            provider.sync(table, tmp_path / "copy", spark=spark)
        there = data_files(str(tmp_path / "copy"))
        lost.write_bytes(kept)
        result = provider.sync(table, tmp_path / "copy", spark=spark)
    assert there
    assert result.fetched_files == result.added_files - len(there)
    assert texts_of(tmp_path / "copy") == texts_of(shared)
