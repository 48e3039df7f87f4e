"""Mirrors whose delete files are written by the tasks of Spark: they are the same as those of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakeport import iceberg, tables
from lakeport.errors import MissingFileError
from lakeport.iceberg import Conversion
from tests.iceberg.readers import PyIceberg, assert_mirrors, snapshots_of
from tests.properties import VECTORS
from tests.spark.distributed import rows_from, table_in

FORMATS = pytest.mark.parametrize("version", [2, 3])


def convert_both(table: str, spark: SparkSession, **options: Any) -> tuple[Conversion, Conversion]:
    """By threads, and by Spark."""
    folder = Path(table).parent
    return (
        iceberg.convert(table, out=str(folder / "local"), **options),
        iceberg.convert(table, out=str(folder / "distributed"), spark=spark, **options),
    )


def jobs(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def delete_files(conversion: Conversion) -> list[bytes]:
    return sorted(path.read_bytes() for path in (Path(conversion.location) / "deletes").iterdir())


def assert_same(found: Conversion, expected: Conversion) -> None:
    assert (found.kind, found.versions, found.format_version) == (
        expected.kind,
        expected.versions,
        expected.format_version,
    )
    assert [s["summary"] for s in snapshots_of(found).values()] == [
        s["summary"] for s in snapshots_of(expected).values()
    ]
    assert delete_files(found) == delete_files(expected)


@FORMATS
def test_a_mirror_is_the_same_with_spark(tmp_path: Path, spark: SparkSession, version: int) -> None:
    table = table_in(tmp_path, VECTORS)
    before = jobs(spark)
    expected, found = convert_both(table, spark, format_version=version)
    assert jobs(spark) > before
    assert_same(found, expected)
    tables.delete(table, "id % 3 = 1")
    tables.append(table, rows_from(100, 5, "new"))
    tables.update(table, {"v": "'x'"}, "id > 40")
    tables.optimize(table, purge=True)
    tables.restore(table, version=7)
    expected, found = convert_both(table, spark)
    assert len(found.versions) == 5
    assert_same(found, expected)
    assert_mirrors(PyIceberg(), table, found)
    assert iceberg.verify(table, out=found.location, rows=True).is_equal


@FORMATS
def test_a_task_that_fails_leaves_the_mirror_as_it_was(tmp_path: Path, spark: SparkSession, version: int) -> None:
    table = table_in(tmp_path, VECTORS)
    first = iceberg.convert(table, format_version=version, spark=spark)
    kept = delete_files(first)
    tables.delete(table, "id % 3 = 1")
    [lost] = (
        path for path in Path(table).glob("deletion_vector*.bin") if path.stat().st_mtime_ns > latest_delete(first)
    )
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(MissingFileError, match=lost.name):
        iceberg.convert(table, spark=spark)
    assert delete_files(first) == kept
    lost.write_bytes(content)
    conversion = iceberg.convert(table, spark=spark)
    assert conversion.kind == "incremental"
    assert_mirrors(PyIceberg(), table, conversion)


def latest_delete(conversion: Conversion) -> int:
    return max(path.stat().st_mtime_ns for path in (Path(conversion.location) / "deletes").iterdir())
