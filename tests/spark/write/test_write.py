"""`df.write.format("lakeport")`: what is in the table afterwards, and what is not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.errors import CommitConflictError
from lakeport.spark.write import batch_writer
from tests.rows import ids
from tests.spark.write.written import Rows, data_files, rows


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def save(frame: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    frame.write.format("lakeport").mode(mode).options(**options).save(path)


def commit(path: str, version: int) -> Rows:
    text = Path(path, "_delta_log", f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def info(path: str, version: int) -> dict[str, Any]:
    return next(line["commitInfo"] for line in commit(path, version) if "commitInfo" in line)


def first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]


def partitioned(spark: SparkSession, *pairs: tuple[int, str | None]) -> DataFrame:
    return spark.createDataFrame(pairs, "id long, part string")


def test_a_table_that_is_not_there_is_created_and_then_appended_to(spark: SparkSession, path: str) -> None:
    save(spark.range(0, 10, 1, 3), path)
    save(spark.range(10, 12), path)
    assert ids(path) == list(range(12))
    assert [entry.operation for entry in tables.history(path)] == ["WRITE", "CREATE TABLE AS SELECT"]
    assert info(path, 1)["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert info(path, 1)["operationMetrics"]["numOutputRows"] == "2"
    assert info(path, 1)["isBlindAppend"] is True


def test_a_new_table_has_the_partitions_and_properties_of_its_options(spark: SparkSession, path: str) -> None:
    frame = partitioned(spark, (1, "a"), (2, "b"), (3, None))
    options = {"partitionBy": "PART", "delta.enableDeletionVectors": "true", "delta.constraints.positive": "id > 0"}
    save(frame, path, **options)
    snapshot = lakeport.scan(path).snapshot
    assert snapshot.partition_columns == ("part",)
    assert snapshot.properties == {"delta.enableDeletionVectors": "true", "delta.constraints.positive": "id > 0"}
    assert sorted(str(file.parent.name) for file in Path(path).rglob("*.parquet")) == [
        "part=__HIVE_DEFAULT_PARTITION__",
        "part=a",
        "part=b",
    ]
    save(frame, path, **options)
    assert len(rows(path)) == 6


def test_an_overwrite_replaces_all_rows_in_one_commit(spark: SparkSession, path: str) -> None:
    save(spark.range(10), path)
    save(spark.range(100, 103), path, "overwrite")
    assert ids(path) == [100, 101, 102]
    assert lakeport.scan(path).at(version=0).to_arrow().num_rows == 10
    assert info(path, 1)["operationParameters"]["mode"] == "Overwrite"


def test_an_overwrite_of_a_table_that_is_not_there_creates_it(spark: SparkSession, path: str) -> None:
    save(spark.range(3), path, "overwrite")
    assert ids(path) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_spark_itself_refuses_modes_that_python_data_sources_do_not_have(
    spark: SparkSession, path: str, mode: str
) -> None:
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        save(spark.range(1), path, mode)


KINDS = {
    "plain": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "feed": {"delta.enableChangeDataFeed": "true"},
    "vectors and feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
    "tracking": {"delta.enableRowTracking": "true"},
}


@pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())
def test_replace_where_replaces_the_rows_that_it_holds_for(
    spark: SparkSession, path: str, properties: dict[str, str]
) -> None:
    save(spark.range(0, 10, 1, 1), path, **properties)
    save(spark.createDataFrame([(7,), (70,)], "id long"), path, "overwrite", replaceWhere="id >= 5")
    assert ids(path) == [0, 1, 2, 3, 4, 7, 70]
    assert info(path, 1)["operationParameters"]["predicate"] == '["id >= 5"]'
    if "delta.enableChangeDataFeed" in properties:
        changes = lakeport.scan(path).changes(1, 1).to_arrow().to_pylist()
        found = sorted((change["_change_type"], change["id"]) for change in changes)
        assert found == [("delete", n) for n in range(5, 10)] + [("insert", 7), ("insert", 70)]


def test_replace_where_of_whole_partitions_writes_no_change_files(spark: SparkSession, path: str) -> None:
    save(partitioned(spark, (1, "a"), (2, "b")), path, partitionBy="part", **KINDS["feed"])
    save(partitioned(spark, (3, "a")), path, "overwrite", replaceWhere="part = 'a'")
    assert ids(path) == [2, 3]
    assert not Path(path, "_change_data").exists()


def test_replace_where_refuses_a_row_that_it_does_not_hold_for_and_leaves_no_file(
    spark: SparkSession, path: str
) -> None:
    save(spark.range(10), path)
    before = data_files(path)
    with pytest.raises(Exception, match="violates the constraint 'where'"):
        save(spark.range(4, 6, numPartitions=1), path, "overwrite", replaceWhere="id >= 5")
    assert ids(path) == list(range(10))
    assert data_files(path) == before


def test_a_dynamic_overwrite_replaces_the_partitions_that_the_data_has(spark: SparkSession, path: str) -> None:
    save(partitioned(spark, (1, "a"), (2, "b"), (3, None)), path, partitionBy="part")
    save(partitioned(spark, (10, "a"), (30, None)), path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(path) == [{"id": 2, "part": "b"}, {"id": 10, "part": "a"}, {"id": 30, "part": None}]


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_merge_schema_adds_columns_and_other_writes_refuse_them(spark: SparkSession, path: str, mapping: str) -> None:
    save(spark.range(2), path, **{"delta.columnMapping.mode": mapping})
    wider = spark.range(2, 3).selectExpr("id", "named_struct('a', id) AS s")
    with pytest.raises(Exception, match="the table has no column 's'") as refused:
        save(wider, path)
    assert "the table has no column 's'" in first_line(refused.value)
    save(wider, path, mergeSchema="true")
    assert rows(path) == [{"id": 0, "s": None}, {"id": 1, "s": None}, {"id": 2, "s": {"a": 2}}]


def test_overwrite_schema_gives_the_table_other_columns_and_partitions(spark: SparkSession, path: str) -> None:
    save(spark.range(2), path)
    save(partitioned(spark, (1, "a")), path, "overwrite", overwriteSchema="true", partitionBy="part")
    assert lakeport.scan(path).snapshot.partition_columns == ("part",)
    assert rows(path) == [{"id": 1, "part": "a"}]


def test_other_partitions_than_the_table_has_are_refused(spark: SparkSession, path: str) -> None:
    save(partitioned(spark, (1, "a")), path, partitionBy="part")
    with pytest.raises(Exception, match="the table is partitioned by part, not by id") as refused:
        save(partitioned(spark, (1, "a")), path, partitionBy="id")
    assert "partitioned by part" in first_line(refused.value)


def test_work_of_an_application_is_written_once(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        save(spark.range(3), path, txnAppId="nightly", txnVersion="4")
    assert ids(path) == [0, 1, 2]
    assert len(data_files(path)) == len(lakeport.scan(path).files())
    save(spark.range(3, 5), path, txnAppId="nightly", txnVersion="5")
    assert ids(path) == [0, 1, 2, 3, 4]


def test_a_frame_without_rows_makes_a_table_but_no_version_of_one(spark: SparkSession, path: str) -> None:
    save(spark.range(0), path)
    save(spark.range(0), path)
    assert rows(path) == []
    assert lakeport.scan(path).snapshot.version == 0


TYPES = """
    SELECT 1L AS id, CAST(1 AS TINYINT) AS byte, CAST(2 AS SMALLINT) AS short, 3 AS int, 1.5F AS float, 2.5D AS double,
      true AS bool, CAST(12.34 AS DECIMAL(10, 2)) AS small, CAST('12345678901234567890.123' AS DECIMAL(38, 3)) AS large,
      DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:00:00.123456' AS at,
      TIMESTAMP_NTZ '2024-02-29 12:00:00.123456' AS local, 'text' AS text, CAST('bytes' AS BINARY) AS bytes,
      named_struct('a', 1, 'b', array('x', NULL)) AS nested, map('k', array(1L)) AS pairs,
      parse_json('{"a": 1}') AS variant, CAST(NULL AS STRING) AS nothing
