"""Mirrors, made and kept up to date: independent readers see the rows of the Delta table at every mirrored version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import default_engine, engine_over
from lakeport.errors import ConversionError, CorruptTableError, TableNotFoundError, VersionNotFoundError
from lakeport.iceberg.delta.kept_version import KEPT_VERSION
from lakeport.kernel.schema import ArrayType, PrimitiveType, StructType
from lakeport.kernel.snapshot import Table
from lakeport.testing.builder import TableBuilder, mapped, protocol, struct
from lakeport.testing.counting import CountingStorage
from tests.iceberg.changing import FORMATS, change_in_all_ways, numbers, remove_commits, replace_table, vector_table
from tests.iceberg.readers import Reader, assert_mirrors, canonical, edited, metadata_of, snapshots_of
from tests.properties import VECTORS


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A partitioned table of 100 rows with deletion vectors."""
    path = str(tmp_path / "table")
    tables.create(path, numbers(0, 100), partition_by=["g"], properties=VECTORS)
    return path


@FORMATS
@pytest.mark.parametrize(
    ("is_mirrored", "options", "kind", "versions"),
    [
        pytest.param(False, {}, "full", [9], id="the latest version only"),
        pytest.param(False, {"since": 0}, "full", range(10), id="every version"),
        pytest.param(False, {"since": 2, "squash": True}, "full", [2, 9], id="later versions squashed"),
        pytest.param(True, {}, "incremental", range(1, 10), id="every new version"),
        pytest.param(True, {"squash": True}, "incremental", [9], id="new versions squashed"),
        pytest.param(True, {"full": True}, "full", [9], id="a whole snapshot"),
    ],
)
def test_snapshots_have_the_rows_of_their_versions(
    reader: Reader,
    table: str,
    version: int,
    is_mirrored: bool,
    options: dict[str, Any],
    kind: str,
    versions: Sequence[int],
) -> None:
    if is_mirrored:
        iceberg.convert(table, format_version=version)
    change_in_all_ways(table)
    conversion = iceberg.convert(table, format_version=None if is_mirrored else version, **options)
    assert (conversion.kind, conversion.version, conversion.versions) == (kind, 9, tuple(versions))
    assert conversion.format_version == version
    assert_mirrors(reader, table, conversion, [0, *versions] if is_mirrored else list(versions))
    if "full" in options:
        assert snapshots_of(conversion)[9]["summary"]["operation"] == "overwrite"


def test_nothing_is_written_when_there_is_nothing_to_do(table: str) -> None:
    first = iceberg.convert(table)
    before = files_in(first.location)
    again = iceberg.convert(table)
    assert (again.kind, again.versions, again.snapshot_id) == ("none", (), first.snapshot_id)
    assert files_in(first.location) == before


def files_in(folder: str) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.is_file()}


def test_data_files_stay_as_they_are_and_what_is_made_survives_vacuum(reader: Reader, table: str) -> None:
    change_in_all_ways(table)
    before = {path: stamp for path, stamp in files_in(table).items() if path.endswith(".parquet")}
    conversion = iceberg.convert(table)
    made = files_in(conversion.location)
    assert Path(conversion.location) == Path(table) / "_iceberg"
    assert {p: s for p, s in files_in(table).items() if p.endswith(".parquet") and p not in made} == before
    tables.vacuum(table, retention=0, dry_run=False, enforce_retention=False)
    assert files_in(conversion.location) == made
    assert_mirrors(reader, table, conversion, [9])


def test_a_mirror_can_be_in_another_directory(reader: Reader, table: str, tmp_path: Path) -> None:
    change_in_all_ways(table)
    conversion = iceberg.convert(table, out=str(tmp_path / "mirror"))
    assert conversion.location == str(tmp_path / "mirror")
    assert not (Path(table) / "_iceberg").exists()
    assert_mirrors(reader, table, conversion, [9])


def test_operations_are_named_as_iceberg_names_them(table: str) -> None:
    change_in_all_ways(table)
    summaries = {v: s["summary"] for v, s in snapshots_of(iceberg.convert(table, since=0)).items()}
    assert [summaries[v]["operation"] for v in range(10)] == [
        *("append", "delete", "delete", "append", "delete", "replace", "delete", "overwrite", "overwrite", "append")
    ]
    assert summaries[1]["added-position-deletes"] == "15"
    assert summaries[1]["total-records"] == "100"
    assert summaries[9]["total-delete-files"] == summaries[1]["total-delete-files"] == "3"
    assert summaries[3]["lakeport.delta.operation"] == "WRITE"
    history = {commit.version: commit.timestamp for commit in tables.history(table)}
    assert [int(summaries[v]["lakeport.delta.timestamp"]) for v in range(10)] == [history[v] for v in range(10)]


