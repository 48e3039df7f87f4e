"""`optimize` orders rows: they stay the same, and filters on the columns read fewer files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakeport
from lakeport import tables
from lakeport.errors import CommitConflictError, MissingFileError
from lakeport.kernel.snapshot import Table
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import rows_of
from tests.tables.maintained import changed_rows, data_files, table_of

SMALL = 30_000


def points(count: int, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {
        "id": pa.array(range(seed * 100_000, seed * 100_000 + count)),
        "x": pa.array(random.integers(0, 10_000, count)),
        "y": pa.array([f"y{value:04}" if value % 50 else None for value in random.integers(0, 2000, count).tolist()]),
        "inner": pa.array([{"z": value} for value in random.normal(size=count).tolist()]),
    }
    return pa.table(columns)


def scattered(path: Path, **options: Any) -> str:
    """A table of several files, in each of which are all values."""
    target = str(path / "points")
    tables.create(target, points(4000), **options)
    for seed in range(2, 5):
        tables.append(target, points(4000, seed))
    return target


def files_read(target: str, where: str) -> int:
    return len(lakeport.scan(target).where(where).files())


@pytest.mark.parametrize("order", ["zorder_by", "cluster_by"])
def test_filters_on_the_columns_read_fewer_files(tmp_path: Path, order: str) -> None:
    target = scattered(tmp_path)
    before = rows_of(target)
    result = tables.optimize(target, target_size=SMALL, **{order: ["x", "y"]})  # type: ignore[arg-type]
    assert rows_of(target) == before
    assert result.metrics["numAddedFiles"] >= 8
    where = "x BETWEEN 5000 AND 5100 AND y BETWEEN 'y1000' AND 'y1020'"
    assert files_read(target, where) <= 3
    both, x, y = result.effect
    assert [effect.columns for effect in result.effect] == [("x", "y"), ("x",), ("y",)]
    assert (both.before.files, both.before.of_files) == (4, 4)
    for effect in (both, x, y):
        assert effect.after.of_files == result.metrics["numAddedFiles"]
        assert effect.after.bytes < effect.before.bytes * 0.7
    assert both.after.files < min(x.after.files, y.after.files)


def test_the_effect_is_that_of_the_filters_it_names(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    [effect] = tables.optimize(target, zorder_by=["x"], target_size=SMALL).effect
    read = [files_read(target, f"x = {value}") for value in set(lakeport.scan(target).to_arrow()["x"].to_pylist())]
    assert effect.after.files == pytest.approx(sum(read) / len(read), rel=0.2)


def test_the_history_names_the_columns_as_spark_does(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    tables.optimize(target, zorder_by=["X", "inner.z"])
    [commit] = tables.history(target, 1)
    assert commit.info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": '["x","inner.z"]',
        "clusterBy": "[]",
        "auto": "false",
    }
    assert all(file.tags is None and file.clustering_provider is None for file in log_files(target))


def log_files(target: str) -> list[Any]:
    snapshot = Table.for_path(lakeport.scan(target).snapshot.engine, target).latest_snapshot()
    return list(snapshot.scan_builder().with_log_details().build().files())


@pytest.mark.parametrize("held", [None, 100_000])
def test_rows_ids_deleted_rows_and_the_feed_are_as_ever(
    tmp_path: Path, held: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if held is not None:
        monkeypatch.setattr("lakeport.tables.clustering.reorder._HELD_BYTES", held)
    target = scattered(tmp_path, properties={**VECTORS, **TRACKING, **FEED, **MAPPED})
    tables.rename_column(target, "x", "the x")
    tables.delete(target, "id % 7 = 3")
    before = rows_of(lakeport.scan(target).with_row_tracking())
    result = tables.optimize(target, zorder_by=["`the x`", "inner.z"], target_size=SMALL)
    assert rows_of(lakeport.scan(target).with_row_tracking()) == before
    assert changed_rows(target, result.version) == []
    assert result.metrics["numDeletionVectorsRemoved"] == 4
    assert not any(file.deletion_vector for file in lakeport.scan(target).files())


def test_many_sorted_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.tables.clustering.reorder._HELD_BYTES", 100_000)
    target = scattered(tmp_path, properties=VECTORS)
    tables.delete(target, "id % 5 = 0")
    before = rows_of(target)
    both, *_ = tables.optimize(target, cluster_by=["x", "y"], target_size=SMALL).effect
    assert rows_of(target) == before
    assert both.after.files < 3


def test_partitions_are_ordered_each_for_itself(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    data = points(4000).append_column("part", pa.array(["a b", None] * 2000))
    tables.create(target, data, partition_by=["part"])
    before = rows_of(target)
    result = tables.optimize(target, where="part = 'a b'", zorder_by=["x", "y"], target_size=SMALL // 4)
    assert result.metrics["numRemovedFiles"] == 1
    assert result.metrics["numAddedFiles"] > 1
    assert rows_of(target) == before
    assert tables.history(target, 1)[0].info["operationParameters"]["predicate"] == "[\"part = 'a b'\"]"


def test_an_empty_table_has_nothing_to_order(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, schema="x long")
    result = tables.optimize(target, zorder_by=["x"])
    assert (result.version, result.effect) == (0, ())


def test_all_rows_may_be_deleted(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS)
    tables.delete(target, "id >= 0 AND id < 100 AND id <> -1")
    tables.optimize(target, zorder_by=["id"])
    assert rows_of(target) == []


def test_variants_and_lists_travel_along(tmp_path: Path) -> None:
    from lakeport.kernel.variant import encode_variant

    target = str(tmp_path / "t")
    tables.create(target, schema="x long, list array<string>, v variant")
    for start in (0, 50):
        values = [dict(zip(("metadata", "value"), encode_variant({"n": n}), strict=True)) for n in range(50)]
        rows = [{"x": (start + n) * 37 % 100, "list": [str(n)] * (n % 3), "v": v} for n, v in enumerate(values)]
        tables.append(target, rows)
    before = rows_of(target)
    tables.optimize(target, cluster_by="x")
    assert rows_of(target) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zorder_by": ["nothing"]}, "there is no 'nothing'"),
        ({"zorder_by": ["x", "X"]}, "'x' is named twice"),
        ({"zorder_by": ["part"]}, "'part' is a partition column"),
        ({"cluster_by": ["inner"]}, "no bounds of a column of type"),
        ({"zorder_by": ["flag"]}, "no bounds of a column of type boolean"),
        ({"zorder_by": ["late"]}, "no statistics of 'late'.*delta.dataSkippingNumIndexedCols"),
        ({"zorder_by": ["x"], "cluster_by": ["x"]}, "not both"),
        ({"full": True}, "not clustered"),
    ],
)
def test_columns_must_fit(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    target = str(tmp_path / "t")
    schema = "x long, inner struct<z: double>, flag boolean, late long, part long"
    properties = {"delta.dataSkippingNumIndexedCols": "3"}
    tables.create(target, schema=schema, partition_by=["part"], properties=properties)
    with pytest.raises(ValueError, match=message):
        tables.optimize(target, **given)


def test_a_delete_meanwhile_conflicts_and_nothing_stays(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    with pytest.raises(CommitConflictError):
        tables.optimize(target, zorder_by=["x"], progress=lambda *_: tables.delete(target, "id = 100001"))
    assert len({path for path in data_files(target) if path.endswith(".parquet")}) == 5


def test_an_append_meanwhile_does_no_harm(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    tables.optimize(target, zorder_by=["x"], progress=lambda *_: tables.append(target, points(10, 9)))
    assert lakeport.scan(target).count() == 16_010


def test_a_failure_leaves_no_file_behind(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    (Path(target) / sorted(data_files(target))[1]).unlink()
    before = data_files(target)
    with pytest.raises(MissingFileError):
        tables.optimize(target, zorder_by=["x"], target_size=SMALL)
    assert data_files(target) == before


def test_deltalake_reads_the_rows_and_the_statistics(tmp_path: Path) -> None:
    target = scattered(tmp_path)
    tables.optimize(target, zorder_by=["x", "y"], target_size=SMALL)
    theirs = DeltaTable(target).to_pyarrow_table(filters=[("x", "=", 5000)])
    assert sorted(theirs["id"].to_pylist()) == sorted(
        row["id"] for row in rows_of(lakeport.scan(target).where("x = 5000"))
    )
