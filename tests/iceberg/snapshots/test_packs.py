"""Delete files that several data files share: few of them, and right whatever becomes of the data files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from lakeport import iceberg
from lakeport.engine import default_engine, engine_over
from lakeport.iceberg import Conversion
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.iceberg.manifests import manifest as manifests
from lakeport.iceberg.snapshots import deletes
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.testing.builder import Action, TableBuilder, protocol, remove, struct
from lakeport.testing.counting import CountingStorage
from tests.iceberg.readers import PyIceberg, Reader, assert_mirrors, snapshots_of

FILES = 12
Files = list[Action]


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Two partitions of six files with four rows each; no checksums."""
    table = TableBuilder(
        default_engine(),
        str(tmp_path / "table"),
        struct(id="long", p="string"),
        partition_by=["p"],
        protocol=protocol(features=["deletionVectors"]),
    )
    parts = ["a", "b"] * (FILES // 2)
    files = [
        table.add({"id": [10 * n + i for i in range(4)]}, {"p": part}, name=f"p={part}/f{n:02d}")
        for n, part in enumerate(parts)
    ]
    return table.create(*files)


def delete_all(table: TableBuilder, files: Files, positions: list[int]) -> Files:
    """A wide delete; gives the files as they are then."""
    pairs = [table.delete(file, positions) for file in files]
    table.commit(*(action for pair in pairs for action in pair))
    return [after for _, after in pairs]


def files_of(table: TableBuilder) -> Files:
    return table.versions[0][2:]


def delete_files(conversion: Conversion) -> list[str]:
    """The paths of the delete files of the latest snapshot."""
    scan = StaticTable.from_metadata(conversion.metadata_location).scan()
    return sorted({file.file_path for task in scan.plan_files() for file in task.delete_files})


def total(conversion: Conversion, name: str = "delete-files") -> int:
    return int(snapshots_of(conversion)[conversion.version]["summary"][f"total-{name}"])


def test_a_wide_delete_makes_one_file_for_each_partition(reader: Reader, table: TableBuilder) -> None:
    delete_all(table, files_of(table), [1, 3])
    conversion = iceberg.convert(table.root, since=0)
    assert (len(delete_files(conversion)), total(conversion), total(conversion, "position-deletes")) == (2, 2, 24)
    assert_mirrors(reader, table.root, conversion, [0, 1])
    assert iceberg.verify(table.root, rows=True).is_equal


def test_version_three_has_a_vector_for_each_data_file(table: TableBuilder) -> None:
    delete_all(table, files_of(table), [1, 3])
    assert total(iceberg.convert(table.root, format_version=3)) == FILES


def test_files_have_about_the_target_size(table: TableBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_all(table, files_of(table), [1, 3])
    path = len(f"{table.root}/p=a/f00")
    monkeypatch.setattr(deletes, "_TARGET_BYTES", 2 * (path + 2 * 8))
    conversion = iceberg.convert(table.root)
    assert total(conversion) == FILES // 2
    assert_mirrors(PyIceberg(), table.root, conversion, [1])


def test_a_large_vector_is_alone() -> None:
    def vector(name: str, rows: int) -> InternalDeletionVector:
        return InternalDeletionVector(name, DeletionVectorDescriptor("i", name, 1, rows), None)

    given = [vector("d", 1), vector("b", 1 << 20), vector("c", 2), vector("a", 3)]
    found = [[member.data_file_path for member in group] for group in deletes.pack(given, lambda _: ())]
    assert found == [["a"], ["b"], ["c", "d"]]


def nan_table(root: Path, data_type: str) -> TableBuilder:
    """Three files of four rows in a partition of NaN."""
    schema = struct(id="long", p=data_type)
    features = protocol(features=["deletionVectors"])
    table = TableBuilder(default_engine(), str(root), schema, partition_by=["p"], protocol=features)
    return table.create(*(table.add({"id": [10 * n + i for i in range(4)]}, {"p": "NaN"}) for n in range(3)))


@pytest.mark.parametrize(("data_type", "is_shared"), [("float", False), ("double", False), ("double", True)])
def test_in_a_partition_of_nan_each_data_file_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_type: str, is_shared: bool
) -> None:
    """Also after a shared one is rewritten."""
    table = nan_table(tmp_path / "table", data_type)
    files = delete_all(table, files_of(table), [1])
    with monkeypatch.context() as patched:
        if is_shared:
            patched.setattr(deletes, "has_nan", lambda _: False)
        conversion = iceberg.convert(table.root, since=0)
    assert total(conversion) == (1 if is_shared else 3)
    assert is_shared or len(delete_files(conversion)) == 3
    table.commit(*table.delete(files[0], [1, 2]))
    conversion = iceberg.convert(table.root)
    assert (conversion.kind, total(conversion)) == ("incremental", 3)
    assert iceberg.verify(table.root, rows=True).is_equal


def test_the_text_nan_is_a_partition_like_others(table: TableBuilder) -> None:
    files = [table.add({"id": [n, n + 1]}, {"p": "NaN"}) for n in (200, 300)]
    table.commit(*files)
    delete_all(table, files, [1])
    assert total(iceberg.convert(table.root)) == 1


@pytest.mark.parametrize("way", ["more", "fewer", "none", "gone", "all"])
def test_what_becomes_of_one_data_file_leaves_the_others_as_they_are(
    reader: Reader, table: TableBuilder, way: str
) -> None:
    """It gets more or fewer deletes, or none, or it leaves; or all of them leave."""
    files = delete_all(table, files_of(table), [1, 3])
    before = iceberg.convert(table.root, since=0)
    changes: dict[str, Any] = {
        "more": [*table.delete(files[4], [0, 1, 3])],
        "fewer": [*table.delete(files[4], [3])],
        "none": [remove(files[4]), files_of(table)[4]],
        "gone": [remove(files[4])],
        "all": [remove(file) for file in files[::2]],
    }
    table.commit(*changes[way])
    conversion = iceberg.convert(table.root)
    assert (conversion.kind, conversion.versions) == ("incremental", (2,))
    assert_mirrors(reader, table.root, conversion, [0, 1, 2])
    assert iceberg.verify(table.root, rows=True).is_equal
    assert total(conversion) == {"more": 3, "fewer": 3, "all": 1}.get(way, 2)
    assert len(set(delete_files(before)) & set(delete_files(conversion))) == 1, "the other partition's stays"
    summary = snapshots_of(conversion)[2]["summary"]
    counts = [int(summary.get(f"{name}-position-deletes", 0)) for name in ("added", "removed")]
    assert counts == {"more": [13, 12], "fewer": [11, 12], "all": [0, 12]}.get(way, [10, 12])
    assert summary["operation"] == ("overwrite" if way in ("fewer", "none") else "delete")


def test_many_changes_one_after_another(reader: Reader, table: TableBuilder) -> None:
    files = delete_all(table, files_of(table), [3])
    iceberg.convert(table.root, since=0)
    for n in range(0, FILES, 2):
        files[n : n + 3] = delete_all(table, files[n : n + 3], [n % 3, 3])
    conversion = iceberg.convert(table.root)
    assert conversion.kind == "incremental"
    assert_mirrors(reader, table.root, conversion, list(range(FILES // 2 + 2)))
    assert iceberg.verify(table.root, rows=True).is_equal


def test_after_an_upgrade_the_others_get_vectors(reader: Reader, table: TableBuilder) -> None:
    """Format version 3 allows no new files of positions."""
    files = delete_all(table, files_of(table), [1, 3])
    iceberg.convert(table.root, since=0)
    table.commit(*table.delete(files[4], [0, 1, 3]))
    conversion = iceberg.convert(table.root, format_version=3)
    assert_mirrors(reader, table.root, conversion, [0, 1, 2])
    summary = snapshots_of(conversion)[2]["summary"]
    assert (summary["added-dvs"], summary["removed-position-delete-files"]) == ("6", "1")
    assert sum(path.endswith(".parquet") for path in delete_files(conversion)) == 1
    assert iceberg.verify(table.root, rows=True).is_equal
    table.commit(*table.delete(files[1], [0, 1, 3]), *table.delete(files[2], [1, 2, 3]))
    conversion = iceberg.convert(table.root)
    assert conversion.kind == "incremental"
    assert_mirrors(reader, table.root, conversion, [0, 1, 2, 3])


def test_only_new_commits_are_read_where_files_are_shared(table: TableBuilder) -> None:
    """Which vectors are in a shared file, its manifest tells, also after one has left it."""
    files = delete_all(table, files_of(table), [1, 3])
    table.checkpoint()
    iceberg.convert(table.root)
    for number, file in enumerate((files[4], files[6], files[1])):
        table.commit(*table.delete(file, [0, 1, 3]))
        storage = CountingStorage(default_engine().storage)
        conversion = iceberg.convert(table.root, engine=engine_over(storage))
        assert conversion.kind == "incremental"
        assert {name for name in storage.opened if ".checkpoint." in name} == set(), number
    assert iceberg.verify(table.root, rows=True).is_equal


def test_a_manifest_that_others_have_written_anew_is_answered_by_a_whole_snapshot(
    table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = delete_all(table, files_of(table), [1, 3])
    iceberg.convert(table.root)
    table.commit(*table.delete(files[4], [0, 1, 3]))
    with monkeypatch.context() as patched:
        patched.setattr(manifests, "_parse_index", lambda _: None)
        conversion = iceberg.convert(table.root)
    assert (conversion.kind, conversion.versions) == ("full", (2,))
    assert iceberg.verify(table.root, rows=True).is_equal


def test_what_is_packed_anew_is_cleaned_up_when_nobody_needs_it(table: TableBuilder) -> None:
    files = delete_all(table, files_of(table), [1, 3])
    iceberg.convert(table.root)
    table.commit(*table.delete(files[4], [0, 1, 3]))
    conversion = iceberg.convert(table.root)
    needed, folder = delete_files(conversion), Path(conversion.location) / "deletes"
    assert len(needed) < len(list(folder.iterdir()))
    iceberg.clean(table.root, retention="0 seconds", grace="0 seconds", dry_run=False)
    assert sorted(map(str, folder.iterdir())) == needed
