"""What the source of a conversion says of a table: every shape of a commit, each log file read once at most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lakeport import tables
from lakeport.engine import default_engine, engine_over, memory_engine
from lakeport.errors import CorruptTableError, LakeportError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.iceberg.delta.change import TableChange
from lakeport.iceberg.delta.source import LogTruncatedError, open_increment, plan_full
from lakeport.kernel.snapshot import Snapshot, Table
from lakeport.testing.builder import Action, TableBuilder, protocol, remove, struct
from lakeport.testing.counting import CountingStorage, counting_engine
from tests.acceptance.real_tables import NAMES, path_of
from tests.examples import examples

VECTORS = protocol(features=["deletionVectors"])


def builder(engine: Any = None, **options: Any) -> TableBuilder:
    root = options.pop("root", "mem://t")
    return TableBuilder(engine or memory_engine(), root, struct(id="long"), protocol=VECTORS, **options)


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass
class Mirror:
    """A target as simple as can be: which files it has, and which deletion vectors."""

    files: dict[str, str] = field(default_factory=dict)

    def apply(self, change: TableChange) -> None:
        for path in change.vectors_removed:
            assert self.files[path], "a vector that goes was there"
            self.files[path] = ""
        for path in change.files_removed:
            assert self.files.pop(path) == "", "a file goes with its vector"
        for file in change.files_added:
            assert file.path not in self.files, "a file that comes was not there"
            self.files[file.path] = ""
        for vector in change.vectors_added:
            assert self.files[vector.data_file_path] == "", "a vector takes the place of none"
            self.files[vector.data_file_path] = vector.descriptor.unique_id

    def agrees(self, files: Mapping[str, str], absent: Collection[str]) -> bool:
        return files.items() <= self.files.items() and not self.files.keys() & set(absent)

    @classmethod
    def of(cls, changes: Iterable[TableChange]) -> Mirror:
        mirror = cls()
        for change in changes:
            mirror.apply(change)
        return mirror


def expected(snapshot: Snapshot) -> Mirror:
    files = snapshot.scan_builder().build().files()
    return Mirror({f.path: f.deletion_vector.unique_id if f.deletion_vector else "" for f in files})


def summary(change: TableChange) -> dict[str, list[str]]:
    """The parts of a change that are not empty, by the names of files."""
    parts = {
        "added": [name_of(file.path) for file in change.files_added],
        "removed": [name_of(path) for path in change.files_removed],
        "vectors": [name_of(vector.data_file_path) for vector in change.vectors_added],
        "former": [name_of(path) for path in change.vectors_removed],
    }
    return {name: sorted(found) for name, found in parts.items() if found}


def changes_after(table: Table, version: int, *, squash: bool = False) -> Iterator[TableChange]:
    return open_increment(table, version).changes(squash=squash)


def last_change(table: TableBuilder) -> TableChange:
    *_, change = changes_after(table.table(), table.version - 1)
    return change


@pytest.fixture
def table() -> TableBuilder:
    return builder()


@pytest.fixture
def file(table: TableBuilder) -> Action:
    """A file that is in the table."""
    add = table.add({"id": [1, 2, 3]}, name="a")
    table.create(add)
    return add


# Whole versions


def test_a_full_plan_adds_all_files_with_their_vectors_and_statistics(table: TableBuilder, file: Action) -> None:
    other = table.add({"id": [4, 5]}, name="b")
    info = {"commitInfo": {"operation": "DELETE", "timestamp": 5}}
    table.commit(*table.delete(file, [1]), other, info)
    change = plan_full(table.snapshot())
    assert summary(change) == {"added": ["a", "b"], "vectors": ["a"]}
    assert (change.version, change.operation, change.data_change, change.is_empty) == (1, "DELETE", True, False)
    assert change.timestamp == table.snapshot().commit_times().of(1)
    [vector] = change.vectors_added
    assert [p.tolist() for p in vector.ordinals(table.engine)] == [[1]]
    assert all(found.stats and found.uri for found in change.files_added)


def test_a_full_plan_of_a_version_whose_commit_is_gone_has_no_operation(table: TableBuilder, file: Action) -> None:
    table.checkpoint()
    table.engine.storage.delete([table.log_file(f"{0:020d}.json")])
    change = plan_full(table.snapshot())
    assert (summary(change), change.operation) == ({"added": ["a"]}, "")


# The shapes of a commit


def test_a_commit_that_adds_and_removes_files(table: TableBuilder, file: Action) -> None:
    table.commit(remove(file), table.add({"id": [9]}, name="b"), {"commitInfo": {"operation": "WRITE"}})
    change = last_change(table)
    assert summary(change) == {"added": ["b"], "removed": ["a"]}
    assert (change.version, change.operation, change.data_change) == (1, "WRITE", True)
    assert (change.snapshot.version, change.snapshot.schema) == (1, table.schema)
    assert change.files_added[0].stats


def test_a_first_vector_a_larger_one_none_again_and_a_file_that_goes_with_it(table: TableBuilder, file: Action) -> None:
    table.commit(*table.delete(file, [0]))
    assert summary(last_change(table)) == {"vectors": ["a"]}
    first = table.versions[1][1]
    table.commit(*table.delete(first, [0, 1], kind="i"))
    assert summary(last_change(table)) == {"vectors": ["a"], "former": ["a"]}
    second = table.versions[2][1]
    table.commit(remove(second), file)
    assert summary(last_change(table)) == {"former": ["a"]}
    table.commit(remove(file), second)
    table.commit(remove(second))
    assert summary(last_change(table)) == {"removed": ["a"], "former": ["a"]}


def test_a_file_that_comes_with_a_vector(table: TableBuilder, file: Action) -> None:
    other = table.add({"id": [4, 5]}, name="b", deletionVector=table.deletion_vector([1], kind="p"))
    table.commit(other)
    assert summary(last_change(table)) == {"added": ["b"], "vectors": ["b"]}


def test_an_empty_vector_is_none(table: TableBuilder, file: Action) -> None:
    table.commit(*table.delete(file, [], kind="i"))
    assert last_change(table).is_empty


def test_a_vector_and_a_compaction_in_one_commit(table: TableBuilder, file: Action) -> None:
    others = [table.add({"id": [number]}, name=f"b{number}") for number in range(3)]
    table.commit(*others)
    table.commit(*table.delete(file, [2]), *map(remove, others), table.add({"id": [0, 1, 2]}, name="c"))
    change = {"added": ["c"], "removed": ["b0", "b1", "b2"], "vectors": ["a"]}
    assert summary(last_change(table)) == change


def test_a_rewrite_changes_no_data(table: TableBuilder, file: Action) -> None:
    gone = remove(file)
    gone["remove"]["dataChange"] = False
    table.commit(gone, table.add({"id": [1, 2, 3]}, name="b", dataChange=False))
    change = last_change(table)
    assert summary(change) == {"added": ["b"], "removed": ["a"]}
    assert not change.data_change


@pytest.mark.parametrize("data_change", [True, False])
def test_a_file_that_is_added_again_changes_nothing(table: TableBuilder, file: Action, data_change: bool) -> None:
    table.commit({"add": file["add"] | {"dataChange": data_change, "tags": {"seen": "again"}}})
    table.commit(table.add({"id": [7]}, name="b"))
    first, second = changes_after(table.table(), 0)
    assert first.is_empty
    assert summary(second) == {"added": ["b"]}


def test_a_remove_of_a_file_that_is_not_there_changes_nothing(table: TableBuilder, file: Action) -> None:
    table.commit({"remove": {"path": "never", "dataChange": True}}, table.add({"id": [7]}, name="b"))
    assert summary(last_change(table)) == {"added": ["b"]}


def test_a_file_that_is_removed_and_added_with_the_same_vector_stays(table: TableBuilder, file: Action) -> None:
    table.commit(remove(file), file)
    assert last_change(table).is_empty


def test_a_file_that_is_removed_with_and_without_its_vector_loses_it(table: TableBuilder, file: Action) -> None:
    table.commit(*table.delete(file, [0]))
    table.commit(remove(file), remove(table.versions[1][1]), *table.delete(file, [0, 1])[1:])
    assert summary(last_change(table)) == {"vectors": ["a"], "former": ["a"]}


def test_a_second_vector_beside_the_first_is_damage(table: TableBuilder, file: Action) -> None:
    table.commit(table.delete(file, [0])[1])
    with pytest.raises(CorruptTableError, match="not removed"):
        last_change(table)
    table.commit(table.delete(file, [0])[1], table.delete(file, [1])[1], version=1)
    with pytest.raises(CorruptTableError, match="two deletion vectors"):
        last_change(table)


def test_paths_are_decoded_once_and_absolute(table: TableBuilder, file: Action) -> None:
    odd = table.add({"id": [1]}, name="d=a%20b/x y", path="d=a%2520b/x%20y")
    far = table.add({"id": [2]}, name="far", path="mem://t/far")
    table.commit(odd, far)
    assert [f.path for f in last_change(table).files_added] == ["mem://t/d=a%20b/x y", "mem://t/far"]
    table.commit(remove(far), *table.delete(odd, [0]))
    change = last_change(table)
    assert change.files_removed == ["mem://t/far"]
    assert [v.data_file_path for v in change.vectors_added] == ["mem://t/d=a%20b/x y"]


def test_each_change_has_the_schema_partitions_and_properties_of_its_version(table: TableBuilder) -> None:
    table.create()
    table.schema, table.properties = struct(id="long", name="string"), {"a": "b"}
    table.commit(table.metadata)
    table.commit(table.add({"id": [1], "name": ["x"]}, name="a"))
    first, second = changes_after(table.table(), 0)
    assert first.is_empty
    assert not first.data_change
    assert [c.snapshot.schema.names for c in (first, second)] == [("id", "name")] * 2
    assert second.snapshot.properties == {"a": "b"}
    assert expected(second.snapshot) == expected(table.snapshot())


def test_a_version_that_cannot_be_read_is_refused_when_it_comes(table: TableBuilder, file: Action) -> None:
    table.commit(table.add({"id": [1]}, name="b"))
    table.commit(protocol(features=["future"]))
    changes = changes_after(table.table(), 0)
    assert summary(next(changes)) == {"added": ["b"]}
    with pytest.raises(UnsupportedFeatureError):
        next(changes)


def test_times_are_those_of_the_commits() -> None:
    properties = {"delta.enableInCommitTimestamps": "true"}
    table = builder(properties=properties)
    for version, action in enumerate([table.protocol, table.add({"id": [1]}), table.add({"id": [2]})]):
        info = {"commitInfo": {"inCommitTimestamp": 1000 + version}}
        table.commit(info, action, *([table.metadata] if version == 0 else []))
    assert [change.timestamp for change in changes_after(table.table(), 0)] == [1001, 1002]
    assert plan_full(table.snapshot()).timestamp == 1002


# What is read


def test_nothing_is_new_after_the_latest_version(table: TableBuilder, file: Action) -> None:
    assert list(changes_after(table.table(), 0)) == []
    assert list(changes_after(table.table(), 0, squash=True)) == []


def test_with_checksums_only_the_new_commits_are_read_and_not_the_files_of_the_checkpoint(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    tables.create(root, pa.table({"id": range(100)}), properties={"delta.enableDeletionVectors": "true"})
    for start in range(3):
        tables.append(root, pa.table({"id": [start]}))
    tables.checkpoint(root)
    tables.append(root, pa.table({"id": [1000]}))
    tables.delete(root, "id < 5")
    tables.optimize(root)
    mirror = Mirror.of([plan_full(Table.for_path(default_engine(), root).snapshot_at_version(3))])
    storage = CountingStorage(default_engine().storage)
    operations = []
    for change in open_increment(Table.for_path(engine_over(storage), root), 3).changes(mirror):
        mirror.apply(change)
        operations.append(change.operation)
    assert operations == ["WRITE", "DELETE", "OPTIMIZE"]
    assert [name for name in storage.opened if name.endswith(".json")] == [
        f"{version:020d}.json" for version in (4, 5, 6)
    ]
    assert storage.opened.count(f"{3:020d}.checkpoint.parquet") <= 1  # for the protocol and the metadata


def test_without_checksums_the_checkpoint_is_read_once_and_each_new_commit_once() -> None:
    engine, storage = counting_engine()
    table = builder(engine)
    table.create(*(table.add({"id": [n]}, name=f"f{n}") for n in range(4)))
    [checkpoint] = table.checkpoint()
    for number in range(5):
        table.commit(table.add({"id": [number]}, name=f"g{number}"))
    storage.opened.clear()
    changes = list(changes_after(table.table(), 0))
    assert [summary(change) for change in changes] == [{"added": [f"g{n}"]} for n in range(5)]
    opened = [name for name in storage.opened if not name.endswith(".crc")]
    assert opened.count(checkpoint) <= 2  # its protocol and metadata, and the paths of its files
    assert all(opened.count(f"{version:020d}.json") == 1 for version in range(1, 6))


# Truncated logs


def test_a_commit_that_was_cleaned_up_is_told_at_once(table: TableBuilder, file: Action) -> None:
    table.commit(table.add({"id": [1]}, name="b")).commit(table.add({"id": [2]}, name="c"))
    table.checkpoint()
    table.commit(table.add({"id": [3]}, name="d"))
    table.engine.storage.delete([table.log_file(f"{version:020d}.json") for version in (0, 1)])
    with pytest.raises(LogTruncatedError) as raised:
        changes_after(table.table(), 0)
    assert raised.value.version == 0
    table.engine.storage.delete([table.log_file(f"{version:020d}.json") for version in (2, 3)])
    table.checkpoint(1, hint=False)
    with pytest.raises(LogTruncatedError, match="the changes of version 2 are gone"):
        changes_after(table.table(), 1)


def test_a_commit_that_is_cleaned_up_meanwhile_is_told_when_it_comes(table: TableBuilder, file: Action) -> None:
    table.commit(table.add({"id": [1]}, name="b")).commit(table.add({"id": [2]}, name="c"))
    changes = changes_after(table.table(), 0)
    next(changes)
    table.engine.storage.delete([table.log_file(f"{2:020d}.json")])
    with pytest.raises(LogTruncatedError, match="version 2"):
        next(changes)


def test_a_version_that_the_table_never_had_is_one_that_it_does_not_have(table: TableBuilder, file: Action) -> None:
    with pytest.raises(VersionNotFoundError):
        changes_after(table.table(), 7)


# Ranges as one


def test_what_comes_and_goes_in_a_range_is_not_told(table: TableBuilder, file: Action) -> None:
    passing = table.add({"id": [4, 5]}, name="b")
    table.commit(passing)
    table.commit(*table.delete(passing, [0]), *table.delete(file, [0]))
    table.commit(*map(remove, table.versions[2][1::2]))
    table.commit(table.versions[2][3], {"commitInfo": {"operation": "RESTORE"}})
    [change] = changes_after(table.table(), 0, squash=True)
    assert summary(change) == {"vectors": ["a"]}
    assert (change.version, change.operation, change.data_change) == (4, "RESTORE", True)


# Histories


def _step(root: str, step: tuple[str, int]) -> None:
    kind, number = step
    match kind:
        case "append":
            tables.append(root, pa.table({"id": range(number * 10, number * 10 + 10), "p": [number % 3] * 10}))
        case "delete":
            tables.delete(root, f"id % {2 + number % 5} = 0")
        case "update":
            tables.update(root, {"id": "id + 1"}, f"id % 7 = {number % 7}")
        case "optimize":
            tables.optimize(root)
        case "overwrite":
            tables.overwrite(root, pa.table({"id": [number], "p": [number % 3]}))
        case "restore":
            latest = Table.for_path(default_engine(), root).latest_snapshot().version
            tables.restore(root, version=number % (latest + 1))
        case "checkpoint":
            tables.checkpoint(root)


_KINDS = ["append", "append", "delete", "delete", "update", "optimize", "overwrite", "restore", "restore", "checkpoint"]


@given(st.lists(st.tuples(st.sampled_from(_KINDS), st.integers(0, 20)), min_size=1, max_size=8), st.data())
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_histories_lead_to_the_files_of_each_version(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    root = str(tmp_path_factory.mktemp("t") / "t")
    properties = {"delta.enableDeletionVectors": "true"}
    rows = pa.table({"id": range(30), "p": [number % 3 for number in range(30)]})
    tables.create(root, rows, partition_by=["p"], properties=properties)
    for step in steps:
        _step(root, step)
    table = Table.for_path(default_engine(), root)
    latest = table.latest_snapshot().version
    mirror = Mirror.of([plan_full(table.snapshot_at_version(0))])
    for change in changes_after(table, 0):
        mirror.apply(change)
        assert mirror == expected(table.snapshot_at_version(change.version))
    start = data.draw(st.integers(0, latest))
    squashed = changes_after(table, start, squash=True)
    assert Mirror.of([plan_full(table.snapshot_at_version(start)), *squashed]) == mirror


def test_the_commits_of_real_tables_lead_to_the_files_of_each_version() -> None:
    followed = 0
    for name in NAMES:
        table = Table.for_path(default_engine(), path_of(name))
        try:
            mirror = Mirror.of([plan_full(table.snapshot_at_version(0))])
            changes = list(changes_after(table, 0))
        except LakeportError:
            continue
        for change in changes:
            mirror.apply(change)
            assert mirror == expected(table.snapshot_at_version(change.version)), f"{name} {change.version}"
            followed += 1
    assert followed > 100