def test_a_restore_that_brings_rows_back_is_no_delete(table: str) -> None:
    """Vectors become smaller, vectors go, and vectors of other rows come; squashed ones too."""
    tables.delete(table, "id < 6")
    tables.delete(table, "id < 12")
    tables.restore(table, version=1)
    tables.restore(table, version=0)
    tables.delete(table, "id > 80")
    tables.restore(table, version=2)
    tables.restore(table, version=5)
    summaries = {v: s["summary"] for v, s in snapshots_of(iceberg.convert(table, since=0)).items()}
    assert [summaries[v]["operation"] for v in range(1, 8)] == [
        *("delete", "delete", "overwrite", "overwrite", "delete", "overwrite", "overwrite")
    ]
    assert (summaries[6]["removed-position-deletes"], summaries[7]["added-position-deletes"]) == ("19", "19")
    squashed = iceberg.convert(table, out=f"{table}-squashed", since=2, squash=True)
    assert snapshots_of(squashed)[7]["summary"]["operation"] == "overwrite"


def test_a_rewrite_of_deletion_vectors_alone_is_a_replace(tmp_path: Path) -> None:
    table = vector_table(tmp_path / "t")
    old = table.delete(table.add({"id": [1, 2]}, name="f"), [0])[1]
    new = table.delete(old, [0])
    for action in new:
        next(iter(action.values()))["dataChange"] = False
    table.create(old).commit(*new)
    assert snapshots_of(iceberg.convert(table.root, since=0))[1]["summary"]["operation"] == "replace"


@FORMATS
def test_delete_files_are_told_by_their_kind(table: str, version: int) -> None:
    tables.delete(table, "id % 7 = 0")
    tables.delete(table, "id % 5 = 0")
    tables.restore(table, version=0)
    summaries = {
        v: s["summary"] for v, s in snapshots_of(iceberg.convert(table, format_version=version, since=0)).items()
    }
    kind, other = ("dvs", "position-delete-files") if version == 3 else ("position-delete-files", "dvs")
    told = ["delete-files", kind, "position-deletes"]
    assert [summaries[1][f"added-{name}"] for name in told] == ["3", "3", "15"]
    assert [summaries[2][f"added-{name}"] for name in told] == ["3", "3", "32"]
    assert [summaries[2][f"removed-{name}"] for name in told] == ["3", "3", "15"]
    assert [summaries[3][f"removed-{name}"] for name in told] == ["3", "3", "32"]
    assert not [name for summary in summaries.values() for name in summary if name.endswith(other)]
    totals = ["total-delete-files", "total-position-deletes", "total-equality-deletes"]
    assert [[summaries[v][name] for name in totals] for v in range(4)] == [
        *(["0", "0", "0"], ["3", "15", "0"], ["3", "32", "0"], ["0", "0", "0"])
    ]


def test_position_deletes_from_before_an_upgrade_are_told_as_what_they_are(table: str) -> None:
    tables.delete(table, "id % 7 = 0")
    iceberg.convert(table, format_version=2)
    tables.delete(table, "id % 5 = 0")
    summary = snapshots_of(iceberg.convert(table, format_version=3))[2]["summary"]
    assert (summary["added-dvs"], summary["removed-position-delete-files"]) == ("3", "3")
    assert "removed-dvs" not in summary


def test_properties_of_the_table_are_kept(table: str) -> None:
    mirror = iceberg.convert(table)
    prefix = "lakeport.delta.property."

    def kept(conversion: iceberg.Conversion) -> dict[str, str]:
        properties = metadata_of(conversion)["properties"]
        return {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}

    assert kept(mirror)["delta.enableDeletionVectors"] == "true"
    tables.set_properties(table, {"owner": "sales", "delta.appendOnly": "true"})
    tables.set_properties(table, {"owner": "finance"})
    assert kept(iceberg.convert(table)).items() >= {"owner": "finance", "delta.appendOnly": "true"}.items()
    tables.unset_properties(table, ["owner"])
    latest = iceberg.convert(table)
    assert kept(latest) == Table.for_path(default_engine(), table).latest_snapshot().properties
    assert "owner" not in kept(latest)


def test_the_description_of_the_table_is_the_comment_of_the_mirror(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(id="long")).create()
    for description in ("orders of all shops", None):
        body = table.metadata["metaData"]
        table.commit({"metaData": body | {"description": description}} if description else {"metaData": body})
        assert metadata_of(iceberg.convert(table.root))["properties"].get("comment") == description


