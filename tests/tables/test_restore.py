"""`restore`: the table is what it was, and its history stays."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeport
from lakeport import tables
from lakeport.engine import engine_over
from lakeport.engine.storage.storage import Storage
from lakeport.errors import CommitConflictError, MissingFileError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.kernel.engine import FileStatus
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.kernel.transaction import update_table
from lakeport.kernel.transaction.transaction import replace_table
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.properties import FEED, MAPPED, TRACKING, VECTORS
from tests.rows import ids, rows_of
from tests.tables.maintained import changed_rows, later, numbers, table_of


def snapshot_of(target: str) -> Snapshot:
    return Table.for_path(later(0), target).latest_snapshot()


def test_the_rows_are_those_of_the_version(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    tables.delete(target, "id < 15")
    result = tables.restore(target, version=1)
    assert (result.version, ids(target)) == (4, list(range(20)))
    assert [len(ids(target, version=v)) for v in range(5)] == [10, 20, 30, 15, 20]


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ({"version": "0"}, "'0' is not a version"),
        ({"timestamp": 1.5}, "1.5 is not a time"),
        ({"timestamp": "soon"}, "'soon' is not a time"),
    ],
)
def test_what_is_no_version_is_refused(tmp_path: Path, which: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tables.restore(table_of(tmp_path, 1), **which)


def test_the_metrics_are_those_of_spark(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    tables.optimize(target)
    sizes = {v: [f.size for f in lakeport.scan(target).at(version=v).files()] for v in (1, 3)}
    result = tables.restore(target, version=1)
    assert result.metrics == {
        "numRemovedFiles": 1,
        "removedFilesSize": sum(sizes[3]),
        "numRestoredFiles": 2,
        "restoredFilesSize": sum(sizes[1]),
        "numOfFilesAfterRestore": 2,
        "tableSizeAfterRestore": sum(sizes[1]),
    }
    (commit,) = tables.history(target, 1)
    assert (commit.operation, commit.info["operationParameters"]) == ("RESTORE", {"version": "1"})


def test_a_time_names_a_version(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    moment = datetime.fromtimestamp(tables.history(target)[1].timestamp / 1000, UTC)
    tables.restore(target, timestamp=moment)
    assert ids(target) == list(range(20))
    tables.restore(target, timestamp=moment.isoformat())
    with pytest.raises(ValueError, match="not a time"):
        tables.restore(target, timestamp="yesterday")


@pytest.mark.parametrize("given", [{}, {"version": 1, "timestamp": 2}])
def test_either_a_version_or_a_time_is_given(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either a version or a timestamp"):
        tables.restore(str(tmp_path), **given)


def test_a_version_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VersionNotFoundError):
        tables.restore(table_of(tmp_path, 2), version=7)


def test_the_present_state_is_no_new_version(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    assert tables.restore(target, version=1).version == 1


def test_deleted_rows_come_back_by_their_deletion_vectors(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS, rows=20)
    for number in range(3):
        tables.delete(target, f"id = {number}")
    everything = list(range(40))
    for version, expected in [(2, everything[1:]), (1, everything), (4, everything[3:]), (3, everything[2:])]:
        tables.restore(target, version=version)
        assert ids(target) == expected
        assert len(list(lakeport.scan(target).files())) == 2


def test_the_change_data_feed_tells_what_came_and_went(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS, FEED, rows=5)
    tables.delete(target, "id IN (1, 7)")
    tables.append(target, numbers(100, 2))
    version = tables.restore(target, version=1).version
    assert changed_rows(target, version) == [(1, "insert"), (7, "insert"), (100, "delete"), (101, "delete")]
    version = tables.restore(target, version=2).version
    assert changed_rows(target, version) == [(1, "delete"), (7, "delete")]


def test_schema_and_properties_come_back(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    tables.add_columns(target, {"name": "string"})
    tables.set_properties(target, {"delta.checkpointInterval": "7"})
    tables.append(target, numbers(50, 1, name="x"))
    tables.restore(target, version=0)
    assert lakeport.scan(target).schema.names == ["id"]
    assert "delta.checkpointInterval" not in snapshot_of(target).properties
    tables.restore(target, version=3)
    assert rows_of(lakeport.scan(target).where("id = 50")) == [{"id": 50, "name": "x"}]


def test_partitioning_comes_back(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    data = pa.table({"id": [1, 2], "day": ["a b", "50%"]})
    tables.create(target, data, partition_by=["day"])
    write_deltalake(target, numbers(5, 1), mode="overwrite", schema_mode="overwrite", partition_by=[])
    tables.restore(target, version=0)
    assert snapshot_of(target).partition_columns == ("day",)
    assert rows_of(target) == data.to_pylist()


def test_clustering_comes_back(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    tables.create(target, pa.table({"id": [1], "day": ["a"]}), cluster_by=["id"])
    replace_table(snapshot_of(target), snapshot_of(target).schema, ["day"]).commit()
    assert "delta.clustering" not in snapshot_of(target).domain_metadata
    tables.restore(target, version=0)
    assert update_table(snapshot_of(target), "WRITE").definition.clustering_columns == (("id",),)
    assert snapshot_of(target).partition_columns == ()
    assert ids(target) == [1]


def test_a_constraint_of_another_writer_comes_back_though_it_is_not_understood(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    constraint = {"delta.constraints.odd": "a_function_of_theirs(id)"}
    table = TableBuilder(later(0), target, struct(id="long"), (), constraint, protocol(writer=3)).create()
    tables.drop_constraint(target, "odd")
    assert not snapshot_of(target).properties
    tables.restore(target, version=table.version)
    assert snapshot_of(target).properties == constraint


def test_the_protocol_is_not_downgraded(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1)
    tables.set_properties(target, VECTORS)
    tables.restore(target, version=0)
    snapshot = snapshot_of(target)
    assert snapshot.protocol.has_reader_feature("deletionVectors")
    assert "delta.enableDeletionVectors" not in snapshot.properties


def test_a_renamed_column_gets_its_old_name_and_no_id_is_given_twice(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, MAPPED)
    tables.add_columns(target, {"other": "string"})
    tables.rename_column(target, "id", "key")
    tables.restore(target, version=0)
    assert ids(target) == list(range(10))
    tables.add_columns(target, {"third": "string"})
    third = snapshot_of(target).schema.resolve(("third",))[0]
    assert third.field_id == 3


def test_rows_keep_their_ids_and_no_id_is_given_twice(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS, TRACKING)
    before = rows_of(lakeport.scan(target).with_row_tracking())
    tables.append(target, numbers(100, 10))
    tables.delete(target, "id = 3")
    tables.optimize(target)
    tables.restore(target, version=1)
    assert rows_of(lakeport.scan(target).with_row_tracking()) == before
    tables.append(target, numbers(200, 5))
    new = rows_of(lakeport.scan(target).where("id >= 200").with_row_tracking())
    assert min(row["_row_id"] for row in new) == 59  # optimize gave ids to its file too


def test_a_version_before_row_tracking_gets_row_ids(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2, VECTORS)
    tables.delete(target, "id = 3")
    tables.set_properties(target, TRACKING)
    tracked = {row["id"]: row["_row_id"] for row in rows_of(lakeport.scan(target).with_row_tracking())}
    tables.restore(target, version=1)
    tables.set_properties(target, TRACKING)
    again = {row["id"]: row["_row_id"] for row in rows_of(lakeport.scan(target).with_row_tracking())}
    assert {number: again[number] for number in tracked} == tracked
    assert len(set(again.values())) == 20


def test_in_commit_timestamps_keep_their_own_beginning(tmp_path: Path) -> None:
    target, on = table_of(tmp_path, 1), {"delta.enableInCommitTimestamps": "true"}
    tables.set_properties(target, on)  # version 1
    tables.set_properties(target, {"delta.enableInCommitTimestamps": "false"})
    tables.append(target, numbers(10, 1))
    tables.set_properties(target, on)  # version 4
    tables.restore(target, version=1)
    assert snapshot_of(target).properties["delta.inCommitTimestampEnablementVersion"] == "4"
    assert [commit.version for commit in tables.history(target)] == [5, 4, 3, 2, 1, 0]


def test_metadata_domains_come_back(tmp_path: Path) -> None:
    builder = TableBuilder(
        later(0), str(tmp_path / "t"), struct(id="long"), protocol=protocol(writer_only=["domainMetadata"])
    )
    builder.create({"domainMetadata": {"domain": "a", "configuration": "old", "removed": False}})
    builder.commit(
        {"domainMetadata": {"domain": "a", "configuration": "new", "removed": False}},
        {"domainMetadata": {"domain": "b", "configuration": "b", "removed": False}},
    )
    tables.restore(builder.root, version=0)
    assert snapshot_of(builder.root).domain_metadata == {"a": "old"}


def test_files_that_were_vacuumed_are_named_before_anything_happens(tmp_path: Path) -> None:
    target = table_of(tmp_path, 3)
    tables.delete(target, "id < 20")
    tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=later(1000))
    with pytest.raises(MissingFileError, match=r"version 2 .* 2 of its files are gone.*part-.*ignore_missing_files"):
        tables.restore(target, version=2)
    assert tables.history(target, 1)[0].operation == "VACUUM END"
    assert ids(target) == list(range(20, 30))
    tables.append(target, numbers(50, 1))
    result = tables.restore(target, version=2, ignore_missing_files=True)
    assert (result.metrics["numRestoredFiles"], ids(target)) == (0, list(range(20, 30)))


def test_a_deletion_vector_that_was_vacuumed_is_missing_too(tmp_path: Path) -> None:
    target = table_of(tmp_path, 1, VECTORS, rows=50)
    tables.delete(target, "id = 1")
    tables.delete(target, "id = 2")
    tables.vacuum(target, retention=0, enforce_retention=False, dry_run=False, engine=later(1000))
    with pytest.raises(MissingFileError, match="deletion_vector_"):
        tables.restore(target, version=1)
    tables.restore(target, version=0)
    assert ids(target) == list(range(50))


def test_an_append_only_table_keeps_its_rows(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.set_properties(target, {"delta.appendOnly": "true"})
    with pytest.raises(UnsupportedFeatureError, match="append-only"):
        tables.restore(target, version=0)


class _Interrupted(Storage):
    """Another writer commits while the files are looked for."""

    def __init__(self, interrupt: Callable[[], object]) -> None:
        super().__init__()
        self._interrupt: list[Callable[[], object]] = [interrupt]

    def status(self, path: str) -> FileStatus | None:
        if path.endswith(".parquet") and self._interrupt:
            self._interrupt.pop()()
        return super().status(path)


def test_a_change_of_rows_meanwhile_conflicts(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = engine_over(_Interrupted(lambda: tables.delete(target, "id = 3")))
    with pytest.raises(CommitConflictError, match=r"version 3 \(DELETE\)"):
        tables.restore(target, version=1, engine=engine)
    assert ids(target) == [i for i in range(20) if i != 3]


def test_an_append_meanwhile_counts_as_made_after_it(tmp_path: Path) -> None:
    target = table_of(tmp_path, 2)
    tables.optimize(target)
    engine = engine_over(_Interrupted(lambda: tables.append(target, numbers(100, 1))))
    tables.restore(target, version=0, engine=engine)
    assert ids(target) == [*range(10), 100]


def test_a_table_of_deltalake_is_restored_and_read_back_by_it(tmp_path: Path) -> None:
    target = str(tmp_path / "t")
    cities = ["São Paulo", "a b", "50%", "x/y", "北京"]
    write_deltalake(target, pa.table({"id": range(5), "city": cities}), partition_by=["city"])
    DeltaTable(target).delete("id = 2")
    write_deltalake(target, pa.table({"id": [9], "city": ["new"]}), mode="append")
    tables.restore(target, version=0)
    theirs = DeltaTable(target)
    assert theirs.version() == 3
    read = duckdb.from_arrow(theirs.to_pyarrow_table()).order("id").fetchall()
    assert read == list(enumerate(cities))
    theirs.restore(2)
    assert ids(target) == [0, 1, 3, 4, 9]
