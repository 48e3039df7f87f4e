"""Spark and files that are edited column by column: it reads them, its own files can be edited, and its tasks edit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from tests.engine.column_editing.edits import edit, read_by_all, same, with_new_values
from tests.engine.column_editing.writers import WRITERS, rows
from tests.tables.kept import kept_columns

NAMES = ["n", "text", "price", "day", "items"]
FILTERS = [
    "id = 1234",
    "n = 17 AND id > 900",
    "text = 'text 77 ü'",
    "n IS NULL",
    "day < DATE '2020-02-01'",
    "price > 700",
]
NOT_READ = {"pyarrow, split bytes", "duckdb, version 2"}
"""Spark does not know their encodings of floats, edited or not."""
OPTIONS = {
    "defaults": {},
    "bloom filters": {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.enabled#text": "true"},
    "version 2": {"parquet.writer.version": "v2", "compression": "zstd"},
    "small pages": {"parquet.page.size": "1024", "parquet.page.row.count.limit": "100", "parquet.block.size": "40000"},
}


def check(spark: SparkSession, edited: Path, wanted: pa.Table) -> None:
    """Spark finds the rows, also by filters, for which it uses page indexes, dictionaries and bloom filters."""
    read = spark.read.schema(spark.createDataFrame(rows().slice(0, 1)).schema).parquet(str(edited))
    assert same(read.orderBy("id").toArrow(), wanted)
    wanted_rows = spark.createDataFrame(wanted.select(["id", "n", "text", "day", "price"]))
    for condition in FILTERS:
        found = [row.id for row in read.where(condition).select("id").orderBy("id").collect()]
        assert found == [row.id for row in wanted_rows.where(condition).select("id").orderBy("id").collect()], condition
        assert found


@pytest.mark.parametrize("writer", [writer for writer in WRITERS if writer not in NOT_READ])
def test_spark_reads_edited_files(tmp_path: Path, spark: SparkSession, writer: str) -> None:
    path = tmp_path / "file.parquet"
    WRITERS[writer](path)
    wanted = with_new_values(path, NAMES, {0, 1})
    edited = edit(path, NAMES, wanted, {0, 1})
    assert edited is not None
    check(spark, edited, wanted)


@pytest.mark.parametrize("options", OPTIONS)
def test_files_of_spark_are_edited(tmp_path: Path, spark: SparkSession, options: str) -> None:
    frame = spark.createDataFrame(rows()).orderBy("id").coalesce(1)
    frame.write.options(**OPTIONS[options]).parquet(str(tmp_path / "written"))
    (path,) = (tmp_path / "written").glob("*.parquet")
    wanted = with_new_values(path, [*NAMES, "moment"], {0, 1})
    edited = edit(path, [*NAMES, "moment"], wanted, {0, 1})
    assert edited is not None
    for reader, found in read_by_all(edited):
        assert same(found, wanted), reader
    check(spark, edited, wanted)


def test_tasks_of_spark_edit_files(tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "table")
    numbers = np.random.default_rng(0).integers(0, 1 << 60, 200_000)
    tables.create(path, pa.table({"id": range(200_000), "v": numbers, "w": numbers % 1000}))
    result = tables.update(path, {"w": "w + 1000"}, "id % 100 = 7", spark=spark)
    assert result.metrics["numUpdatedRows"] == 2000
    assert result.metrics["numCopiedRows"] == 198_000
    assert kept_columns(path) == [2]
    assert lakeport.scan(path).where("w >= 1000").count() == 2000