def test_superseded_delete_files_leave_with_the_snapshot_that_replaces_them(table: str) -> None:
    tables.delete(table, "id % 7 = 0")
    tables.delete(table, "id % 5 = 0")
    conversion = iceberg.convert(table, since=0)
    mirror = StaticTable.from_metadata(conversion.metadata_location)
    for version, deleted in ((1, 15), (2, 32)):
        number = snapshots_of(conversion)[version]["snapshot-id"]
        live = [task.delete_files for task in mirror.scan(snapshot_id=number).plan_files()]
        assert [len(files) for files in live] == [1, 1, 1]
        assert sum(file.record_count for files in live for file in files) == deleted


@FORMATS
def test_an_upgrade_to_version_three_keeps_what_there_is(reader: Reader, table: str, version: int) -> None:
    tables.delete(table, "id % 7 = 0")
    iceberg.convert(table, format_version=2)
    if version == 3:
        upgraded = iceberg.convert(table, format_version=3)
        assert (upgraded.kind, upgraded.format_version) == ("none", 3)
    tables.delete(table, "id % 5 = 0 AND g = 0")
    tables.append(table, numbers(100, 110))
    conversion = iceberg.convert(table, format_version=version)
    assert_mirrors(reader, table, conversion, [1, 2, 3])
    if version == 3:
        assert metadata_of(conversion)["next-row-id"] == 110


def test_a_mirror_cannot_go_back_to_version_two(table: str) -> None:
    iceberg.convert(table, format_version=3)
    with pytest.raises(ConversionError, match="cannot go back") as caught:
        iceberg.convert(table, format_version=2)
    assert caught.value.reason == "format version"


def test_the_rows_of_version_three_have_ids(table: str) -> None:
    tables.append(table, numbers(100, 120))
    metadata = metadata_of(iceberg.convert(table, format_version=3, since=0))
    told = [(s["first-row-id"], s["added-rows"]) for s in metadata["snapshots"]]
    assert told == [(0, 100), (100, 20)]
    assert metadata["next-row-id"] == 120


# Logs, tables and mirrors that are not what they were


def test_a_log_that_was_cleaned_up_is_answered_by_a_whole_snapshot(reader: Reader, table: str) -> None:
    iceberg.convert(table)
    change_in_all_ways(table)
    remove_commits(table, range(8))
    conversion = iceberg.convert(table)
    assert (conversion.kind, conversion.versions) == ("full", (9,))
    number = snapshots_of(conversion)[9]["snapshot-id"]
    assert canonical(reader.read(conversion.metadata_location, number)) == canonical(lakeport.scan(table).to_arrow())
    assert sorted(snapshots_of(conversion)) == [0, 9]


def test_a_mirror_that_lost_a_file_is_made_whole_again(reader: Reader, table: str) -> None:
    first = iceberg.convert(table)
    tables.append(table, numbers(100, 103, groups=1))
    mirrored = iceberg.convert(table)
    with edited(mirrored) as metadata:
        metadata["current-snapshot-id"] = first.snapshot_id  # it shows version 0, and says that it shows version 1
        metadata["refs"]["main"]["snapshot-id"] = first.snapshot_id
    tables.delete(table, "id >= 100")
    conversion = iceberg.convert(table)
    assert (conversion.kind, conversion.versions) == ("full", (2,))
    number = snapshots_of(conversion)[2]["snapshot-id"]
    assert canonical(reader.read(conversion.metadata_location, number)) == canonical(lakeport.scan(table).to_arrow())


@FORMATS
@pytest.mark.parametrize("squash", [False, True])
def test_a_replaced_table_keeps_its_history(reader: Reader, table: str, version: int, squash: bool) -> None:
    """With columns of other types and in another order, and partitions of others."""
    tables.delete(table, "id < 5")
    first = iceberg.convert(table, format_version=version, since=0)
    kept = [0, 1]
    for rows, partition_by in (
        (pa.table({"name": [1, 2, 3], "g": ["x", "y", "z"], "id": ["a", "b", "c"]}), ["g"]),
        (numbers(0, 20), []),
    ):
        replace_table(table, rows, partition_by)
        tables.delete(table, "id = 'a'" if partition_by else "id = 1")
        conversion = iceberg.convert(table, squash=squash)
        versions = range(kept[-1] + 1, kept[-1] + 4)
        assert (conversion.kind, conversion.versions) == ("incremental", tuple(versions)[-1 if squash else 0 :])
        kept += conversion.versions
        assert_mirrors(reader, table, conversion, kept)
        assert iceberg.verify(table, rows=True).is_equal
    assert metadata_of(conversion)["table-uuid"] == metadata_of(first)["table-uuid"]
    assert iceberg.convert(table).kind == "none"


