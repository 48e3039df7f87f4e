"""What an increment reads: the new commits, once, and of the mirror what it must; and that it is right nevertheless."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import default_engine, engine_over
from lakeport.errors import ConversionError, MissingFileError, UnsupportedFeatureError, VersionNotFoundError
from lakeport.iceberg import Conversion
from lakeport.iceberg.delta import source as delta_source
from lakeport.iceberg.delta.kept_version import KEPT_VERSION
from lakeport.testing.builder import Action, TableBuilder, protocol, remove, struct
from lakeport.testing.counting import CountingStorage
from tests.iceberg.changing import FORMATS, numbers, vector_table
from tests.iceberg.head_storage import HeadStorage
from tests.iceberg.readers import PyIceberg, assert_mirrors, edited, metadata_of, snapshots_of
from tests.properties import VECTORS


def builder(folder: Path) -> TableBuilder:
    """A table whose writer makes no checksums."""
    table = vector_table(folder / "table")
    return table.create(*(table.add({"id": [n, n + 1, n + 2]}, name=f"f{n}") for n in range(4)))


def follow(table: TableBuilder, *commits: Sequence[Action]) -> dict[str, str]:
    """Convert after each of the commits, which the mirror follows; gives the summary of the last snapshot."""
    for actions in commits:
        table.commit(*actions)
        conversion = iceberg.convert(table.root)
        assert conversion.kind == "incremental"
    assert_mirrors(PyIceberg(), table.root, conversion, list(range(table.version + 1)))
    summary: dict[str, str] = snapshots_of(conversion)[table.version]["summary"]
    return summary


def assert_rebuilt(path: str, version: int, **options: Any) -> Conversion:
    """The next conversion makes one snapshot, of this version, which has the rows of the table."""
    conversion = iceberg.convert(path, **options)
    assert (conversion.kind, conversion.versions) == ("full", (version,))
    assert iceberg.verify(path, rows=True).is_equal
    return conversion


def convert_counted(path: str, **options: Any) -> tuple[Conversion, Counter[str]]:
    storage = HeadStorage(default_engine().storage)
    conversion = iceberg.convert(path, engine=engine_over(storage), **options)
    return conversion, Counter(storage.opened)


def assert_read(opened: Counter[str], commits: Sequence[int]) -> None:
    """Of the log the commits were read and no checkpoint, and nothing was read twice but vectors of one file."""
    log = {name for name in opened if name[:20].isdigit() and not name.endswith(".crc")}
    assert log == {f"{version:020d}.json" for version in commits}
    assert {name for name, count in opened.items() if count > 1 and not name.endswith(".bin")} == set()


def manifests_read(opened: Counter[str]) -> int:
    return sum(name.endswith("-m0.avro") for name in opened)


# What is read


@FORMATS
@pytest.mark.parametrize("way", ["append", "delete", "update", "optimize", "nothing"])
def test_of_a_table_with_checksums_the_new_commit_is_read_and_no_checkpoint(
    tmp_path: Path, way: str, version: int
) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 30), partition_by=["g"], properties=VECTORS)
    tables.append(table, numbers(30, 60))
    tables.checkpoint(table)
    iceberg.convert(table, format_version=version)
    match way:
        case "append":
            tables.append(table, numbers(60, 70))
        case "delete":
            tables.delete(table, "id % 5 = 0")
        case "update":
            tables.update(table, {"name": "'new'"}, "id < 3")
        case "optimize":
            tables.optimize(table)
        case "nothing":
            tables.set_properties(table, {"delta.appendOnly": "false"})
    conversion, opened = convert_counted(table)
    assert (conversion.kind, conversion.versions) == ("incremental", (2,))
    assert_read(opened, [2])
    assert manifests_read(opened) <= (0 if way == "nothing" else 2)  # does one have a file that is added?
    assert_mirrors(PyIceberg(), table, conversion, [1, 2])


@FORMATS
def test_of_a_table_without_checksums_the_new_commit_is_read_and_each_manifest_once(
    tmp_path: Path, version: int
) -> None:
    table = builder(tmp_path)
    files = table.versions[0][2:]
    table.checkpoint()
    iceberg.convert(table.root, format_version=version)
    steps: list[tuple[Sequence[Action], int]] = [
        ([table.add({"id": [7]}, name="g")], 1),  # the manifest does not have it
        ([*table.delete(files[0], [1])], 2),
        ([remove(files[1])], 3),  # of the first files, of g, of the vector: the file has none
        ([table.metadata], 0),
    ]
    for number, (actions, manifests) in enumerate(steps, 1):
        table.commit(*actions)
        conversion, opened = convert_counted(table.root)
        assert (conversion.kind, conversion.versions) == ("incremental", (number,))
        assert_read(opened, [number])
        assert manifests_read(opened) == manifests
        assert_mirrors(PyIceberg(), table.root, conversion, list(range(number + 1)))


def test_several_new_commits_are_read_once_each(tmp_path: Path) -> None:
    table = builder(tmp_path)
    table.checkpoint()
    iceberg.convert(table.root)
    for number in range(5):
        table.commit(table.add({"id": [number]}, name=f"g{number}"))
    table.checkpoint()
    conversion, opened = convert_counted(table.root)
    assert conversion.versions == (1, 2, 3, 4, 5)
    assert_read(opened, range(1, 6))
    assert manifests_read(opened) == 1
    assert_mirrors(PyIceberg(), table.root, conversion, list(range(6)))


def test_when_nothing_is_new_no_file_of_the_log_is_read(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    conversion, opened = convert_counted(table.root)
    assert conversion.kind == "none"
    assert_read(opened, [])


def test_commits_that_are_large_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_source, "_READ_AHEAD_BYTES", 100)
    table = builder(tmp_path)
    iceberg.convert(table.root)
    follow(table, [table.add({"id": [7]}, name="g")])


# What a commit without checksums may do


def test_files_that_are_added_again_stay_as_they_are(tmp_path: Path) -> None:
    table = builder(tmp_path)
    first = table.versions[0][2]
    vector = table.delete(first, [0])
    table.commit(*vector)
    iceberg.convert(table.root, since=0)
    assert follow(table, [vector[1], table.add({"id": [9]}, name="g")])["total-data-files"] == "5"


def test_removes_of_what_was_not_there_change_nothing(tmp_path: Path) -> None:
    """Of a file that is gone, of one with a vector that it does not have, of one with a vector that it had."""
    table = builder(tmp_path)
    gone, plain, changed = table.versions[0][2:5]
    old = table.delete(changed, [0])
    new = table.delete(old[1], [0, 1])
    table.commit(remove(gone), *old).commit(*new)
    iceberg.convert(table.root, since=0)
    summary = follow(table, [remove(gone)], [remove(table.delete(plain, [2])[1])], [remove(old[1])])
    assert (summary["total-records"], summary["total-position-deletes"]) == ("9", "2")


def test_a_file_that_comes_back_is_new(tmp_path: Path) -> None:
    table = builder(tmp_path)
    first = table.versions[0][2]
    iceberg.convert(table.root)
    follow(table, [remove(first)], [first], [remove(first)])


def test_a_file_that_is_removed_and_added_but_was_not_there_is_new(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    assert follow(table, table.delete(table.add({"id": [7, 8, 9]}, name="g"), [1]))["total-data-files"] == "5"


@FORMATS
def test_errors_of_a_commit_that_its_checksum_does_not_show_are_seen(tmp_path: Path, version: int) -> None:
    """It adds a file that is there, and removes one without the vector that it has: the number of files is right."""
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 30), partition_by=["g"], properties=VECTORS)
    tables.delete(table, "id = 1")
    iceberg.convert(table, format_version=version)
    log = Path(table, "_delta_log")
    first, last = (list(map(json.loads, (log / f"{n:020d}.json").read_text().splitlines())) for n in (0, 1))
    [deleted] = [action["add"]["path"] for action in last if "add" in action]
    again = next(action for action in first if "add" in action and action["add"]["path"] != deleted)
    actions = [again, {"remove": {"path": deleted, "dataChange": True}}]
    (log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    shutil.copy(log / f"{1:020d}.crc", log / f"{2:020d}.crc")
    conversion = iceberg.convert(table)
    assert conversion.kind == "incremental"
    assert_mirrors(PyIceberg(), table, conversion, [1, 2])


@FORMATS
def test_squashed_commits_without_checksums_are_read_and_no_checkpoint(tmp_path: Path, version: int) -> None:
    table = builder(tmp_path)
    files = table.versions[0][2:]
    table.checkpoint()
    iceberg.convert(table.root, format_version=version)
    passing, staying = (table.add({"id": [7, 8]}, name=name) for name in ("passing", "staying"))
    vector = table.delete(staying, [0])
    table.commit(passing, staying, *table.delete(files[0], [1])).commit(remove(passing), *vector)
    table.commit(*table.delete(vector[1], [0, 1]), remove(files[1])).commit(files[1])
    conversion, opened = convert_counted(table.root, squash=True)
    assert (conversion.kind, conversion.versions) == ("incremental", (4,))
    assert_read(opened, [1, 2, 3, 4])
    assert_mirrors(PyIceberg(), table.root, conversion, [0, 4])
    assert snapshots_of(conversion)[4]["summary"]["total-data-files"] == "5"


def test_squashed_commits_that_add_what_came_with_one_of_them_add_it_once(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    new = table.add({"id": [7, 8]}, name="new")
    table.commit(new).commit(new, remove(table.versions[0][2])).commit(remove(table.versions[0][2]))
    conversion = iceberg.convert(table.root, squash=True)
    assert (conversion.kind, conversion.versions) == ("incremental", (3,))
    assert_mirrors(PyIceberg(), table.root, conversion, [0, 3])


# When commits were made


def test_commits_of_one_time_get_the_same_times_however_they_are_mirrored(tmp_path: Path) -> None:
    table = builder(tmp_path)
    one_by_one = str(tmp_path / "one by one")
    for number in range(4):
        if number:
            table.commit(table.add({"id": [number]}, name=f"g{number}"))
        os.utime(table.log_file(f"{number:020d}.json"), (1_000, 1_000))
        followed = iceberg.convert(table.root, out=one_by_one)
        assert followed.kind == ("incremental" if number else "full")
    at_once = iceberg.convert(table.root, out=str(tmp_path / "at once"), since=0)
    later = iceberg.convert(table.root, out=str(tmp_path / "later"), since=2)
    history = {commit.version: commit.timestamp for commit in tables.history(table.root)}
    assert sorted(history.values()) == [1_000_000, 1_000_001, 1_000_002, 1_000_003]
    assert times_of(followed) == times_of(at_once) == history
    assert times_of(later) == {version: history[version] for version in (2, 3)}
    assert times_of(iceberg.convert(table.root)) == {3: history[3]}


def times_of(conversion: Conversion) -> dict[int, int]:
    snapshots = snapshots_of(conversion).items()
    return {version: int(snapshot["summary"]["lakeport.delta.timestamp"]) for version, snapshot in snapshots}


# What the mirror keeps


def test_a_schema_that_changes_is_seen_in_the_commit(tmp_path: Path) -> None:
    table = builder(tmp_path)
    table.checkpoint()
    iceberg.convert(table.root)
    table.schema = struct(id="long", name="string")
    table.commit(table.metadata, table.add({"id": [5], "name": ["x"]}, name="g"))
    conversion, opened = convert_counted(table.root)
    assert_read(opened, [1])
    assert_mirrors(PyIceberg(), table.root, conversion, [0, 1])
    table.commit(table.add({"id": [6], "name": ["y"]}, name="h"))
    conversion, opened = convert_counted(table.root)
    assert_read(opened, [2])
    assert_mirrors(PyIceberg(), table.root, conversion, [0, 1, 2])


@pytest.mark.parametrize("feature", ["catalogManaged", "future"])
def test_a_protocol_that_cannot_be_followed_is_refused(tmp_path: Path, feature: str) -> None:
    table = builder(tmp_path)
    first = iceberg.convert(table.root)
    table.commit(protocol(features=["deletionVectors", feature], writer_only=["inCommitTimestamp"]))
    with pytest.raises(UnsupportedFeatureError, match=feature if feature == "future" else "catalog"):
        iceberg.convert(table.root)
    assert len(list((Path(first.location) / "metadata").glob("v*.metadata.json"))) == 1


def test_a_table_that_takes_the_place_of_another_is_noticed_however_many_versions_it_has(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    for start, versions in ((0, 2), (100, 4)):
        shutil.rmtree(f"{table}/_delta_log", ignore_errors=True)
        tables.create(table, numbers(start, start + 10), properties=VECTORS)
        for version in range(1, versions):
            tables.append(table, numbers(start + 10 * version, start + 10 * version + 10))
        conversion = iceberg.convert(table)
        assert (conversion.kind, conversion.version) == ("full", versions - 1)
    assert_mirrors(PyIceberg(), table, conversion, [3])


@pytest.mark.parametrize("damage", ["gone", "empty", "no JSON", "old", "changed by hand", "cut"])
def test_a_mirror_that_keeps_nothing_of_its_version_is_brought_up_to_date(tmp_path: Path, damage: str) -> None:
    table = builder(tmp_path)
    first = metadata_of(iceberg.convert(table.root))["properties"][KEPT_VERSION]
    table.commit(table.add({"id": [5]}, name="g"))
    with edited(iceberg.convert(table.root)) as metadata:
        text = metadata["properties"].pop(KEPT_VERSION)
        changed = {
            "empty": "",
            "no JSON": "{",
            "old": first,
            "changed by hand": text.replace("long", "lung"),
            "cut": text[:-9],
        }
        assert changed["changed by hand"] != text
        metadata["properties"] |= {KEPT_VERSION: changed[damage]} if damage in changed else {}
    follow(table, [table.add({"id": [6]}, name="h")])


def test_a_commit_that_was_touched_is_answered_by_a_whole_snapshot(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    os.utime(table.log_file(f"{0:020d}.json"), (1, 1))
    table.commit(table.add({"id": [5]}, name="g"))
    assert_mirrors(PyIceberg(), table.root, assert_rebuilt(table.root, 1), [0, 1])
    assert iceberg.convert(table.root).kind == "none"


@pytest.mark.parametrize("more", [0, 1])
def test_a_commit_of_another_table_of_the_same_size_and_time_is_noticed(tmp_path: Path, more: int) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    table.add({"id": [2, 1, 0]}, name="h0")
    commit = Path(table.log_file(f"{0:020d}.json"))
    before = commit.stat()
    commit.write_text(commit.read_text().replace('"f0"', '"h0"'))
    os.utime(commit, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert commit.stat().st_size == before.st_size
    for number in range(more):
        table.commit(table.add({"id": [number]}, name=f"g{number}"))
    assert_rebuilt(table.root, more)


@pytest.mark.parametrize("more", [0, 1])
def test_a_table_that_came_back_from_a_backup_and_was_written_on_is_mirrored_as_it_is(
    tmp_path: Path, more: int
) -> None:
    """Its id and its place are the same; the mirrored version and what follows it are others."""
    table = builder(tmp_path)
    table.commit(table.add({"id": [100]}, name="lost"))
    iceberg.convert(table.root, since=0)
    table.commit(table.add({"id": [200]}, name="a"), table.add({"id": [201]}, name="b"), version=1)
    for number in range(more):
        table.commit(table.add({"id": [300 + number]}, name=f"c{number}"))
    assert_rebuilt(table.root, 1 + more)
    assert iceberg.convert(table.root).kind == "none"
    table.commit(table.add({"id": [400]}, name="d"))
    conversion = iceberg.convert(table.root)
    assert conversion.kind == "incremental"
    assert iceberg.verify(table.root, rows=True).is_equal


# Versions in between that cannot be mirrored any more


@FORMATS
def test_a_vector_in_between_that_was_vacuumed_is_answered_by_a_whole_snapshot(tmp_path: Path, version: int) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 30), properties=VECTORS)
    iceberg.convert(table, format_version=version)
    tables.delete(table, "id = 1")
    tables.delete(table, "id = 2")
    tables.vacuum(table, retention=0, enforce_retention=False, dry_run=False)
    assert_rebuilt(table, tables.history(table)[0].version)


def test_a_file_without_statistics_in_between_that_was_vacuumed_is_answered_by_a_whole_snapshot(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    passing = table.add({"id": [1, 2]}, name="passing", stats=None)
    table.commit(passing).commit(remove(passing))
    Path(table.root, "passing").unlink()
    assert_rebuilt(table.root, 2)


def test_a_vector_of_the_latest_version_that_is_gone_is_named(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    table.commit(*table.delete(table.versions[0][2], [1]))
    for path in Path(table.root).rglob("deletion_vector_*"):
        path.unlink()
    with pytest.raises(MissingFileError, match="deletion_vector_"):
        iceberg.convert(table.root)


def test_a_version_in_between_that_iceberg_cannot_express_is_left_out(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 10), properties={"delta.columnMapping.mode": "name"})
    first = iceberg.convert(table)
    tables.append(table, numbers(10, 20))
    tables.add_columns(table, pa.schema([("nothing", pa.null())]))
    with pytest.raises(ConversionError, match="'nothing' has the type void"):
        iceberg.convert(table)
    assert len(list((Path(first.location) / "metadata").glob("v*.metadata.json"))) == 1
    tables.drop_columns(table, ["nothing"])
    assert_mirrors(PyIceberg(), table, assert_rebuilt(table, 3), [0, 3])


def test_of_many_versions_nothing_is_written_if_the_last_cannot_be_expressed(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 10), properties=VECTORS | {"delta.columnMapping.mode": "name"})
    mirror = Path(iceberg.convert(table).location)
    before = {path: path.stat().st_mtime_ns for path in mirror.rglob("*")}
    for number in range(60):  # more than are published at once
        tables.append(table, numbers(10 + number, 11 + number))
    tables.delete(table, "id = 1")
    tables.add_columns(table, pa.schema([("nothing", pa.null())]))
    for squash in (False, True):
        with pytest.raises(ConversionError, match="'nothing' has the type void"):
            iceberg.convert(table, squash=squash)
        assert {path: path.stat().st_mtime_ns for path in mirror.rglob("*")} == before


def odd_file(table: TableBuilder) -> Action:
    """A file with a field id that Iceberg does not give."""
    marked = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "7"})])
    return table.add(pa.Table.from_arrays([pa.array([1])], schema=marked), name="odd")


def test_files_that_cannot_be_expressed_leave_the_mirror_at_the_versions_before(tmp_path: Path) -> None:
    """What is in data files is looked at when their version comes: what is published before that stays."""
    table = builder(tmp_path)
    first = iceberg.convert(table.root)
    before = set(Path(first.location).rglob("*"))
    for number in range(60):
        table.commit(table.add({"id": [number]}, name=f"g{number}"))
    table.commit(odd_file(table))
    with pytest.raises(ConversionError, match="field id 7"):
        iceberg.convert(table.root)
    found = iceberg.verify(table.root, rows=True)
    assert (found.version, found.is_equal) == (50, True)
    made = set(Path(first.location).rglob("*")) - before
    assert sum(path.name.endswith("metadata.json") for path in made) == 1
    assert iceberg.clean(table.root, grace="0 seconds").files == ("metadata/v1.metadata.json",)


def test_a_version_in_between_whose_files_have_other_field_ids_is_left_out(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    odd = odd_file(table)
    table.commit(odd).commit(remove(odd))
    assert_mirrors(PyIceberg(), table.root, assert_rebuilt(table.root, 2), [0, 2])


# Logs that are cleaned up meanwhile


class CleaningStorage(CountingStorage):
    """Deletes files when another is read first."""

    def __init__(self, trigger: str, files: list[str]) -> None:
        super().__init__(default_engine().storage)
        self._trigger, self._files = trigger, files

    def _open(self, path: str) -> str:
        if path.endswith(self._trigger):
            self.delete(self._files)
        return super()._open(path)


@pytest.mark.parametrize("ahead", [0, 1 << 20])
def test_a_log_that_is_cleaned_up_while_it_is_read_is_answered_by_a_whole_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(delta_source, "_READ_AHEAD_BYTES", ahead)
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 10), properties=VECTORS)
    iceberg.convert(table)
    for version in range(1, 5):
        tables.append(table, numbers(10 * version, 10 * version + 10))
    tables.checkpoint(table)
    log = f"{table}/_delta_log"
    storage = CleaningStorage(f"{2:020d}.json", [f"{log}/{version:020d}.json" for version in range(4)])
    conversion = iceberg.convert(table, engine=engine_over(storage))
    assert storage.opened.count(f"{2:020d}.json") == 1
    assert (conversion.kind, conversion.versions) == ("full", (4,))
    rows = PyIceberg().read(conversion.metadata_location, conversion.snapshot_id)
    assert sorted(rows["id"].to_pylist()) == list(range(50))
    assert sorted(snapshots_of(conversion)) == [0, 4]
    assert iceberg.verify(table).is_equal


def test_files_whose_log_is_cleaned_up_when_they_are_asked_for_are_mirrored_as_a_whole(tmp_path: Path) -> None:
    table = builder(tmp_path)
    iceberg.convert(table.root)
    table.commit(table.versions[0][2])  # it is there already, which only the log tells for certain
    table.checkpoint()
    storage = CleaningStorage("-m0.avro", [table.log_file(f"{0:020d}.json")])
    assert_rebuilt(table.root, 1, engine=engine_over(storage))


def test_a_first_version_whose_successors_are_gone_is_named(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    tables.create(table, pa.table({"id": [1]}))
    for number in range(3):
        tables.append(table, pa.table({"id": [number]}))
    tables.checkpoint(table)
    log = f"{table}/_delta_log"
    storage = CleaningStorage(f"{1:020d}.json", [f"{log}/{version:020d}.json" for version in (1, 2)])
    with pytest.raises(VersionNotFoundError, match="version 1 are gone"):
        iceberg.convert(table, since=0, engine=engine_over(storage))
    assert lakeport.scan(table).to_arrow().num_rows == 4
    assert iceberg.convert(table).kind == "full"