"""


@pytest.mark.parametrize("large", ["false", "true"], ids=["32-bit offsets", "64-bit offsets"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_arrives_as_it_is_in_any_session_time_zone(
    spark: SparkSession, path: str, zone: str, large: str
) -> None:
    settings = {"spark.sql.session.timeZone": zone, "spark.sql.execution.arrow.useLargeVarTypes": large}
    before: dict[str, str | None] = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        frame = spark.sql(TYPES)
        moment = spark.sql("SELECT unix_micros(TIMESTAMP '2024-02-29 12:00:00.123456')").collect()[0][0]
        save(frame, path)
        save(frame, path)
    finally:
        for key, was in before.items():
            spark.conf.set(key, str(was))
    found = lakeport.scan(path).to_arrow()
    assert found.column("at").cast(pa.int64()).to_pylist() == [moment, moment]
    row = found.drop_columns(["variant", "at"]).to_pylist()[0]
    assert row == {
        "id": 1,
        "byte": 1,
        "short": 2,
        "int": 3,
        "float": 1.5,
        "double": 2.5,
        "bool": True,
        "small": Decimal("12.34"),
        "large": Decimal("12345678901234567890.123"),
        "day": date(2024, 2, 29),
        "local": datetime(2024, 2, 29, 12, 0, 0, 123456),
        "text": "text",
        "bytes": b"bytes",
        "nested": {"a": 1, "b": ["x", None]},
        "pairs": [("k", [1])],
        "nothing": None,
    }
    assert found.column("variant").to_pylist()[0]["metadata"].endswith(b"a")
    assert [f.name for f in lakeport.scan(path).schema if not f.nullable] == []


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT INTERVAL '1' DAY AS i", "interval day"),
        ("SELECT INTERVAL '1' YEAR AS i", "interval year"),
        ("SELECT array(INTERVAL '1' DAY) AS i", "array<interval day>"),
        ("SELECT TIME '10:00:00' AS i", "time"),
    ],
)
def test_types_that_delta_does_not_have_are_refused_before_a_task_runs(
    spark: SparkSession, path: str, sql: str, name: str
) -> None:
    with pytest.raises(Exception, match="which Delta does not support") as refused:
        save(spark.sql(sql), path)
    assert f"the column 'i' has the type {name}" in first_line(refused.value)
    assert not Path(path).exists()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 'text' AS id", "the column 'id' is string in the data, but int64 in the table"),
        ("SELECT 1 AS other", "the table has no column 'other'"),
        ("SELECT 'a' AS part", "the data has no column 'id', which is NOT NULL in the table"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_a_task_runs(
    spark: SparkSession, path: str, sql: str, message: str
) -> None:
    tables.create(path, schema="id long not null, part string")
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as refused:
        save(spark.sql(sql), path)
    assert message in first_line(refused.value)
    assert data_files(path) == set()


def test_a_null_for_a_column_that_must_not_be_null_fails_the_write(spark: SparkSession, path: str) -> None:
    tables.create(path, schema="id long not null")
    with pytest.raises(Exception, match="the column 'id' is null, but NOT NULL in the table"):
        save(spark.sql("SELECT explode(array(1L, NULL)) AS id"), path)
    assert rows(path) == []
    assert data_files(path) == set()


def test_comments_and_lengths_of_text_are_kept_in_a_new_table(spark: SparkSession, path: str) -> None:
    schema = StructType().add("id", "long", True, {"comment": "a number", "other": 1})
    schema = schema.add("code", "string", True, {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"})
    save(spark.createDataFrame([(1, "a")], schema), path)
    found = lakeport.scan(path).snapshot.schema
    assert [dict(field.metadata) for field in found] == [
        {"comment": "a number"},
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
    ]


def test_a_failed_task_leaves_nothing_visible_and_the_files_of_the_others_are_removed(
    spark: SparkSession, path: str
) -> None:
    save(spark.range(3), path)
    before = data_files(path)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() >= 500:
                ends = time.monotonic() + 30
                while len(data_files(path)) == len(before) and time.monotonic() < ends:
                    time.sleep(0.1)  # until the other task has written
                time.sleep(1)  # and the driver knows it: what a cancelled task leaves, only vacuum finds
                raise RuntimeError("this task is lost")
            yield batch

    with pytest.raises(Exception, match="this task is lost"):
        save(spark.range(0, 1000, 1, 2).mapInArrow(fail, "id long"), path)
    assert ids(path) == [0, 1, 2]
    assert lakeport.scan(path).snapshot.version == 0
    assert data_files(path) == before


def test_a_commit_that_contradicts_another_fails_and_its_files_go(spark: SparkSession, path: str) -> None:
    tables.create(path, {"id": [1]})
    writer = batch_writer({"path": path}, spark.range(1).schema, True)
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    tables.delete(path)
    with pytest.raises(CommitConflictError):
        writer.commit([message])
    writer.abort([message])
    assert rows(path) == []
    assert len(data_files(path)) == 1


def test_an_append_passes_appends_that_were_committed_since_it_was_planned(spark: SparkSession, path: str) -> None:
    tables.create(path, {"id": [1]})
    writer = batch_writer({"path": path}, spark.range(1).schema, False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    tables.append(path, {"id": [2]})
    writer.commit([message])
    assert ids(path) == [1, 2, 5]


def test_a_table_that_took_the_place_of_the_planned_one_is_not_written(spark: SparkSession, path: str) -> None:
    tables.create(path, {"id": [1]})
    writer = batch_writer({"path": path}, spark.range(1).schema, False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    for file in Path(path, "_delta_log").iterdir():
        file.unlink()
    tables.create(path, {"id": [2]})
    with pytest.raises(CommitConflictError, match="another table has replaced"):
        writer.commit([message])
    assert ids(path) == [2]


def test_files_of_a_commit_whose_fate_is_unknown_are_not_removed_by_an_abort(spark: SparkSession, path: str) -> None:
    """Spark aborts after any error of the commit, also one that came when the version was there already."""
    writer = batch_writer({"path": path}, spark.range(1).schema, False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    writer.commit([message])
    writer.abort([message])
    assert ids(path) == [5]


def test_an_abort_removes_what_messages_name(spark: SparkSession, path: str) -> None:
    writer = batch_writer({"path": path}, spark.range(1).schema, False)
    message = writer.write(iter([pa.record_batch({"id": pa.array([5])})]))
    assert len(data_files(path)) == 1
    writer.abort([message, None])
    assert data_files(path) == set()


def test_files_of_tasks_that_came_second_are_found_by_vacuum(spark: SparkSession, path: str) -> None:
    writer = batch_writer({"path": path}, spark.range(1).schema, False)
    batch = pa.record_batch({"id": pa.array([5])})
    message, _ = writer.write(iter([batch])), writer.write(iter([batch]))
    writer.commit([message])
    assert ids(path) == [5]
    assert len(data_files(path)) == 2
    tables.vacuum(path, retention=0, enforce_retention=False, dry_run=False)
    assert len(data_files(path)) == 1
    assert ids(path) == [5]


def test_a_write_without_a_path_says_so_in_the_first_line(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="no table was given") as refused:
        spark.range(1).write.format("lakeport").mode("append").save()
    assert "no table was given" in first_line(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_writer_shows_no_credentials(spark: SparkSession, path: str) -> None:
    options = {"path": path, "storage.secret_access_key": "hidden"}
    writer = batch_writer(options, spark.range(1).schema, False)
    assert "hidden" not in repr(writer) + repr(vars(writer)) + repr(default_engine({"secret_access_key": "hidden"}))