def test_a_replaced_table_whose_mirror_keeps_nothing_of_its_version_keeps_its_history(table: str) -> None:
    with edited(iceberg.convert(table)) as metadata:
        del metadata["properties"][KEPT_VERSION]
    replace_table(table, numbers(0, 3))
    conversion = iceberg.convert(table)
    assert (conversion.kind, sorted(snapshots_of(conversion))) == ("incremental", [0, 1, 2])


def test_a_replaced_table_whose_log_was_cleaned_up_keeps_its_history(table: str) -> None:
    iceberg.convert(table)
    replace_table(table, numbers(0, 3))
    remove_commits(table, range(2))
    conversion = iceberg.convert(table)
    assert (conversion.kind, sorted(snapshots_of(conversion))) == ("full", [0, 2])
    assert iceberg.verify(table, rows=True).is_equal


def test_a_replaced_table_with_other_field_ids_gets_one_snapshot_in_place_of_all(reader: Reader, table: str) -> None:
    """Its ids contradict those that the mirror gave: earlier snapshots would be read by the wrong ones."""
    iceberg.convert(table)
    mapping = {"delta.columnMapping.mode": "name"}
    replace_table(table, pa.table({"name": [1, 2, 3], "g": ["x", "y", "z"]}), ["g"], **mapping)
    conversion = iceberg.convert(table)
    assert conversion.kind in ("full", "incremental")
    assert_mirrors(reader, table, conversion)
    assert iceberg.verify(table, rows=True).is_equal


def test_a_table_that_was_made_anew_gets_a_new_mirror(reader: Reader, table: str) -> None:
    first = iceberg.convert(table)
    shutil.rmtree(Path(table) / "_delta_log")
    tables.create(table, pa.table({"name": ["a", "b"], "other": [1, 2]}))
    conversion = iceberg.convert(table)
    assert conversion.kind == "full"
    assert metadata_of(conversion)["table-uuid"] == metadata_of(first)["table-uuid"]
    assert_mirrors(reader, table, conversion, [0])


def test_a_table_that_was_moved_gets_a_new_mirror(reader: Reader, table: str, tmp_path: Path) -> None:
    iceberg.convert(table)
    moved = str(shutil.move(table, tmp_path / "moved"))
    conversion = iceberg.convert(moved)
    assert conversion.kind == "full"
    assert metadata_of(conversion)["location"] == conversion.location == f"{moved}/_iceberg"
    assert_mirrors(reader, moved, conversion, [0])


def test_a_table_and_a_link_to_it_have_one_mirror(reader: Reader, table: str, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(table)
    first = iceberg.convert(str(link))
    for number, path in enumerate((table, str(link), table)):
        tables.delete(path, f"id = {number}")
        conversion = iceberg.convert(path)
        assert (conversion.kind, conversion.location) == ("incremental", first.location)
        assert iceberg.verify(path, rows=True).is_equal
    assert iceberg.convert(str(link)).kind == "none"
    assert_mirrors(reader, table, conversion, [0, 1, 2, 3])


def test_the_mirror_of_another_table_is_left_alone(table: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    tables.create(other, numbers(0, 5))
    first = iceberg.convert(other, out=str(tmp_path / "mirror"))
    with pytest.raises(ConversionError, match="mirror of another table") as caught:
        iceberg.convert(table, out=str(tmp_path / "mirror"))
    assert caught.value.reason == "another table"
    assert iceberg.convert(other, out=str(tmp_path / "mirror")).snapshot_id == first.snapshot_id


def test_an_iceberg_table_that_is_no_mirror_is_left_alone(table: str) -> None:
    with edited(iceberg.convert(table)) as metadata:
        metadata["properties"] = {}
    with pytest.raises(ConversionError, match="did not create; choose another directory") as caught:
        iceberg.convert(table)
    assert caught.value.reason == "no mirror"


def test_converters_that_run_at_once_make_one_history(reader: Reader, table: str) -> None:
    change_in_all_ways(table)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: iceberg.convert(table, since=0), range(4)))
    conversion = iceberg.convert(table)
    assert conversion.kind == "none"
    versions = [s["summary"]["lakeport.delta.version"] for s in metadata_of(conversion)["snapshots"]]
    assert versions == [str(version) for version in range(10)]
    assert_mirrors(reader, table, conversion, list(range(10)))


