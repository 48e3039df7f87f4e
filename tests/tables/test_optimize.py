"""`optimize`: fewer files, the same rows."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport import tables
from lakeport.errors import CommitConflictError, MissingFileError
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import ids, rows_of
from tests.tables.maintained import changed_rows, data_files, live_files, numbers, table_of


def test_small_files_become_one_and_the_rows_stay(tmp_path: Path) -> None:
    target = table_of(tmp_path, 5)
    before = rows_of(target)
    result = tables.optimize(target)
    assert (result.version, len(live_files(target))) == (5, 1)
    assert rows_of(target) == before
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (5, 1)
    assert result.metrics["minFileSize"] == result.metrics["maxFileSize"] == result.metrics["numAddedBytes"]


def test_the_history_tells_of_it_as_spark_does(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    (commit,) = tables.history(target, 1)
    assert commit.operation == "OPTIMIZE"
    assert commit.info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }
    assert commit.info["isolationLevel"] == "SnapshotIsolation"
    assert commit.info["operationMetrics"]["numRemovedFiles"] == "2"


def test_rows_keep_their_order_in_the_file(tmp_path: Path) -> None:
    target = table_of(tmp_path, 4)
    tables.optimize(target)
    assert lakeport.scan(target).to_arrow().column("id").to_pylist() == list(range(40))


def test_nothing_to_do_is_no_version(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    assert tables.optimize(target).version == 3
    again = tables.optimize(target)
    assert (again.version, again.metrics["numRemovedFiles"]) == (3, 0)
    assert lakeport.scan(target).version == 3


def test_files_near_the_target_size_are_left_alone(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3, rows=1000)
    size = max(file.size for file in lakeport.scan(target).files())
    assert tables.optimize(target, target_size=size).version == 2
    assert tables.optimize(target, target_size=int(size * 2.5)).metrics["numRemovedFiles"] == 2
    with pytest.raises(ValueError, match="1 or more"):
        tables.optimize(target, target_size=0)


def test_the_target_size_is_the_tables_own_unless_given(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3, {"delta.targetFileSize": "1kb"}, rows=1000)
    assert tables.optimize(target).version == 2
    assert tables.optimize(target, target_size=1 << 20).version == 3


def test_partitions_are_packed_each_for_itself(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    names = ["a b", "50%", "x/y=z", "São Paulo", "北京", None]
    everything = pa.table({"id": range(12), "city": pa.array([*names, *names], pa.string())})
    tables.create(target, everything.slice(0, 6), partition_by=["city"])
    tables.append(target, everything.slice(6))
    result = tables.optimize(target)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (12, 6)
    assert rows_of(target) == sorted(everything.to_pylist(), key=repr)


def test_a_condition_chooses_partitions(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, pa.table({"id": [1, 2], "day": [1, 2]}), partition_by=["day"])
    tables.append(target, pa.table({"id": [3, 4], "day": [1, 2]}))
    assert tables.optimize(target, where="day = 1").metrics["numRemovedFiles"] == 2
    assert tables.history(target, 1)[0].info["operationParameters"]["predicate"] == '["day = 1"]'
    assert ids(target) == [1, 2, 3, 4]
    with pytest.raises(
        ValueError, match="can only choose partitions, but id > 1 needs the rows; partition columns are day"
    ):
        tables.optimize(target, where="id > 1 AND day = 2")


def test_a_file_with_many_deleted_rows_is_rewritten(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, VECTORS, rows=100)
    tables.delete(target, "id < 5")
    assert tables.optimize(target).version == 1  # 5 % are not many
    tables.delete(target, "id = 5")
    result = tables.optimize(target)
    assert result.metrics["numDeletionVectorsRemoved"] == 1
    assert ids(target) == list(range(6, 100))
    (file,) = lakeport.scan(target).files()
    assert file.deletion_vector is None


def test_purge_rewrites_every_file_with_a_deletion_vector(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, VECTORS, rows=100)
    tables.delete(target, "id = 7")
    assert tables.optimize(target, purge=True).metrics["numDeletionVectorsRemoved"] == 1
    assert 7 not in ids(target)
    assert tables.optimize(target, purge=True).version == 2


def test_a_large_file_is_purged_too(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS, rows=1000)
    tables.delete(target, "id % 2 = 0 AND id < 1000")
    assert tables.optimize(target, target_size=100).metrics["numRemovedFiles"] == 1
    assert ids(target) == [*range(1, 1000, 2), *range(1000, 2000)]


def test_rows_keep_their_ids_and_commit_versions(tmp_path: Path) -> None:
    target = table_of(tmp_path, 4, VECTORS, TRACKING)
    tables.delete(target, "id % 10 = 3")
    before = rows_of(lakeport.scan(target).with_row_tracking())
    tables.optimize(target)
    assert rows_of(lakeport.scan(target).with_row_tracking()) == before
    tables.append(target, numbers(100, 2))
    given = [row["_row_id"] for row in rows_of(lakeport.scan(target).with_row_tracking())]
    assert len(given) == len(set(given))


def test_a_table_with_column_mapping_and_partitions_is_packed(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    data = pa.table({"the id": [1, 2], "the day": ["a b", "c"], "nested": [{"x y": 1}, None]})
    tables.create(target, data, partition_by=["the day"], properties={**MAPPED, **VECTORS})
    tables.append(target, data)
    tables.rename_column(target, "the day", "day of week")
    before = rows_of(target)
    assert tables.optimize(target).metrics["numAddedFiles"] == 2
    assert rows_of(target) == before


def test_the_change_data_feed_does_not_see_it(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3, FEED, VECTORS)
    tables.delete(target, "id < 5")
    version = tables.optimize(target).version
    assert changed_rows(target, version) == []


def test_an_append_only_table_can_be_optimized(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, {"delta.appendOnly": "true"})
    assert tables.optimize(target).metrics["numAddedFiles"] == 1


def test_rows_that_a_constraint_holds_for_are_not_checked_again(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.add_constraint(target, "positive", "id >= 0")
    assert tables.optimize(target).metrics["numAddedFiles"] == 1
    assert ids(target) == list(range(20))


def test_old_files_get_the_wider_type(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    small = pa.table({"id": pa.array([1, 2], pa.int32())})
    tables.create(target, small, properties={"delta.enableTypeWidening": "true"})
    tables.widen_column(target, "id", "long")
    tables.append(target, pa.table({"id": [1 << 40]}))
    tables.optimize(target)
    assert ids(target) == [1, 2, 1 << 40]


def test_an_append_meanwhile_does_no_harm(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    result = tables.optimize(target, progress=lambda done, total: tables.append(target, numbers(100, 1)))
    assert result.version == 4
    assert ids(target) == [*range(30), 100]
    assert len(live_files(target)) == 2


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_a_delete_of_the_same_rows_meanwhile_conflicts_and_nothing_stays(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    target = table_of(tmp_path, 3, properties)
    with pytest.raises(CommitConflictError, match=r"version 3 \(DELETE\)"):
        tables.optimize(target, progress=lambda done, total: tables.delete(target, "id = 3"))
    assert ids(target) == [i for i in range(30) if i != 3]
    parquet = {path for path in data_files(target) if path.endswith(".parquet")}
    assert len(parquet) == (3 if properties else 4)  # nothing but what the delete wrote


def test_a_delete_elsewhere_meanwhile_does_no_harm(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, pa.table({"id": [1, 2], "day": [1, 2]}), partition_by=["day"])
    tables.append(target, pa.table({"id": [3, 4], "day": [1, 2]}))
    tables.optimize(target, where="day = 1", progress=lambda done, total: tables.delete(target, "day = 2"))
    assert ids(target) == [1, 3]


def test_a_failure_leaves_no_file_behind(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, pa.table({"id": [1, 2], "day": [1, 2]}), partition_by=["day"])
    tables.append(target, pa.table({"id": [3, 4], "day": [1, 2]}))
    lost = next(path for path in data_files(target) if path.startswith("day=2"))
    (Path(target) / lost).unlink()
    before = data_files(target)
    with pytest.raises(MissingFileError):
        tables.optimize(target)
    assert data_files(target) == before
    assert lakeport.scan(target).version == 1


def test_progress_counts_bytes_up_to_the_whole(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    told: list[tuple[int, int]] = []
    result = tables.optimize(target, progress=lambda done, total: told.append((done, total)))
    assert told == [(result.metrics["numRemovedBytes"], result.metrics["numRemovedBytes"])]


def test_a_table_of_deltalake_is_packed_and_read_back_by_it(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    for start in range(0, 30, 10):
        data = pa.table({"id": range(start, start + 10), "city": ["São Paulo", "a b", "50%", "x/y", "ü"] * 2})
        write_deltalake(target, data, mode="append", partition_by=["city"])
    assert tables.optimize(target).metrics["numAddedFiles"] == 5
    theirs = DeltaTable(target)
    assert (theirs.version(), len(theirs.file_uris())) == (3, 5)
    read = theirs.to_pyarrow_table()
    assert duckdb.from_arrow(read).aggregate("count(*), sum(id), count(DISTINCT city)").fetchall() == [(30, 435, 5)]
    assert sorted(read.column("id").to_pylist()) == ids(target)
