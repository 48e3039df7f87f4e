"""Streams in Spark: the same source as in `test_stream`, with Spark's checkpoints and tasks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakeport import tables
from tests.properties import FEED
from tests.spark.streaming import Followed, following


@pytest.fixture(params=["lakeport", "deltaSharing"])
def events(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Followed]:
    with following(request.param, tmp_path) as (found, _):
        tables.create(found.path, {"id": [0, 1], "amount": [1.5, None]}, properties=FEED)
        tables.append(found.path, {"id": [2], "amount": [2.5]})
        yield found


def stream(spark: SparkSession, table: Followed, **options: Any) -> DataFrame:
    name = "deltaSharing" if table.sharing else "lakeport"
    return spark.readStream.format(name).options(**options).load(table.target)


def run(rows: DataFrame, folder: Path) -> StreamingQuery:
    """What there is now, into Parquet files."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "rows"))
    assert query.awaitTermination(120)
    return query


def rows_in(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.read.parquet(str(folder / "rows")).collect()), key=str)


def test_a_query_has_what_there_is_and_later_what_was_added(
    spark: SparkSession, events: Followed, tmp_path: Path
) -> None:
    run(stream(spark, events, maxFilesPerTrigger=1), tmp_path)
    first = [(0, 1.5), (1, None), (2, 2.5)]
    assert rows_in(spark, tmp_path) == first
    tables.append(events.path, {"id": [3], "amount": [3.5]})
    tables.optimize(events.path)
    tables.append(events.path, {"id": [4], "amount": [4.5]})
    query = run(stream(spark, events), tmp_path)
    assert rows_in(spark, tmp_path) == [*first, (3, 3.5), (4, 4.5)]
    assert query.lastProgress is not None
    offset = query.lastProgress.sources[0].endOffset
    assert '"tableVersion":5' in str(offset).replace(" ", "")


def test_batches_are_as_small_as_was_asked_for(spark: SparkSession, events: Followed, tmp_path: Path) -> None:
    for number in range(3, 6):
        tables.append(events.path, {"id": [number], "amount": [0.5]})
    query = run(stream(spark, events, startingVersion=0, maxFilesPerTrigger=2), tmp_path)
    assert [progress.numInputRows for progress in query.recentProgress] == [3, 2, 1]


def test_a_query_that_finds_an_update_fails_with_one_clear_line(
    spark: SparkSession, events: Followed, tmp_path: Path
) -> None:
    tables.update(events.path, {"amount": "9"}, "id = 1")
    with pytest.raises(StreamingQueryException) as error:
        run(stream(spark, events, startingVersion=0), tmp_path)
    first = str(error.value).strip().splitlines()[0]
    assert "version 2 updates or deletes rows" in first
    assert "Traceback" not in str(error.value)


def test_a_query_reads_changes(spark: SparkSession, events: Followed, tmp_path: Path) -> None:
    tables.update(events.path, {"amount": "9"}, "id = 1")
    tables.delete(events.path, "id = 0")
    changes = stream(spark, events, readChangeFeed=True, startingVersion=1)
    run(changes.select("id", "amount", "_change_type", "_commit_version"), tmp_path)
    assert rows_in(spark, tmp_path) == [
        (0, 1.5, "delete", 3),
        (1, 9.0, "update_postimage", 2),
        (1, None, "update_preimage", 2),
        (2, 2.5, "insert", 1),
    ]


def test_a_query_runs_on_and_stops_when_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    tables.create(path, {"id": [0]})
    writer = spark.readStream.format("lakeport").load(path).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(processingTime="0 seconds").start(str(tmp_path / "rows"))
    try:
        for number in range(1, 4):
            tables.append(path, {"id": [number]})
            query.processAllAvailable()
            assert rows_in(spark, tmp_path) == [(n,) for n in range(number + 1)]
    finally:
        query.stop()
    assert query.exception() is None


def test_bad_options_of_a_stream_are_one_clear_line(spark: SparkSession, events: Followed, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a stream has no end") as error:
        run(stream(spark, events, readChangeFeed=True, startingVersion=0, endingVersion=1), tmp_path)
    assert "Traceback" not in str(error.value)