def test_who_loses_against_another_converter_leaves_no_files_behind(table: str) -> None:
    change_in_all_ways(table)
    overtaken = []

    def overtake(version: int, latest: int) -> None:
        if not overtaken:
            overtaken.append(version)
            iceberg.convert(table)

    conversion = iceberg.convert(table, progress=overtake)
    assert (overtaken, conversion.kind) == ([9], "none")
    lists = list((Path(conversion.location) / "metadata").glob("snap-*.avro"))
    assert len(lists) == len(metadata_of(conversion)["snapshots"]) == 1


def test_progress_is_told_each_version(table: str) -> None:
    change_in_all_ways(table)
    told: list[tuple[int, int]] = []
    iceberg.convert(table, since=4, progress=lambda version, latest: told.append((version, latest)))
    assert told == [(version, 9) for version in range(4, 10)]


def test_a_data_file_that_the_table_has_twice_is_refused_and_named(tmp_path: Path) -> None:
    """With and without a deletion vector: its rows would be read twice."""
    table = vector_table(tmp_path / "t")
    once = table.add({"id": [1, 2]}, name="once")
    twice = {"add": once["add"] | {"deletionVector": table.deletion_vector([0])}}
    table.create(once).commit(twice)
    with pytest.raises(CorruptTableError, match=r"has the data file .*/once' twice"):
        iceberg.convert(table.root)
    assert not list(Path(table.root, "_iceberg").rglob("*.*"))


def test_a_data_file_that_a_commit_adds_a_second_time_is_refused_and_named(tmp_path: Path) -> None:
    """The checksums agree: the table does have one file more."""
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 30), properties=VECTORS)
    tables.delete(table, "id = 1")
    first = iceberg.convert(table)
    log = Path(table, "_delta_log")
    [again] = [line for line in (log / f"{0:020d}.json").read_text().splitlines() if '"add"' in line]
    (log / f"{2:020d}.json").write_text(again)
    checksum = json.loads((log / f"{1:020d}.crc").read_text())
    (log / f"{2:020d}.crc").write_text(json.dumps({**checksum, "numFiles": checksum["numFiles"] + 1}))
    with pytest.raises(CorruptTableError, match=json.loads(again)["add"]["path"]):
        iceberg.convert(table)
    assert iceberg.verify(table, version=1, rows=True).snapshot_id == first.snapshot_id
    tables.overwrite(table, numbers(0, 3))
    conversion = iceberg.convert(table)
    assert (conversion.kind, conversion.versions) == ("full", (3,))
    assert iceberg.verify(table, rows=True).is_equal


