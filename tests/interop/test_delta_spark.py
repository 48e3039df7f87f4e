"""Tables written by Delta's own Spark library, with every feature that it has: Lakeport reads what Spark reads."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport.cli.values import plain_batch, plain_schema
from lakeport.frame import Frame
from tests.interop import spark_tables
from tests.interop.servers import PEERS, program

SECONDS = 400


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that one run of Spark has filled."""
    python, folder = program("spark/bin/python"), tmp_path_factory.mktemp("spark")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, spark_tables.__file__, PEERS / "jars", folder],
        cwd=folder,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def frame_of(written: Path, name: str) -> Frame:
    frame = lakeport.scan(str(written / name))
    return frame.with_row_tracking() if name == "row_tracking" else frame


def expectations(written: Path, name: str) -> dict[int, pa.Table]:
    """The rows at some versions, as Spark read them."""
    files = sorted(written.glob(f"{name}.*.parquet"))
    return {int(file.name.split(".")[1]): pq.read_table(file) for file in files}


def read(frame: Frame) -> pa.Table:
    """The rows, with variants as the text of Spark's `to_json`."""
    schema = plain_schema(frame.schema)
    return pa.Table.from_batches([plain_batch(batch, schema) for batch in frame.to_batches()], schema)


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


each_table = pytest.mark.parametrize("name", spark_tables.TABLES)


@each_table
def test_the_rows_are_those_that_spark_reads(written: Path, name: str) -> None:
    expected = expectations(written, name)
    assert len(expected) > 1 or name == "types"
    for version, rows in expected.items():
        frame = frame_of(written, name).at(version=version)
        assert frame.schema.names == rows.schema.names
        assert canonical(read(frame).to_pylist()) == canonical(rows.to_pylist()), f"version {version}"
        assert frame.count() == rows.num_rows


@each_table
def test_the_latest_version_and_the_times_of_all_are_those_of_spark(written: Path, name: str) -> None:
    commits = json.loads((written / f"{name}.json").read_text())
    frame = frame_of(written, name)
    assert frame.version == max(map(int, commits))
    assert {str(commit.version): commit.timestamp for commit in frame.history()} == commits


@each_table
def test_a_filter_keeps_exactly_the_rows_that_satisfy_it(written: Path, name: str) -> None:
    versions = expectations(written, name)
    rows = versions[max(versions)].to_pylist()
    column = "the id" if name == "mapped_by_name" else "n" if name == "generated" else "id"
    middle = sorted(row[column] for row in rows)[len(rows) // 2]
    frame = frame_of(written, name)
    for keep, condition in (
        ([row for row in rows if row[column] >= middle], f"`{column}` >= {middle}"),
        ([row for row in rows if row[column] != middle], f"NOT `{column}` = {middle}"),
    ):
        assert canonical(read(frame.where(condition)).to_pylist()) == canonical(keep), condition


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("deletion_vectors", "deletion_vector_*.bin"),
        ("v2_checkpoints", "_delta_log/_sidecars/*.parquet"),
        ("parts_of_checkpoints", "_delta_log/*.checkpoint.*.*.parquet"),
        ("row_tracking", "deletion_vector_*.bin"),
        ("generated", "_change_data/*"),
    ],
)
def test_spark_has_used_what_the_table_is_meant_to_show(written: Path, name: str, pattern: str) -> None:
    assert list((written / name).glob(pattern)) or list((written / name).glob(f"*/{pattern}"))


def test_variants_are_shredded_where_that_is_wanted(written: Path) -> None:
    schemas = [str(pq.read_schema(file)) for file in (written / "shredded_variants").glob("*.parquet")]
    assert any("typed_value" in schema for schema in schemas)
