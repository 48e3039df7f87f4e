"""The two formats as a person uses them: with columns chosen, in SQL, and at other versions."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakeport
from lakeport import tables
from tests.client.shares import Shared, profile_text
from tests.server.running import running, sharing, wait_until
from tests.spark.ways import read_lakeport, read_shared

ORDERS = "sales.eu.orders"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("nested") / "t")
    tables.create(path, [{"id": 1, "s": {"a": 1, "b": "x", "in": {"c": 1.5, "d": 2}}}, {"id": 2, "s": None}])
    return path


def first_line(failed: pytest.ExceptionInfo[PySparkException]) -> str:
    return str(failed.value).splitlines()[0]


# Columns


def test_a_schema_chooses_columns_and_fields(spark: SparkSession, nested: str) -> None:
    narrow = spark.read.format("lakeport").schema("s STRUCT<b: STRING, in: STRUCT<d: BIGINT>>").load(nested)
    assert narrow.toArrow().to_pylist() == [{"s": {"b": "x", "in": {"d": 2}}}, {"s": None}]


def test_the_option_columns_chooses_them_too(spark: SparkSession, nested: str, shared: Shared) -> None:
    assert read_lakeport(spark, nested, columns="s.in.d, id").schema.simpleString() == (
        "struct<s:struct<in:struct<d:bigint>>,id:bigint>"
    )
    rows = read_shared(spark, shared.target(ORDERS), columns="city,id").where("id > 2").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [("Oslo", 3), ("Bari", 4)]


def test_a_schema_with_another_type_or_column_is_refused(spark: SparkSession, nested: str) -> None:
    with pytest.raises(PySparkException) as failed:
        spark.read.format("lakeport").schema("id STRING").load(nested).collect()
    assert "the column 'id' is bigint in the table, but string in the given schema" in first_line(failed)
    with pytest.raises(PySparkException) as failed:
        spark.read.format("lakeport").schema("s STRUCT<z: INT>").load(nested).collect()
    assert "unknown column 's.z'" in first_line(failed)
    with pytest.raises(PySparkException) as failed:
        read_lakeport(spark, nested, columns="nope")
    assert "unknown column 'nope'" in first_line(failed)


# SQL


def test_both_formats_can_be_views_of_sql(spark: SparkSession, shared: Shared) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW theirs USING deltaSharing OPTIONS (path '{shared.target(ORDERS)}')")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW mine (id BIGINT, city STRING) USING lakeport "
        f"OPTIONS (path '{shared.folder / 'orders'}', versionAsOf '0')"
    )
    rows = spark.sql("SELECT t.city, sum(t.amount) FROM theirs t JOIN mine USING (id) GROUP BY 1 ORDER BY 1").collect()
    assert [tuple(row) for row in rows] == [("Cork", 80), ("Oslo", 160)]


# Versions and changes


def test_a_version_may_be_given_by_its_number_or_by_a_time(spark: SparkSession, shared: Shared) -> None:
    frames = {
        3: [
            read_shared(spark, shared.target(ORDERS), versionAsOf=0),
            read_lakeport(spark, str(shared.folder / "orders"), versionAsOf=0),
        ],
        4: [
            read_shared(spark, shared.target(ORDERS), timestampAsOf=latest_time(shared)),
            read_lakeport(spark, str(shared.folder / "orders"), timestampAsOf=latest_time(shared)),
        ],
    }
    for count, found in frames.items():
        assert [frame.count() for frame in found] == [count, count]


def latest_time(shared: Shared) -> str:
    """The time of the latest commit."""
    milliseconds = lakeport.scan(str(shared.folder / "orders")).history(1)[0].timestamp
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def test_the_changes_of_a_range_come_with_their_commits(spark: SparkSession, shared: Shared) -> None:
    options = {"readChangeFeed": True, "startingVersion": 1}
    for frame in (
        read_shared(spark, shared.target(ORDERS), **options),
        read_lakeport(spark, str(shared.folder / "orders"), **options),
    ):
        rows = frame.select("id", "_change_type", "_commit_version").collect()
        assert [tuple(row) for row in rows] == [(4, "insert", 1)]


def test_a_server_may_answer_in_the_parquet_format(spark: SparkSession, shared: Shared) -> None:
    assert read_shared(spark, shared.target(ORDERS), responseFormat="parquet").count() == 4


# URLs that expire


def test_tasks_that_start_late_renew_their_urls(spark: SparkSession, tmp_path: Path) -> None:
    path, profile = str(tmp_path / "t"), tmp_path / "config.share"
    tables.create(path, {"id": [0, 1]})
    for number in range(1, 6):
        tables.append(path, {"id": [number * 2, number * 2 + 1]})
    log = tmp_path / "audit.jsonl"
    with running(sharing({"a.b.t": path}), pre_signed_url_timeout_seconds=2, audit_log=str(log)) as server:
        profile.write_text(profile_text(server.endpoint))
        frame = lakeport.scan(f"{profile}#a.b.t").to_spark(spark)
        time.sleep(3)
        tables.append(path, {"id": [99]})
        assert sorted(row.id for row in frame.collect()) == list(range(12))
        wait_until(lambda: log.read_text().count("queryTable") >= 2)
        table = read_shared(spark, f"{profile}#a.b.t")
        assert table.count() == 13
        time.sleep(3)
        assert table.count() == 13  # Spark keeps the plan, and with it the URLs
