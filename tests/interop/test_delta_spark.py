"""Tables written by Delta's own Spark library, with every feature that it has: Lakeport reads what Spark reads."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from tests.interop import spark_tables
from tests.interop.peers import Peer
from tests.interop.rows import (
    assert_spark_reads_the_same,
    assert_spark_reads_the_same_changes,
    frame_at,
    read,
    spark_query,
    versions,
)
from tests.rows import canonical

pytestmark = pytest.mark.exhaustive(instead="the tables of the corpus, which the same statements made")

FEEDS = {"generated": (0, 3), "fed_by_vectors": (0, 9), "fed_by_copies": (0, 8), "fed_and_mapped": (0, 7)}

each_table = pytest.mark.parametrize("name", spark_tables.TABLES)


@each_table
def test_the_rows_are_those_that_spark_reads(spark: Peer, written_by_spark: Path, name: str) -> None:
    path = str(written_by_spark / name)
    found = versions(path)
    assert len(found) >= len(spark_tables.TABLES[name])
    assert_spark_reads_the_same(spark, path, found)


@each_table
def test_the_count_is_that_of_the_rows(written_by_spark: Path, name: str) -> None:
    frame = lakeport.scan(str(written_by_spark / name))
    for version in versions(frame.target):
        assert frame.at(version=version).count() == frame.at(version=version).to_arrow().num_rows


@pytest.mark.parametrize("name", FEEDS)
def test_the_changes_are_those_that_spark_reads(spark: Peer, written_by_spark: Path, name: str) -> None:
    start, end = FEEDS[name]
    path = str(written_by_spark / name)
    assert versions(path)[-1] == end
    assert_spark_reads_the_same_changes(spark, path, [(start, end), (end // 2, end)])


@each_table
def test_the_latest_version_and_the_times_of_all_are_those_of_spark(
    spark: Peer, written_by_spark: Path, name: str
) -> None:
    path = str(written_by_spark / name)
    (history,) = spark.read(f"DESCRIBE HISTORY delta.`{path}`")
    commits = {row["version"]: round(row["timestamp"].timestamp() * 1000) for row in history.to_pylist()}
    frame = lakeport.scan(path)
    assert frame.version == max(commits)
    assert {commit.version: commit.timestamp for commit in frame.history()} == commits


@each_table
def test_a_filter_keeps_exactly_the_rows_that_satisfy_it(spark: Peer, written_by_spark: Path, name: str) -> None:
    path = str(written_by_spark / name)
    (rows,) = spark.read(spark_query(path, versions(path)[-1]))
    column = "the id" if name == "mapped_by_name" else "n" if name == "generated" else "id"
    values = rows[column]
    middle = sorted(values.to_pylist())[rows.num_rows // 2] if rows.num_rows else 0
    for operator in (">=", "!="):
        keep = [value >= middle if operator == ">=" else value != middle for value in values.to_pylist()]
        found = read(frame_at(path).where(f"`{column}` {operator} {middle}"))
        assert canonical(found) == canonical(rows.filter(pa.array(keep, pa.bool_()))), operator


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("deletion_vectors", "deletion_vector_*.bin"),
        ("v2_checkpoints", "_delta_log/_sidecars/*.parquet"),
        ("parts_of_checkpoints", "_delta_log/*.checkpoint.*.*.parquet"),
        ("row_tracking", "deletion_vector_*.bin"),
        ("generated", "_change_data/*"),
        ("fed_by_vectors", "deletion_vector_*.bin"),
        ("fed_by_copies", "_change_data/*"),
    ],
)
def test_spark_has_used_what_the_table_is_meant_to_show(written_by_spark: Path, name: str, pattern: str) -> None:
    folder = written_by_spark / name
    assert list(folder.glob(pattern)) or list(folder.glob(f"*/{pattern}"))


def test_variants_are_shredded_where_that_is_wanted(written_by_spark: Path) -> None:
    schemas = [str(pq.read_schema(file)) for file in (written_by_spark / "shredded_variants").glob("*.parquet")]
    assert any("typed_value" in schema for schema in schemas)
