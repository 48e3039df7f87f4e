"""`tables.overwrite`: whole tables, partitions, and rows by a condition, in one commit each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import col, tables
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import CommitConflictError, ConstraintError, InvalidDataError, TableNotFoundError
from lakeport.testing.counting import CountingStorage
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import counted
from tests.tables.modelled import BY_ID, KINDS, ModelledTable, RivalStorage, Row, as_table, logged, some_rows

each_kind = pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())


def rows_in(part: str | None, start: int, end: int) -> list[Row]:
    return [row | {"part": part} for row in some_rows(start, end)]


@each_kind
@pytest.mark.parametrize("partition_by", [(), ("part",)], ids=["unpartitioned", "partitioned"])
def test_the_whole_table_is_replaced_in_one_commit(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...]
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    table.delete("id = 3", lambda row: row["id"] == 3)
    version = table.version
    result = table.overwrite(some_rows(100, 130), lambda row: True)
    assert result.version == version + 1
    assert result.metrics["numDeletedRows"] == 59
    assert result.metrics["numOutputRows"] == 30
    assert len(table.read(version)) == 59
    table.overwrite([], lambda row: True)


def test_a_table_is_replaced_without_a_look_at_its_files(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, FEED)
    storage = CountingStorage(Storage())
    tables.overwrite(table.path, as_table(some_rows(0, 5)), engine=engine_over(storage))
    assert not [name for name in storage.opened if name.endswith(".parquet")]


@each_kind
def test_dynamic_partitions_replace_those_that_the_data_has(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    new = rows_in("p 1", 100, 110) + rows_in(None, 110, 115) + rows_in("p 7", 115, 120)
    table.overwrite(new, lambda row: row["part"] in ("p 1", None), partitions="dynamic")
    version = table.version
    table.overwrite([], lambda row: False, partitions="dynamic")
    assert table.version == version


def test_dynamic_partitions_of_several_columns_are_told_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    old = [{"a": a, "b": b, "v": "old"} for a in (1, 2, None) for b in (1.5, 2.5, float("nan"), None)]
    tables.create(path, pa.Table.from_pylist(old), partition_by=["a", "b"])
    new: list[Row] = [
        {"a": 1, "b": 2.5, "v": "new"},
        {"a": None, "b": None, "v": "new"},
        {"a": 2, "b": float("nan"), "v": "new"},
    ]
    tables.overwrite(path, pa.Table.from_pylist(new), partitions="dynamic")
    replaced = {repr((row["a"], row["b"])) for row in new}
    found = lakeport.scan(path).to_arrow().to_pylist()
    assert len(found) == len(old)
    assert all(row["v"] == ("new" if repr((row["a"], row["b"])) in replaced else "old") for row in found)


def test_dynamic_partitions_of_an_unpartitioned_table_are_all_of_it(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, ())
    table.overwrite(some_rows(0, 5), lambda row: True, partitions="dynamic")


@each_kind
def test_rows_that_a_condition_selects_are_replaced(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    table.overwrite(rows_in("p 1", 100, 105), lambda row: row["part"] == "p 1", where="part = 'p 1'")
    new = [row | {"n": 8} for row in some_rows(200, 207)]
    table.overwrite(new, lambda row: row["n"] is not None and row["n"] > 6, where=col("n") > 6)
    table.overwrite([], lambda row: row["id"] % 10 == 3, where="id % 10 = 3")


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("wrong", [5, None])
def test_a_new_row_outside_of_the_condition_is_refused(
    tmp_path: Path, properties: Mapping[str, str], wrong: int | None
) -> None:
    table = ModelledTable.create(tmp_path, properties)
    before = table.files_on_disk()
    new = [row | {"n": 8} for row in some_rows(200, 207)]
    new[4]["n"] = wrong
    with pytest.raises(ConstraintError, match=r"row 4 .*n > 6") as caught:
        tables.overwrite(table.path, as_table(new), where="n > 6")
    assert caught.value.row == 4
    assert table.files_on_disk() == before
    table.check()


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS | MAPPED], ids=["plain", "vectors"])
@pytest.mark.parametrize(
    ("options", "stays"),
    [
        ({}, lambda row: False),
        ({"where": "id < 30"}, lambda row: row["id"] >= 30),
        ({"partitions": "dynamic"}, lambda row: row["part"] != "p 1"),
    ],
    ids=["all", "where", "dynamic"],
)
def test_columns_that_the_table_lacks_can_be_added(
    tmp_path: Path, properties: Mapping[str, str], options: dict[str, Any], stays: Callable[[Row], bool]
) -> None:
    table = ModelledTable.create(tmp_path, properties)
    new = pa.Table.from_pylist([{"id": 1, "part": "p 1", "more": 1.5}])
    tables.overwrite(table.path, new, merge_schema=True, **options)
    kept = [row | {"more": None} for row in table.rows if stays(row)]
    added = {"id": 1, "part": "p 1", "n": None, "text": None, "s": None, "more": 1.5}
    assert counted(table.read()) == counted([*kept, added])
    fed = lakeport.scan(table.path).changes(table.version, table.version).to_arrow().to_pylist()
    assert sorted(row["_change_type"] for row in fed) == ["delete"] * (60 - len(kept)) + ["insert"]


@pytest.mark.parametrize("properties", [{}, VECTORS, MAPPED, BY_ID | TRACKING], ids=["plain", "vectors", "name", "id"])
def test_the_schema_can_be_replaced(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    version, old = table.version, lakeport.scan(table.path).snapshot
    new = pa.table({"text": ["a", "b"], "n": ["now", "text"], "part": ["x", None]})
    result = tables.overwrite(table.path, new, overwrite_schema=True)
    frame = lakeport.scan(table.path)
    assert frame.schema.names == ["text", "n", "part"]
    assert sorted(frame.to_arrow().to_pylist(), key=str) == sorted(new.to_pylist(), key=str)
    assert frame.snapshot.partition_columns == ("part",)
    assert (
        frame.snapshot.properties.items()
        >= {name: value for name, value in old.properties.items() if name != "delta.columnMapping.maxColumnId"}.items()
    )
    assert result.version == version + 1
    assert len(table.read(version)) == 60
    tables.append(table.path, new)
    assert frame.at(version=version + 2).count() == 4


def test_the_partitioning_can_be_replaced_with_the_schema(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    new = pa.table({"a": [1, 2], "b": [3, 4]})
    tables.overwrite(table.path, new, overwrite_schema=True, partition_by=["b"])
    snapshot = lakeport.scan(table.path).snapshot
    assert snapshot.partition_columns == ("b",)
    tables.overwrite(table.path, new, overwrite_schema=True, partition_by=[])
    assert lakeport.scan(table.path).snapshot.partition_columns == ()
    assert lakeport.scan(table.path).count() == 2


def test_a_replaced_column_that_is_the_same_keeps_its_physical_name(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, MAPPED)
    before = {f.name: f for f in lakeport.scan(table.path).snapshot.schema}
    new = as_table(some_rows(0, 3)).select(["id", "s", "n"]).set_column(2, "n", pa.array(["x"] * 3))
    tables.overwrite(table.path, new, overwrite_schema=True)
    after = {f.name: f for f in lakeport.scan(table.path).snapshot.schema}
    assert after["id"] == before["id"]
    assert after["s"] == before["s"]
    assert after["n"].physical_name("name") != before["n"].physical_name("name")
    highest = max(f.field_id or 0 for f in before.values())
    assert (after["n"].field_id or 0) > highest


def test_a_clustering_column_cannot_be_replaced_away(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    tables.create(path, pa.table({"a": [1], "b": [2]}), cluster_by=["a"])
    with pytest.raises(ValueError, match="clustered"):
        tables.overwrite(path, pa.table({"b": [1]}), overwrite_schema=True)
    tables.overwrite(path, pa.table({"a": [1], "c": [2]}), overwrite_schema=True)


def test_a_clustered_table_cannot_be_partitioned_too(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    data = pa.table({"a": [1], "b": [2]})
    tables.create(path, data, cluster_by=["a"])
    with pytest.raises(ValueError, match="clustered, so it cannot be partitioned"):
        tables.overwrite(path, data, overwrite_schema=True, partition_by=["b"])
    tables.overwrite(path, data, overwrite_schema=True, partition_by=[])
    assert "delta.clustering" in lakeport.scan(path).snapshot.domain_metadata


def test_a_constraint_must_fit_the_new_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    tables.create(path, pa.table({"a": [1], "b": [2]}))
    tables.add_constraint(path, "positive", "b > 0")
    with pytest.raises(ValueError, match=r"the constraint 'positive' \(b > 0\) does not fit .* drop it first"):
        tables.overwrite(path, pa.table({"a": pa.array([], pa.int64())}), overwrite_schema=True)
    tables.overwrite(path, pa.table({"b": [1.5]}), overwrite_schema=True)
    tables.drop_constraint(path, "positive")
    tables.overwrite(path, pa.table({"a": [1]}), overwrite_schema=True)
    assert lakeport.scan(path).to_arrow().to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("options", [{}, {"where": "id < 5000"}, {"partitions": "dynamic"}], ids=str)
def test_data_that_does_not_fit_leaves_the_table_as_it_was(tmp_path: Path, options: dict[str, Any]) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | {"delta.constraints.small": "id < 1000"})
    before = table.files_on_disk()
    with pytest.raises(InvalidDataError):
        tables.overwrite(table.path, pa.table({"nowhere": [1]}), **options)
    batches = [as_table(some_rows(i, i + 10)) for i in (0, 100, 995)]
    with pytest.raises(ConstraintError, match="small"):
        tables.overwrite(table.path, batches, **options)
    assert table.files_on_disk() == before
    table.check()


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        tables.overwrite(str(tmp_path / "nowhere"), pa.table({"a": [1]}))


def test_the_history_tells_what_was_overwritten(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    table.overwrite(rows_in("p 1", 0, 3), lambda row: row["part"] == "p 1", where="part = 'p 1'")
    (info,) = logged(table.path, table.version, "commitInfo")
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {
        "mode": "Overwrite",
        "partitionBy": '["part"]',
        "predicate": "[\"part = 'p 1'\"]",
    }
    table.overwrite([], lambda row: True)
    (info,) = logged(table.path, table.version, "commitInfo")
    assert info["operationParameters"] == {"mode": "Overwrite", "partitionBy": '["part"]'}


# Others who write meanwhile


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
@pytest.mark.parametrize("part", ["p 1", "p 2"])
def test_an_append_to_a_replaced_partition_conflicts_only_if_versions_must_explain_it(
    tmp_path: Path, level: str, part: str
) -> None:
    table = ModelledTable.create(tmp_path, {"delta.isolationLevel": level})
    engine = engine_over(RivalStorage(lambda: tables.append(table.path, as_table(rows_in(part, 100, 101)))))
    new = as_table(rows_in("p 1", 0, 3))
    if level == "Serializable" and part == "p 1":
        with pytest.raises(CommitConflictError):
            tables.overwrite(table.path, new, partitions="dynamic", engine=engine)
    else:
        tables.overwrite(table.path, new, partitions="dynamic", engine=engine)
        assert {row["id"] for row in table.read() if row["part"] == part} >= {100}
