"""A lazy frame in Spark: its columns, its filter, its limit and its version go with it, and tasks read it in Python."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from lakeport.spark import explain, frames, load
from lakeport.spark.frames import to_python_frame
from tests.client.shares import sharing_tables
from tests.spark.ways import rows_by_way


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("frames") / "orders")
    feed = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
    tables.create(path, pa.table({"id": range(20), "s": [{"a": i, "b": str(i)} for i in range(20)]}), properties=feed)
    tables.append(path, pa.table({"id": range(20, 30), "s": [{"a": i, "b": str(i)} for i in range(20, 30)]}))
    tables.delete(path, "id % 5 = 0")
    return path


def test_what_was_asked_of_the_frame_is_what_spark_gets(spark: SparkSession, orders: str) -> None:
    frame = lakeport.scan(orders)
    narrowed = {
        "filtered": frame.where("id > 24").select("id"),
        "by another column": frame.where("s.b = '7'").select("id"),
        "at a version": frame.at(version=0).where("id >= 18").select("id"),
        "nothing": frame.where("id > 1000").select("id"),
    }
    expected = {"filtered": [26, 27, 28, 29], "by another column": [7], "at a version": [18, 19], "nothing": []}
    for way in (to_python_frame, frames.to_spark):
        found = rows_by_way({name: way(one, spark) for name, one in narrowed.items()})
        assert {name: sorted(rows.column("id").to_pylist()) for name, rows in found.items()} == expected


def test_fields_of_structs_rows_of_changes_and_ids_of_rows_are_taken_along(spark: SparkSession, orders: str) -> None:
    frame = lakeport.scan(orders)
    fields = to_python_frame(frame.select("s.b").where("id = 29"), spark)
    assert fields.toArrow().to_pylist() == [{"s": {"b": "29"}}]
    changes = frame.changes(2).select("id", "_change_type").to_spark(spark)
    assert sorted(map(tuple, changes.collect())) == [(i, "delete") for i in range(0, 30, 5)]
    tracked = frame.with_row_tracking().where("id = 21").select("id").to_spark(spark)
    assert (
        tracked.toArrow().to_pylist() == frame.with_row_tracking().where("id = 21").select("id").to_arrow().to_pylist()
    )


def test_a_limit_is_one_of_all_tasks(spark: SparkSession, orders: str) -> None:
    assert lakeport.scan(orders).limit(7).to_spark(spark).count() == 7
    assert lakeport.scan(orders).where("id < 3").limit(7).to_spark(spark).count() == 2
    assert lakeport.scan(orders).limit(0).to_spark(spark).count() == 0


def test_a_frame_stays_at_its_version(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, {"id": [1, 2]})
    rows = lakeport.scan(path).to_spark(spark)
    tables.append(path, {"id": [3]})
    assert rows.count() == 2
    assert load(spark, path).count() == 3
    assert load(spark, path, versionAsOf=0).count() == 2


def test_many_tasks_are_shipped_in_parts(spark: SparkSession, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_SHIPPED", 1)
    rows = to_python_frame(lakeport.scan(orders), spark)
    assert sorted(row.id for row in rows.select("id").collect()) == [i for i in range(30) if i % 5]


def test_a_shared_table_is_loaded_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    with sharing_tables(tmp_path) as shared:
        target = shared.target("sales.eu.orders")
        assert load(spark, target, versionAsOf=0).count() == 3
        python = to_python_frame(lakeport.scan(target).where("city = 'Oslo'"), spark)
        assert sorted(row.id for row in python.collect()) == [1, 3]
        assert "reader" in explain(target, spark)
        with pytest.raises(ValueError, match="unknown option 'versionsAsOf'"):
            load(spark, target, versionsAsOf=0)