# Arguments and refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"format_version": 1}, "format_version must be 2 or 3", id="format version"),
        pytest.param({"table": "a.b"}, "pass both a catalog", id="table without catalog"),
        pytest.param({"full": True, "since": 0}, "pass only one of them", id="full and since"),
        pytest.param({"out": " "}, "is not a table location", id="empty out"),
    ],
)
def test_wrong_arguments_are_named(table: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        iceberg.convert(table, **options)


def test_a_table_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        iceberg.convert(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_version_that_is_gone_cannot_be_the_first(table: str) -> None:
    change_in_all_ways(table)
    remove_commits(table, range(8))
    with pytest.raises(VersionNotFoundError):
        iceberg.convert(table, since=2)
    assert not (Path(table) / "_iceberg").exists()


def test_a_version_that_is_not_there_yet_cannot_be_the_first(table: str) -> None:
    with pytest.raises(VersionNotFoundError) as caught:
        iceberg.convert(table, since=1)
    assert (caught.value.version, caught.value.latest) == (1, 0)
    assert not (Path(table) / "_iceberg").exists()


def test_what_iceberg_cannot_express_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    builder = TableBuilder(default_engine(), str(tmp_path), struct(id="long", nothing="void"))
    builder.create(builder.add({"id": [1]}))
    with pytest.raises(ConversionError, match="'nothing' has the type void") as caught:
        iceberg.convert(str(tmp_path))
    assert caught.value.reason == "type void"
    assert not (tmp_path / "_iceberg").exists()


# Types, schemas, partitions


def values(make: Callable[[int], Any], data_type: pa.DataType) -> pa.Array:
    return pa.array([None if i % 4 == 3 else make(i) for i in range(8)], data_type)


def every_type() -> pa.Table:
    point = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    return pa.table(
        {
            "id": pa.array(range(8), pa.int64()),
            "byte": values(lambda i: i - 4, pa.int8()),
            "short": values(lambda i: i * -1000, pa.int16()),
            "integer": values(lambda i: i << 20, pa.int32()),
            "float": values(lambda i: i / 3, pa.float32()),
            "double": values(lambda i: [0.0, -0.0, float("nan"), 1e300][i % 4], pa.float64()),
            "price": values(lambda i: Decimal(i - 3) / 100, pa.decimal128(12, 2)),
            "large": values(lambda i: Decimal(10) ** 35 * (i - 3), pa.decimal128(38, 0)),
            "flag": values(lambda i: i % 2 == 0, pa.bool_()),
            "name": values(lambda i: "ü" * 40 + str(i), pa.string()),
            "raw": values(lambda i: bytes([i, 0, 255]), pa.binary()),
            "day": values(lambda i: date(1969, 12, 28 + i % 4), pa.date32()),
            "at": values(lambda i: datetime(1969, 12, 31, 23, 59, 59, i, UTC), pa.timestamp("us", "UTC")),
            "local": values(lambda i: datetime(2026, 1, 1, 1, 2, 3, i), pa.timestamp("us")),
            "point": values(lambda i: {"x": i, "tags": ["a", None]}, point),
            # Never null: pyiceberg 0.12 reads a null map, or a null list of structs, as an empty one.
            "points": pa.array([[{"x": i, "tags": []}] for i in range(8)], pa.list_(point)),
            "counts": pa.array([[("k", i), ("n", None)] for i in range(8)], pa.map_(pa.string(), pa.int64())),
        }
    )


@FORMATS
def test_every_type_is_read_as_it_was_written(reader: Reader, tmp_path: Path, version: int) -> None:
    tables.create(str(tmp_path), every_type())
    assert_mirrors(reader, str(tmp_path), iceberg.convert(str(tmp_path), format_version=version), [0])


PARTITION_COLUMNS = ["byte", "integer", "price", "large", "flag", "name", "day", "at", "local"]


@FORMATS
@pytest.mark.parametrize("column", PARTITION_COLUMNS)
def test_values_of_partitions_are_read_as_they_were_written(
    reader: Reader, tmp_path: Path, version: int, column: str
) -> None:
    rows = every_type().select(["id", column])
    tables.create(str(tmp_path), rows, partition_by=[column], properties=VECTORS)
    tables.delete(str(tmp_path), "id IN (2, 3)")
    assert_mirrors(reader, str(tmp_path), iceberg.convert(str(tmp_path), format_version=version, since=0), [0, 1])


def test_odd_names_and_values_of_partitions_are_found(reader: Reader, tmp_path: Path) -> None:
    path = str(tmp_path / "a table, #1 & é")
    texts = ["a/b", "a%2Fb", "x y", "#?&=", "ü", "'", ":"]
    rows = pa.table({"id": range(7), "9 odd näme.": texts})
    tables.create(path, rows, partition_by=["9 odd näme."], properties=VECTORS | {"delta.columnMapping.mode": "name"})
    tables.delete(path, "id = 3")
    assert_mirrors(reader, path, iceberg.convert(path, since=0), [0, 1])


def test_columns_that_are_added_renamed_and_dropped_keep_their_ids(reader: Reader, tmp_path: Path) -> None:
    path = str(tmp_path)
    rows = pa.table({"id": [1, 2], "a": ["x", "y"], "s": [{"u": 1, "v": 2}] * 2})
    tables.create(path, rows, partition_by=["a"], properties={"delta.columnMapping.mode": "name"})
    tables.rename_column(path, "id", "key")
    tables.rename_column(path, "s.u", "w")
    tables.rename_column(path, "a", "b")
    tables.add_columns(path, pa.schema([("id", pa.string())]))
    tables.append(path, pa.table({"key": [3], "b": ["z"], "s": [{"w": 5, "v": 6}], "id": ["new"]}))
    tables.drop_columns(path, ["id"])
    tables.add_columns(path, pa.schema([("id", pa.string())]))
    assert_mirrors(reader, path, iceberg.convert(path, since=0), list(range(8)))


def test_a_table_that_gets_column_mapping_later_keeps_its_ids(reader: Reader, tmp_path: Path) -> None:
    path = str(tmp_path)
    tables.create(path, pa.table({"id": [1, 2], "s": [{"u": 1, "v": 2}] * 2, "z": [True, False]}))
    tables.set_properties(path, {"delta.columnMapping.mode": "name"})
    tables.append(path, pa.table({"id": [3], "s": [{"u": 5, "v": 6}], "z": [True]}))
    tables.rename_column(path, "z", "y")
    tables.append(path, pa.table({"id": [4], "s": [{"u": 5, "v": 6}], "y": [True]}))
    conversion = iceberg.convert(path, since=0)
    assert_mirrors(reader, path, conversion, list(range(5)))
    assert conversion.versions == tuple(range(5))


def test_ids_that_would_change_begin_the_mirror_anew(reader: Reader, tmp_path: Path) -> None:
    path = str(tmp_path)
    tables.create(path, pa.table({"id": [1, 2], "s": [{"u": 1}] * 2, "z": [True, False]}))
    iceberg.convert(path)
    tables.add_columns(path, {"s.v": "long"})  # it is the last for us, and before z for Delta
    iceberg.convert(path)
    tables.set_properties(path, {"delta.columnMapping.mode": "name"})
    tables.append(path, pa.table({"id": [3], "s": [{"u": 5, "v": 6}], "z": [True]}))
    conversion = iceberg.convert(path)
    assert conversion.kind == "full"
    assert_mirrors(reader, path, conversion, [3])


@FORMATS
def test_a_type_that_iceberg_promotes_is_read_from_old_files(reader: Reader, tmp_path: Path, version: int) -> None:
    path = str(tmp_path)
    narrow = pa.table(
        {
            "i": pa.array([1, 2], pa.int32()),
            "b": pa.array([1, 2], pa.int8()),
            "f": pa.array([1.5, 2.5], pa.float32()),
            "d": pa.array([Decimal("1.25")] * 2, pa.decimal128(5, 2)),
        }
    )
    tables.create(path, narrow, properties=VECTORS | {"delta.enableTypeWidening": "true"})
    for column, wide in {"i": "long", "b": "long", "f": "double", "d": "decimal(20,2)"}.items():
        tables.widen_column(path, column, wide)
    tables.append(path, lakeport.scan(path).to_arrow())
    tables.delete(path, "i = 1")
    assert_mirrors(reader, path, iceberg.convert(path, format_version=version, since=0), list(range(7)))


def test_a_type_that_iceberg_does_not_promote_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path)
    rows = pa.table({"i": pa.array([1], pa.int32())})
    tables.create(path, rows, properties={"delta.enableTypeWidening": "true"})
    tables.widen_column(path, "i", "double")
    with pytest.raises(ConversionError, match="'i' was widened from integer to double") as caught:
        iceberg.convert(path)
    assert caught.value.reason == "widening integer to double"


@FORMATS
def test_other_columns_and_partitions_replace_the_former(reader: Reader, tmp_path: Path, version: int) -> None:
    path = str(tmp_path)
    tables.create(path, numbers(0, 10), partition_by=["g"], properties=VECTORS)
    tables.delete(path, "id = 4")
    other = pa.table({"name": [1, 2, 3], "id": ["x", "y", "z"]})
    tables.overwrite(path, other, overwrite_schema=True, partition_by=["name"])
    tables.delete(path, "id = 'y'")
    tables.overwrite(path, numbers(0, 5), overwrite_schema=True, partition_by=[])
    conversion = iceberg.convert(path, format_version=version, since=0)
    assert_mirrors(reader, path, conversion, list(range(5)))
    assert [len(spec["fields"]) for spec in metadata_of(conversion)["partition-specs"]] == [1, 1, 0]


def test_partition_columns_that_must_not_be_null_are_optional_in_the_mirror(reader: Reader, tmp_path: Path) -> None:
    """Data files do not have them, and pyiceberg refuses files that lack a required column."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("g", pa.int64(), nullable=False)])
    path = str(tmp_path)
    tables.create(path, pa.table({"id": [1, 2], "g": [0, 1]}, schema=schema), partition_by=["g"])
    conversion = iceberg.convert(path)
    [fields] = [s["fields"] for s in metadata_of(conversion)["schemas"]]
    assert {field["name"]: field["required"] for field in fields} == {"id": True, "g": False}
    assert_mirrors(reader, path, conversion, [0])
    assert iceberg.verify(path, rows=True).is_equal


def test_lists_without_ids_in_files_with_ids_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path)
    rows = pa.table({"id": [1], "items": [[1, 2]]})
    tables.create(path, rows, properties={"delta.columnMapping.mode": "id"})
    with pytest.raises(ConversionError, match=r"element' has no field id in a data file") as caught:
        iceberg.convert(path)
    assert caught.value.reason == "field ids in files"
    assert not (tmp_path / "_iceberg").exists()


def test_large_lists_without_ids_in_files_with_ids_are_refused(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path), struct(id="long", items=ArrayType(PrimitiveType("long"))))
    marked = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    items = pa.field("items", pa.large_list(pa.int64()), metadata={"PARQUET:field_id": "2"})
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([[1, 2]], items.type)], schema=pa.schema([marked, items]))
    table.create(table.add(rows, stats=False))
    with pytest.raises(ConversionError, match=r"'items\.element' has no field id in a data file"):
        iceberg.convert(table.root)


@pytest.mark.parametrize("key", ["delta.columnMapping.id", "delta.columnMapping.physicalName"])
def test_two_columns_that_are_mapped_alike_are_refused(tmp_path: Path, key: str) -> None:
    a, b = mapped(struct(a="long", b="long"))
    schema = StructType((a, replace(b, metadata={**b.metadata, key: a.metadata[key]})))
    table = TableBuilder(
        default_engine(),
        str(tmp_path),
        schema,
        properties={"delta.columnMapping.mode": "name"},
        protocol=protocol(2, 5),
    )
    table.create(table.add(pa.table({"col-1": [1], "col-2": [2]})))
    with pytest.raises(ConversionError, match=f"the columns 'a' and 'b' have the same {key}") as caught:
        iceberg.convert(table.root)
    assert caught.value.reason == "columns mapped twice"


def with_ids(ids: dict[str, int]) -> pa.Table:
    """A row whose columns have these field ids."""
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)}) for name, number in ids.items()]
    return pa.Table.from_arrays([pa.array([number]) for number in ids.values()], schema=pa.schema(fields))


A, AB = struct(a="long"), struct(a="long", b="long")
OF_B = "has the field id 2, which belongs to 'b'"
"""The file lacks `b`: by the ids, readers would take the other column for it."""


@pytest.mark.parametrize(
    ("schema", "ids", "message", "others"),
    [
        (AB, {"a": 2, "b": 1}, "'a' has the field id 2, not 1", 0),
        # Which file has them is not to be guessed: every footer is read, once.
        (AB, {"a": 2, "b": 1}, "'a' has the field id 2, not 1", 150),
        (AB, {"a": 1, "other": 2}, f"'other' {OF_B}", 0),
        (AB, {"a": 1, "_change_type": 2}, f"'_change_type' {OF_B}", 0),
        (A, {"a": 1, "other": 2}, "'other' has the field id 2, which a new column may get", 0),
    ],
)
def test_field_ids_in_files_that_contradict_the_mirror_are_refused(
    tmp_path: Path, schema: StructType, ids: dict[str, int], message: str, others: int
) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), schema).create()
    files = [table.add({"a": [n], "b": [-n]}, name=f"f{n:03d}") for n in range(others)]
    files.insert(others // 2, table.add(with_ids(ids), name="odd"))
    table.commit(*files)
    with pytest.raises(ConversionError, match=f"{message}, .*/odd") as caught:
        iceberg.convert(table.root)
    assert caught.value.reason == "field ids in files"


def test_a_column_of_a_file_alone_may_have_a_field_id_that_iceberg_reserves(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(a="long"))
    table.create(table.add(with_ids({"a": 1, "_row_id": 2147483540})))
    iceberg.convert(table.root)
    assert iceberg.verify(table.root, rows=True).is_equal


def test_only_the_footers_of_new_files_are_read(tmp_path: Path) -> None:
    table = TableBuilder(default_engine(), str(tmp_path / "t"), struct(id="long"))
    table.create(*(table.add({"id": [n]}, name=f"f{n}") for n in range(5)))
    iceberg.convert(table.root)
    table.commit(table.add({"id": [7]}, name="new"))
    storage = CountingStorage(default_engine().storage)
    iceberg.convert(table.root, engine=engine_over(storage))
    assert [name for name in storage.opened if name in {"new", *(f"f{n}" for n in range(5))}] == ["new"]


def test_files_without_statistics_are_counted(reader: Reader, tmp_path: Path) -> None:
    builder = vector_table(tmp_path, struct(id="long", name="string"))
    add = builder.add({"id": [1, 2, 3], "name": ["a", "b", None]}, stats=None)
    builder.create(add).commit(*builder.delete(add, [1], "i"))
    conversion = iceberg.convert(str(tmp_path), since=0)
    assert_mirrors(reader, str(tmp_path), conversion, [0, 1])
    assert snapshots_of(conversion)[1]["summary"]["total-records"] == "3"


@FORMATS
@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_vectors_of_every_kind_come_along(reader: Reader, tmp_path: Path, version: int, kind: str) -> None:
    builder = vector_table(tmp_path)
    add = builder.add({"id": range(10)})
    removed, added = builder.delete(add, [0, 3, 9], kind)
    builder.create(add).commit(removed, added)
    assert_mirrors(reader, str(tmp_path), iceberg.convert(str(tmp_path), format_version=version, since=0), [0, 1])
