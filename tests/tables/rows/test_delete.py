"""`tables.delete`: which rows go, how, and what the log says of it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import col, tables
from lakeport.engine import default_engine, engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import CommitConflictError
from lakeport.testing.builder import TableBuilder, struct
from lakeport.testing.counting import CountingStorage
from tests.properties import FEED, VECTORS
from tests.tables.modelled import KINDS, ModelledTable, RivalStorage, Row, logged

each_kind = pytest.mark.parametrize("properties", KINDS.values(), ids=KINDS.keys())


@each_kind
@pytest.mark.parametrize("partition_by", [(), ("part",)], ids=["unpartitioned", "partitioned"])
def test_deleted_rows_are_gone_and_all_others_stay(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...]
) -> None:
    table = ModelledTable.create(tmp_path, properties, partition_by)
    table.delete("id % 10 = 3", lambda row: row["id"] % 10 == 3)
    table.delete("id % 10 = 4 AND part = 'p 0'", lambda row: row["id"] % 10 == 4 and row["part"] == "p 0")
    table.delete(col("s.a") > 500, lambda row: row["s"] is not None and row["s"]["a"] > 500)
    table.delete("part = 'p 2'", lambda row: row["part"] == "p 2")
    table.delete(None, lambda row: True)
    assert table.read() == []
    assert len(table.read(table.version - 4)) == 54, "the versions before are as they were"


@each_kind
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("n > 5", lambda row: None if row["n"] is None else row["n"] > 5),
        ("NOT (n > 5)", lambda row: None if row["n"] is None else not row["n"] > 5),
        ("n IS NULL OR part IS NULL", lambda row: row["n"] is None or row["part"] is None),
        ("part <> 'p 1'", lambda row: None if row["part"] is None else row["part"] != "p 1"),
        ("text = NULL", lambda row: None),
    ],
)
def test_rows_for_which_the_condition_is_null_stay(
    tmp_path: Path, properties: Mapping[str, str], where: str, holds: Callable[[Row], Any]
) -> None:
    table = ModelledTable.create(tmp_path, properties)
    table.delete(where, holds)


def test_deletion_vectors_are_united_and_packed_into_one_file(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    first = table.delete("id % 10 = 3", lambda row: row["id"] % 10 == 3)
    assert first.metrics["numDeletionVectorsAdded"] > 3
    assert first.metrics["numCopiedRows"] == first.metrics["numAddedFiles"] == first.metrics["numRemovedFiles"] == 0
    vectors = [add["deletionVector"] for add in logged(table.path, first.version, "add")]
    assert {v["storageType"] for v in vectors} == {"u"}
    assert len({v["pathOrInlineDv"] for v in vectors}) == 1
    assert len({v["offset"] for v in vectors}) == len(vectors) == first.metrics["numDeletionVectorsAdded"]
    assert len(list(Path(table.path).glob("deletion_vector_*.bin"))) == 1
    second = table.delete("id % 10 IN (3, 5)", lambda row: row["id"] % 10 in (3, 5))
    assert second.metrics["numDeletionVectorsUpdated"] > 0
    united = logged(table.path, second.version, "add")
    assert sum(add["deletionVector"]["cardinality"] for add in united) > second.metrics["numDeletedRows"]
    assert all(json.loads(add["stats"])["tightBounds"] is False for add in united)
    removed = logged(table.path, second.version, "remove")
    assert {r["path"] for r in removed} == {a["path"] for a in united}


def test_a_file_that_keeps_no_row_is_removed_whole(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, (), files=3)
    table.delete("id < 19", lambda row: row["id"] < 19)
    result = table.delete("id < 25", lambda row: row["id"] < 25)
    assert result.metrics["numRemovedFiles"] == 1
    assert result.metrics["numDeletionVectorsRemoved"] == 1
    assert result.metrics["numDeletionVectorsAdded"] == 1
    assert len(logged(table.path, result.version, "add")) == 1


def test_without_vectors_the_rows_that_stay_are_copied(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, {}, (), files=3)
    result = table.delete("id = 3 OR id = 25", lambda row: row["id"] in (3, 25))
    assert result.metrics["numCopiedRows"] == 38
    assert result.metrics["numRemovedFiles"] == 2
    assert not list(Path(table.path).glob("deletion_vector_*"))


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["plain", "vectors"])
def test_files_that_a_checkpoint_names_are_removed_by_the_names_that_it_has(
    tmp_path: Path, properties: Mapping[str, str]
) -> None:
    table = ModelledTable.create(tmp_path, {**properties, "delta.checkpointInterval": "3"})
    assert (Path(table.path) / "_delta_log" / f"{3:020}.checkpoint.parquet").exists()
    result = table.delete("id = 3", lambda row: row["id"] == 3)
    added = {add["path"] for version in range(4) for add in logged(table.path, version, "add")}
    assert {remove["path"] for remove in logged(table.path, result.version, "remove")} < added


def opened_by_delete(path: str, where: str | None) -> list[str]:
    storage = CountingStorage(Storage())
    tables.delete(path, where, engine=engine_over(storage))
    return [name for name in storage.opened if name.endswith(".parquet")]


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["plain", "vectors", "feed"])
def test_whole_partitions_go_without_a_look_at_their_files(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties)
    assert opened_by_delete(table.path, "part = 'p 0' OR part IS NULL") == []
    assert {row["part"] for row in table.read()} == {"p 1", "p 2"}
    assert opened_by_delete(table.path, None) == []
    assert table.read() == []


def test_files_whose_statistics_rule_a_match_out_are_not_opened(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, (), files=6)
    assert len(set(opened_by_delete(table.path, "id = 25"))) == 1


def test_the_history_tells_what_was_deleted(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS)
    table.delete("id = 3", lambda row: row["id"] == 3)
    table.delete(col("id") == 4, lambda row: row["id"] == 4)
    table.delete(None, lambda row: True)
    every, second, first = lakeport.scan(table.path).history(3)
    assert [commit.operation for commit in (first, second, every)] == ["DELETE"] * 3
    (info,) = logged(table.path, table.version - 2, "commitInfo")
    assert info["operationParameters"] == {"predicate": '["id = 3"]'}
    assert info["operationMetrics"]["numDeletedRows"] == "1"
    (info,) = logged(table.path, table.version - 1, "commitInfo")
    assert json.loads(info["operationParameters"]["predicate"]) == ["id = 4"]
    (info,) = logged(table.path, table.version, "commitInfo")
    assert info["operationParameters"] == {"predicate": "[]"}
    assert info["isBlindAppend"] is False


def test_files_without_statistics_get_the_number_of_their_rows(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS, (), files=1)
    log = Path(table.path) / "_delta_log"
    for commit in log.glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, lines)))
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    result = table.delete("id < 10", lambda row: row["id"] < 10)
    (add,) = logged(table.path, result.version, "add")
    assert json.loads(add["stats"]) == {"numRecords": 60, "tightBounds": False}


def test_a_row_group_that_is_skipped_keeps_the_positions_right(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    rows = pa.table({"id": range(10_000), "n": [i // 1000 for i in range(10_000)]})
    tables.create(path, rows, properties=VECTORS)
    (file,) = Path(path).glob("*.parquet")
    pq.write_table(pq.read_table(file), file, row_group_size=1000)
    size = file.stat().st_size
    log = Path(path) / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["size"] = size
    log.write_text("\n".join(map(json.dumps, lines)))
    tables.delete(path, "n = 7 AND id % 2 = 0")
    expected = [i for i in range(10_000) if not (i // 1000 == 7 and i % 2 == 0)]
    assert lakeport.scan(path).to_arrow()["id"].to_pylist() == expected


# Others who write meanwhile


def delete_against(table: ModelledTable, where: str, rival: Callable[[], object]) -> None:
    tables.delete(table.path, where, engine=engine_over(RivalStorage(rival)))


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["plain", "vectors"])
def test_deletes_from_different_files_pass_one_another(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = ModelledTable.create(tmp_path, properties, (), files=3)
    delete_against(table, "id = 3", lambda: tables.delete(table.path, "id = 59"))
    assert {row["id"] for row in table.read()} == set(range(60)) - {3, 59}


@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
def test_an_append_that_would_have_matched_conflicts_only_if_versions_must_explain_it(
    tmp_path: Path, level: str
) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | {"delta.isolationLevel": level}, (), files=3)

    def rival() -> None:
        tables.append(table.path, pa.table({"id": [3]}))

    if level == "Serializable":
        with pytest.raises(CommitConflictError):
            delete_against(table, "id = 3", rival)
        assert [row["id"] for row in table.read()].count(3) == 2
    else:
        delete_against(table, "id = 3", rival)
        assert [row["id"] for row in table.read()].count(3) == 1


def test_an_append_that_could_not_match_passes(tmp_path: Path) -> None:
    table = ModelledTable.create(tmp_path, VECTORS | {"delta.isolationLevel": "Serializable"}, (), files=3)
    delete_against(table, "id = 3", lambda: tables.append(table.path, pa.table({"id": [1000]})))
    assert {row["id"] for row in table.read()} == (set(range(60)) | {1000}) - {3}


def test_copied_rows_need_not_agree_with_what_new_rows_must(tmp_path: Path) -> None:
    """A generated column may have been computed by a writer in another time zone."""
    path = str(tmp_path / "table")
    day = pa.field("day", pa.date32(), metadata=None)
    tables.create(path, schema=pa.schema([pa.field("id", pa.int64()), day]))
    tables.append(path, pa.table({"id": [1, 2, 3]}))
    commit = Path(path) / "_delta_log" / f"{0:020}.json"
    text = commit.read_text()
    generated = r"\"delta.generationExpression\":\"CAST('2020-01-01' AS DATE)\""
    changed = text.replace(
        r"\"name\":\"day\",\"type\":\"date\",\"nullable\":true,\"metadata\":{}",
        rf"\"name\":\"day\",\"type\":\"date\",\"nullable\":true,\"metadata\":{{{generated}}}",
    )
    assert changed != text
    commit.write_text(changed)
    for checksum in (Path(path) / "_delta_log").glob("*.crc"):
        checksum.unlink()
    tables.delete(path, "id = 2")
    assert lakeport.scan(path).to_arrow().to_pylist() == [{"id": 1, "day": None}, {"id": 3, "day": None}]


def test_rows_are_copied_where_readers_are_not_told_of_deletion_vectors(tmp_path: Path) -> None:
    listed = {"readerFeatures": [], "writerFeatures": ["deletionVectors"]}
    builder = TableBuilder(
        default_engine(),
        str(tmp_path),
        struct(id="long"),
        properties=VECTORS,
        protocol={"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | listed},
    )
    builder.create(builder.add({"id": [1, 2, 3]}))
    version = tables.delete(str(tmp_path), "id = 2").version
    assert [add.get("deletionVector") for add in logged(str(tmp_path), version, "add")] == [None]
    assert sorted(lakeport.scan(str(tmp_path)).to_arrow()["id"].to_pylist()) == [1, 3]
