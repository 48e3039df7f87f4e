"""Delta's library for Spark and ours in one session: each reads what the other writes: rows, changes, streams."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import missing
from tests.interop.servers import PEERS

JARS = PEERS / "jars"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if not JARS.is_dir():
        missing("the jars of Delta are not in .peers: run scripts/peers.sh")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a history: written, deleted from, updated, merged into and optimized by Delta."""
    path = tmp_path_factory.mktemp("delta") / "orders"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, city STRING, amount DECIMAL(9, 2), at TIMESTAMP, tags ARRAY<STRING>) "
        "USING delta PARTITIONED BY (city) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(
        f"INSERT INTO delta.`{path}` SELECT id, concat('city ', id % 3), id / 4, "
        "timestamp'2026-01-01 00:00:00' + make_dt_interval(id), array(cast(id AS STRING), null) FROM range(300)"
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 0")
    spark.sql(f"UPDATE delta.`{path}` SET amount = amount + 1 WHERE id % 11 = 0")
    spark.sql(
        f"MERGE INTO delta.`{path}` AS t USING (SELECT id + 290 AS id FROM range(20)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, city) VALUES (s.id, null)"
    )
    spark.sql(f"OPTIMIZE delta.`{path}`")
    return path


def rows(frame: DataFrame) -> list[object]:
    found: pa.Table = frame.toArrow()
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("version", range(6))
def test_a_version_that_delta_wrote_is_the_same_in_both(spark: SparkSession, table: Path, version: int) -> None:
    ours, theirs = (
        spark.read.format(name).option("versionAsOf", version).load(str(table)) for name in ("lakeport", "delta")
    )
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)


def test_changes_that_delta_wrote_are_the_same_in_both(spark: SparkSession, table: Path) -> None:
    ours, theirs = (
        spark.read.format(name).option("readChangeFeed", "true").option("startingVersion", 0).load(str(table))
        for name in ("lakeport", "delta")
    )
    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize("options", [{"skipChangeCommits": "true"}, {"readChangeFeed": "true", "startingVersion": "0"}])
def test_a_stream_of_what_delta_wrote_is_the_same_in_both(
    spark: SparkSession, table: Path, tmp_path: Path, options: dict[str, str]
) -> None:
    found = []
    for source in ("lakeport", "delta"):
        stream = spark.readStream.format(source).options(**options).load(str(table))
        sink = tmp_path / source
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / f"{source} checkpoint"))
            .trigger(availableNow=True)
            .start(str(sink))
        )
        query.awaitTermination()
        found.append(rows(spark.read.schema(stream.schema).parquet(str(sink))))
    assert found[0] == found[1]
    assert found[0]


def test_delta_reads_what_is_written_in_batches(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    original = spark.read.format("delta").load(str(table))
    original.write.format("lakeport").mode("append").option("partitionBy", "city").save(copy)
    original.where("id < 10").write.format("lakeport").mode("append").save(copy)
    original.where("city = 'city 1'").write.format("lakeport").mode("overwrite").option(
        "replaceWhere", "city = 'city 1'"
    ).save(copy)
    read = [spark.read.format(name).load(copy) for name in ("delta", "lakeport")]
    expected = original.union(original.where("id < 10 AND (city <> 'city 1' OR city IS NULL)"))
    assert rows(read[0]) == rows(read[1]) == rows(expected)


def test_delta_reads_what_a_stream_writes(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    stream = spark.readStream.format("delta").option("skipChangeCommits", "true").load(str(table))
    for _ in range(2):  # the second run finds nothing new
        query = (
            stream.writeStream.format("lakeport")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(copy)
        )
        query.awaitTermination()
    assert rows(spark.read.format("delta").load(copy)) == rows(spark.read.format("delta").load(str(table)))
