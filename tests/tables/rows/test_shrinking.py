"""Rows deleted from files row group by row group: other row groups keep their bytes, and statistics stay exact."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake

import lakeport
from lakeport import tables
from lakeport.tables.rows import column_editing
from tests.properties import MAPPED, VECTORS
from tests.tables.exact_statistics import check_statistics
from tests.tables.kept import kept_columns

GROUP = 1000
LONG = "long" * 2000
ROWS = pa.table(
    {
        "id": pa.array(range(3 * GROUP), pa.int64()),
        "kind": pa.array([f"kind {i % 3}" for i in range(3 * GROUP)]),
        "text": pa.array([LONG if i % 1500 == 3 else None if i % 5 == 1 else f"text {i}" for i in range(3 * GROUP)]),
        "x": pa.array([math.nan if i % 1500 == 7 else i / 3 for i in range(3 * GROUP)], pa.float64()),
        "s": pa.array([None if i % 7 == 1 else {"a": i, "b": f"b{i % 4}"} for i in range(3 * GROUP)]),
    }
)
LEAVES = 6


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edit small files too."""
    monkeypatch.setattr(column_editing, "_SMALL_FILE", 0)
    monkeypatch.setattr(column_editing, "_SMALL_CHUNK", 0)


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A table of one file with three row groups."""
    write_deltalake(tmp_path, ROWS, writer_properties=WriterProperties(max_row_group_size=GROUP))
    return str(tmp_path)


def group_sizes(path: str) -> list[int]:
    (file,) = lakeport.scan(path).files()
    metadata = pq.read_metadata(file.path)
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def found_ids(path: str) -> list[int]:
    ids: list[int] = lakeport.scan(path).to_arrow().sort_by("id").column("id").to_pylist()
    return ids


@pytest.mark.parametrize(
    ("condition", "kept_groups", "sizes"),
    [
        ("id = 7", 2, [999, 1000, 1000]),
        ("id < 1000", 2, [1000, 1000]),
        ("id BETWEEN 900 AND 1900", 1, [900, 99, 1000]),
        ("id % 3 = 1", 0, [667, 666, 667]),
        ("id >= 2000 OR id = 3", 1, [999, 1000]),
    ],
)
def test_row_groups_that_lose_no_row_keep_their_bytes(
    target: str, condition: str, kept_groups: int, sizes: list[int]
) -> None:
    deleted = lakeport.scan(target).where(condition).to_arrow().column("id").to_pylist()
    result = tables.delete(target, condition)
    assert result.metrics["numDeletedRows"] == len(deleted)
    assert result.metrics["numCopiedRows"] == 3 * GROUP - len(deleted)
    assert found_ids(target) == sorted(set(range(3 * GROUP)) - set(deleted))
    assert group_sizes(target) == sizes
    assert kept_columns(target)[0] >= kept_groups * LEAVES
    check_statistics(target)


def test_the_greatest_values_may_go(target: str) -> None:
    """Bounds are those of the rows that stay: no longer of NaN, and of shorter texts."""
    for condition in ("text > 'm'", f"text = '{LONG}'"):
        before = lakeport.scan(target).where(f"NOT ({condition}) OR text IS NULL").to_arrow()
        tables.delete(target, condition)
        assert found_ids(target) == sorted(before.column("id").to_pylist())
    tables.delete(target, "id % 1500 = 7")
    check_statistics(target)


def test_columns_that_a_file_lacks_or_has_besides(target: str) -> None:
    tables.set_properties(target, MAPPED)
    tables.add_columns(target, {"new": "int"})
    tables.delete(target, "id = 1")
    check_statistics(target)
    tables.drop_columns(target, ["kind"])
    tables.delete(target, "id = 2")
    assert lakeport.scan(target).to_arrow().schema.names == ["id", "text", "x", "s", "new"]
    assert found_ids(target) == [0, *range(3, 3 * GROUP)]
    check_statistics(target)


def test_files_that_lose_most_rows_become_one(tmp_path: Path) -> None:
    for _ in range(3):
        write_deltalake(tmp_path, ROWS, mode="append")
    tables.delete(str(tmp_path), "id >= 1000")
    assert len(list(lakeport.scan(str(tmp_path)).files())) == 1
    assert found_ids(str(tmp_path)) == sorted([*range(GROUP)] * 3)


def test_files_that_keep_most_rows_stay_apart(tmp_path: Path) -> None:
    for _ in range(3):
        write_deltalake(tmp_path, ROWS, mode="append")
    tables.delete(str(tmp_path), "id < 1000")
    assert len(list(lakeport.scan(str(tmp_path)).files())) == 3
    assert found_ids(str(tmp_path)) == sorted([*range(GROUP, 3 * GROUP)] * 3)
    check_statistics(str(tmp_path))


def test_rows_of_a_deletion_vector_stay_deleted(target: str) -> None:
    tables.set_properties(target, VECTORS)
    tables.delete(target, "id = 5")
    tables.set_properties(target, {"delta.enableDeletionVectors": "false"})
    for number in (6, 7):
        tables.delete(target, f"id = {number}")
        assert found_ids(target) == [*range(5), *range(number + 1, 3 * GROUP)]
    check_statistics(target)
