"""`df.writeStream.format("lakeport")`: each batch of a query is in the table once, however often Spark runs it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakeport
from lakeport import tables
from lakeport.spark.write import stream_writer
from tests.rows import ids
from tests.spark.write.written import data_files, rows

_START = 1_700_000_000


class Feed:
    """Files of numbers that a stream reads, a table that it writes, and its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.path, self.checkpoint = str(folder / "table"), folder / "checkpoint"
        (folder / "input").mkdir()

    def add(self, *numbers: int) -> None:
        count = len(list((self._folder / "input").iterdir()))
        file = self._folder / "input" / f"{count:05}.json"
        file.write_text("".join(json.dumps({"id": number}) + "\n" for number in numbers))
        os.utime(file, (_START + count, _START + count))  # Spark reads files in the order of their times

    @property
    def frame(self) -> DataFrame:
        return self._spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{self._folder}/input")

    def run(self, frame: DataFrame | None = None, mode: str = "append", **options: str) -> StreamingQuery:
        """Writes all that there is, and waits for it."""
        stream = (frame or self.frame).writeStream.format("lakeport").outputMode(mode)
        stream = stream.option("checkpointLocation", str(self.checkpoint)).options(**options)
        query = stream.trigger(availableNow=True).start(self.path)
        query.awaitTermination()
        return query

    def forget_last_commit(self) -> None:
        """As if the driver had been killed after the commit to the table, and before Spark wrote down that it was."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def application_version(path: str, app_id: str) -> int | None:
    return lakeport.scan(path).snapshot.transaction_version(app_id)


def test_each_batch_is_a_commit_that_holds_the_id_of_the_query(feed: Feed) -> None:
    feed.add(1, 2)
    feed.add(3)
    query = feed.run()
    assert ids(feed.path) == [1, 2, 3]
    assert lakeport.scan(feed.path).snapshot.version == 1
    assert application_version(feed.path, str(query.id)) == 1


def test_a_query_that_is_started_again_goes_on_where_it_was(feed: Feed) -> None:
    feed.add(1)
    first = feed.run()
    feed.add(2)
    second = feed.run()
    assert first.id == second.id
    assert ids(feed.path) == [1, 2]


def test_a_batch_that_runs_again_is_not_written_twice_and_leaves_no_file(feed: Feed) -> None:
    feed.add(1)
    feed.add(2)
    feed.run()
    files, version = data_files(feed.path), lakeport.scan(feed.path).snapshot.version
    feed.forget_last_commit()
    feed.run()
    assert ids(feed.path) == [1, 2]
    assert data_files(feed.path) == files
    assert lakeport.scan(feed.path).snapshot.version == version
    feed.add(3)
    feed.run()
    assert ids(feed.path) == [1, 2, 3]


def test_two_queries_write_one_table(feed: Feed, tmp_path: Path) -> None:
    feed.add(1)
    feed.run()
    feed.checkpoint = tmp_path / "other checkpoint"
    feed.run()
    assert ids(feed.path) == [1, 1]


def test_an_application_can_be_named_so_that_it_outlives_the_checkpoint(feed: Feed) -> None:
    feed.add(1)
    feed.run(txnAppId="orders")
    shutil.rmtree(feed.checkpoint)
    feed.run(txnAppId="orders")
    assert ids(feed.path) == [1]
    assert application_version(feed.path, "orders") == 0


def test_a_query_whose_checkpoint_is_not_an_option_is_known_too(spark: SparkSession, feed: Feed) -> None:
    feed.add(1)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(feed.checkpoint))
    try:
        query = (
            feed.frame.writeStream.format("lakeport").trigger(availableNow=True).queryName("numbers").start(feed.path)
        )
        query.awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert application_version(feed.path, str(query.id)) == 0


def test_complete_mode_replaces_the_table_with_each_batch(feed: Feed) -> None:
    feed.add(1, 2)
    feed.add(3)
    feed.run(feed.frame.groupBy().count().withColumnRenamed("count", "id"), "complete")
    assert rows(feed.path) == [{"id": 3}]
    assert lakeport.scan(feed.path).at(version=0).to_arrow().to_pylist() == [{"id": 2}]
    feed.forget_last_commit()
    feed.run(feed.frame.groupBy().count().withColumnRenamed("count", "id"), "complete")
    assert rows(feed.path) == [{"id": 3}]
    assert lakeport.scan(feed.path).snapshot.version == 1


def test_update_mode_is_refused(feed: Feed) -> None:
    feed.add(1)
    with pytest.raises(Exception, match="does not support Update mode"):
        feed.run(feed.frame.groupBy("id").count(), "update")


def test_a_batch_without_rows_makes_no_version(feed: Feed) -> None:
    feed.add(1)
    feed.add(2)
    feed.run(feed.frame.where("id > 1"))
    assert [len(lakeport.scan(feed.path).at(version=n).files()) for n in (0, 1)] == [0, 1]
    feed.add(0)
    feed.run(feed.frame.where("id > 1"))
    assert lakeport.scan(feed.path).snapshot.version == 1


def test_columns_that_do_not_fit_stop_the_query_in_the_first_line_and_merge_schema_adds_them(feed: Feed) -> None:
    tables.create(feed.path, schema="id long")
    feed.add(1)
    wider = feed.frame.selectExpr("id", "id * 2 AS twice")
    with pytest.raises(Exception, match="the table has no column 'twice'") as refused:
        feed.run(wider)
    assert "the table has no column 'twice'" in str(refused.value).splitlines()[0]
    feed.run(wider, mergeSchema="true")
    assert rows(feed.path) == [{"id": 1, "twice": 2}]


def test_a_new_table_is_partitioned_by_an_option_in_every_batch(feed: Feed) -> None:
    feed.add(1)
    feed.add(2)
    feed.run(feed.frame.selectExpr("id", "id % 2 AS odd"), partitionBy="odd", **{"delta.appendOnly": "true"})
    assert lakeport.scan(feed.path).snapshot.partition_columns == ("odd",)
    assert lakeport.scan(feed.path).snapshot.properties == {"delta.appendOnly": "true"}
    assert ids(feed.path) == [1, 2]


def test_options_that_make_no_sense_are_told_in_the_first_line(feed: Feed) -> None:
    feed.add(1)
    with pytest.raises(Exception, match="leave out txnVersion: a stream uses") as refused:
        feed.run(txnAppId="orders", txnVersion="1")
    assert "leave out txnVersion: a stream uses" in str(refused.value).splitlines()[0]


def test_an_aborted_batch_leaves_no_file_that_messages_name(spark: SparkSession, feed: Feed) -> None:
    options = {"path": feed.path, "txnAppId": "orders"}
    writer, other = (stream_writer(options, spark.range(1).schema, False) for _ in range(2))
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    other.abort([message, None], 0)
    assert data_files(feed.path) == set()


def test_a_writer_outside_of_a_query_needs_a_name_of_the_application(spark: SparkSession, feed: Feed) -> None:
    writer = stream_writer({"path": feed.path}, spark.range(1).schema, False)
    with pytest.raises(ValueError, match="set the option txnAppId"):
        writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
