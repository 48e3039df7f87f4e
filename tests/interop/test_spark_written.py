"""Lakeport writes on top of what Delta's own Spark library has written, and Spark reads the result."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import UnsupportedFeatureError
from lakeport.frame import Frame
from tests.interop import spark_tables
from tests.interop.peers import Peer
from tests.interop.rows import assert_spark_reads_the_same, assert_spark_reads_the_same_changes

pytestmark = pytest.mark.exhaustive(instead="test_written_tables, where Spark writes on top of Lakeport")

READ_ONLY = {"identity": "identityColumns"}
FEEDS = ["fed_by_vectors", "fed_by_copies", "fed_and_mapped"]


@pytest.mark.parametrize("name", [name for name in spark_tables.TABLES if name not in READ_ONLY])
def test_spark_reads_what_lakeport_writes_on_top(
    spark: Peer, written_by_spark: Path, tmp_path: Path, name: str
) -> None:
    path = str(shutil.copytree(written_by_spark / name, tmp_path / name))
    before = lakeport.scan(path)
    key = before.schema.names[0] if name != "generated" else "n"
    rows = rows_to_write(before)
    tables.append(path, rows)
    tables.update(path, {f"`{key}`": f"`{key}` + 1"}, f"`{key}` % 4 = 2")
    tables.merge(path, rows.slice(0, 1), f"target.`{key}` = source.`{key}`").when_matched_delete().execute()
    changed = lakeport.scan(path).version
    tables.append(path, rows)
    tables.optimize(path, purge=True)
    latest = lakeport.scan(path).version
    assert latest > changed > before.version
    assert_spark_reads_the_same(spark, path, [changed, latest])
    if name in FEEDS:
        assert_spark_reads_the_same_changes(spark, path, [(before.version, latest)])


def rows_to_write(frame: Frame) -> pa.Table:
    """Some rows of the table once more, from a version that has any, without generated columns."""
    computed = [f.name for f in frame.snapshot.schema if "delta.generationExpression" in f.metadata]
    found = frame.to_arrow().slice(0, 5)
    if not found.num_rows:
        found = pa.Table.from_pylist([{"id": 1, "n": 2, "name": "name 1"}], found.schema)
    return found.drop_columns(computed)


@pytest.mark.parametrize(("name", "feature"), READ_ONLY.items())
def test_a_table_that_lakeport_cannot_write_is_refused_by_the_name_of_the_feature(
    written_by_spark: Path, name: str, feature: str
) -> None:
    path = str(written_by_spark / name)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        tables.append(path, pa.table({"n": [1]}))


def test_a_clone_is_changed_and_its_source_is_not(written_by_spark: Path, tmp_path: Path) -> None:
    source = lakeport.scan(str(written_by_spark / "deletion_vectors"))
    rows = source.count()
    path = str(shutil.copytree(written_by_spark / "cloned", tmp_path / "cloned"))
    assert lakeport.scan(path).count() > 0
    tables.delete(path)
    tables.vacuum(path, retention=0, enforce_retention=False, dry_run=False)
    assert lakeport.scan(path).count() == 0
    assert source.to_arrow().num_rows == rows
