"""Clustered tables: `optimize` orders their rows, but only those that are not ordered yet."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Table
from tests.properties import MAPPED, TRACKING, VECTORS
from tests.rows import rows_of

SMALL = 10_000


def rows(start: int, count: int = 3000) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": ids, "a": [n * 7919 % 10_007 for n in ids], "b": [f"b{n * 31 % 997:03}" for n in ids]})


def clustered(path: Path, **properties: str) -> str:
    target = str(path / "t")
    tables.create(target, rows(0), cluster_by=["a", "b"], properties=properties)
    tables.append(target, rows(3000))
    return target


def files(target: str) -> list[ScanFile]:
    snapshot = Table.for_path(lakeport.scan(target).snapshot.engine, target).latest_snapshot()
    return list(snapshot.scan_builder().with_log_details().build().files())


def cubes(target: str) -> set[Any]:
    return {(file.tags or {}).get("ZCUBE_ID") for file in files(target)}


def parameters(target: str) -> dict[str, Any]:
    (commit,) = tables.history(target, 1)
    return dict(commit.info["operationParameters"])


def test_rows_are_ordered_once(tmp_path: Path) -> None:
    target = clustered(tmp_path, **VECTORS, **TRACKING)
    before = rows_of(lakeport.scan(target).with_row_tracking())
    first = tables.optimize(target, target_size=SMALL)
    assert rows_of(lakeport.scan(target).with_row_tracking()) == before
    assert first.metrics["numAddedFiles"] > 4
    assert first.effect[0].after.files < 3
    assert parameters(target)["clusterBy"] == '["a","b"]'
    assert parameters(target)["isFull"] == "false"
    second = tables.optimize(target, target_size=SMALL)
    assert (second.version, second.metrics["numRemovedFiles"], second.effect) == (first.version, 0, ())


def test_files_are_tagged_as_those_of_one_cube(tmp_path: Path) -> None:
    target = clustered(tmp_path)
    tables.optimize(target, target_size=SMALL)
    found = files(target)
    assert {file.clustering_provider for file in found} == {"liquid"}
    assert {json.dumps((file.tags or {})["ZCUBE_ZORDER_BY"]) for file in found} == {json.dumps('["a","b"]')}
    assert len(cubes(target)) == 1


def test_added_rows_are_ordered_with_the_others(tmp_path: Path) -> None:
    target = clustered(tmp_path)
    tables.optimize(target, target_size=SMALL)
    tables.append(target, rows(6000))
    assert None in cubes(target)
    tables.optimize(target, target_size=SMALL)
    assert len(cubes(target)) == 1
    assert lakeport.scan(target).count() == 9000


def test_files_of_full_cubes_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeport.tables.clustering.reorder.FULL_CUBE", 1)
    target = clustered(tmp_path)
    tables.optimize(target, target_size=SMALL)
    before = {file.path for file in files(target)}
    tables.append(target, rows(6000))
    result = tables.optimize(target, target_size=SMALL)
    assert result.metrics["numRemovedFiles"] == 1
    assert before < {file.path for file in files(target)}
    assert len(cubes(target)) == 2
    assert tables.optimize(target, target_size=SMALL).version == result.version


def test_deleted_rows_are_purged(tmp_path: Path) -> None:
    target = clustered(tmp_path, **VECTORS)
    tables.optimize(target, target_size=SMALL)
    tables.delete(target, "id % 100 = 0")
    assert tables.optimize(target, target_size=SMALL).metrics["numRemovedFiles"] == 0
    tables.optimize(target, target_size=SMALL, purge=True)
    assert not any(file.deletion_vector for file in files(target))
    assert lakeport.scan(target).count() == 5940


def test_other_columns_order_new_rows_and_with_full_all_rows(tmp_path: Path) -> None:
    target = clustered(tmp_path, **MAPPED)
    tables.optimize(target, target_size=SMALL)
    before = {file.path for file in files(target)}
    tables.cluster_by(target, ["id"])
    assert parameters(target) == {"oldClusteringColumns": "a,b", "newClusteringColumns": "id"}
    tables.append(target, rows(6000))
    tables.optimize(target, target_size=SMALL)
    assert before < {file.path for file in files(target)}
    tables.optimize(target, target_size=SMALL, full=True)
    assert parameters(target)["isFull"] == "true"
    assert {(file.tags or {})["ZCUBE_ZORDER_BY"] for file in files(target)} == {'["id"]'}
    [effect] = tables.optimize(target, target_size=SMALL * 2, full=True).effect or [None]
    assert effect is None
    assert len(lakeport.scan(target).where("id = 4000").files()) == 1
    assert lakeport.scan(target).count() == 9000


@pytest.mark.parametrize("nothing", [None, []])
def test_a_table_that_is_no_longer_clustered_is_compacted(tmp_path: Path, nothing: list[str] | None) -> None:
    target = clustered(tmp_path)
    tables.cluster_by(target, nothing)
    snapshot = lakeport.scan(target).snapshot
    assert json.loads(snapshot.domain_metadata["delta.clustering"])["clusteringColumns"] == []
    result = tables.optimize(target)
    assert (result.metrics["numAddedFiles"], result.effect) == (1, ())
    assert files(target)[0].clustering_provider is None
    assert tables.cluster_by(target, nothing).version == result.version


def test_a_table_becomes_clustered(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, rows(0))
    tables.cluster_by(target, "b")
    assert "clustering" in (lakeport.scan(target).snapshot.protocol.writer_features or ())
    tables.optimize(target)
    assert len(cubes(target)) == 1
    assert cubes(target) != {None}


def test_a_table_that_was_never_clustered_stays_as_it_is(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, rows(0))
    assert tables.cluster_by(target, None).version == 0


def test_columns_other_than_its_own_are_refused(tmp_path: Path) -> None:
    target = clustered(tmp_path)
    for given in ({"zorder_by": ["a", "b"]}, {"cluster_by": ["b"]}):
        with pytest.raises(ValueError, match="the table is clustered by a, b: leave out zorder_by"):
            tables.optimize(target, **given)  # type: ignore[arg-type]
    tables.optimize(target, cluster_by=["a", "b"])
    assert len(cubes(target)) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "ID"], "named twice"),
        (["id", "a", "b", "c", "d"], "at most 4 columns"),
        (["list"], "no bounds of a column of type array"),
        (["nothing"], "there is no 'nothing'"),
    ],
)
def test_columns_must_fit(tmp_path: Path, columns: list[str], message: str) -> None:
    target = str(tmp_path / "t")
    schema = "id long, a long, b long, c long, d long, list array<long>"
    with pytest.raises(ValueError, match=message):
        tables.create(target, schema=schema, cluster_by=columns)
    tables.create(target, schema=schema)
    with pytest.raises(ValueError, match=message):
        tables.cluster_by(target, columns)


def test_a_partitioned_table_cannot_be_clustered(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, schema="id long, p long", partition_by=["p"])
    with pytest.raises(ValueError, match="either partitioned or clustered"):
        tables.cluster_by(target, ["id"])
