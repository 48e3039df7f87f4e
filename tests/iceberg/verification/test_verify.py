"""`verify` finds mirrors that are right to be right, and says of every other what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakeport import tables
from lakeport.engine import default_engine
from lakeport.errors import ConversionError, CorruptTableError, VersionNotFoundError
from lakeport.iceberg import convert
from lakeport.iceberg.snapshots import deletes
from lakeport.iceberg.verification.delta_reader import Fingerprint
from lakeport.iceberg.verification.verify import Verification, verify
from lakeport.testing.builder import Action, TableBuilder, protocol, struct
from tests.acceptance.real_tables import path_of

pytest.importorskip("pyiceberg")
ENGINE = default_engine()
both_versions = pytest.mark.parametrize("format_version", [2, 3])


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """A partitioned table of three files; the first has a deletion vector."""
    schema = struct(id="long", p="integer")
    table = TableBuilder(
        ENGINE, str(tmp_path / "t"), schema, partition_by=["p"], protocol=protocol(features=["deletionVectors"])
    )
    files = [table.add({"id": [10 * n, 10 * n + 1, 10 * n + 2]}, {"p": str(n)}, name=f"p={n}/f{n}") for n in range(3)]
    files[0]["add"]["deletionVector"] = table.deletion_vector([1])
    return table.create(*files)


def body(table: TableBuilder, index: int) -> Action:
    """The add of a file, as it is; what a test makes of it is what the Delta table says."""
    found: Action = table.versions[0][2 + index]["add"]
    return found


def rewrite(table: TableBuilder) -> None:
    table.commit(*table.versions[0], version=0)


def whats(found: Verification) -> dict[str, str]:
    return {Path(difference.path).name: difference.what for difference in found.differences}


@both_versions
def test_a_mirror_that_is_right_is_equal_at_every_version(tmp_path: Path, format_version: int) -> None:
    root = str(tmp_path / "t")
    maps = pa.array([[("a", n % 5)] for n in range(60)], pa.map_(pa.string(), pa.int8()))
    rows = pa.table({"id": range(60), "p": [n % 3 for n in range(60)], "x": [float("nan")] * 60, "m": maps})
    tables.create(root, rows, partition_by=["p"], properties={"delta.enableDeletionVectors": "true"})
    tables.delete(root, "id % 7 = 0")
    tables.update(root, {"id": "id + 1000"}, "id % 5 = 0")
    tables.append(root, rows.slice(0, 9))
    tables.optimize(root)
    tables.restore(root, version=2)
    convert(root, format_version=format_version, since=0)
    for version in range(6):
        found = verify(root, version=version, rows=True)
        assert found.is_equal, found.differences
        assert (found.version, found.rows_compared) == (version, True)
    assert verify(root).version == 5


FAR = pa.array([-(10**17), 3 * 10**17, -1, None], pa.int64())
"""Microseconds: the years -1199 and 11476."""
DAYS = pa.array([-800_000, 4_000_000, -1, None], pa.int32()).cast(pa.date32())
FLOATS = pa.array([float("nan"), -0.0, float("-inf"), None])
ODD: dict[str, pa.Array] = {
    "float": FLOATS,
    "decimal": pa.array([Decimal(f"{sign}{'9' * 38}") for sign in ("", "-")] + [Decimal(0), None], pa.decimal128(38)),
    "timestamp": FAR.cast(pa.timestamp("us", "UTC")),
    "wall_time": FAR.cast(pa.timestamp("us")),
    "date": DAYS,
    "binary": pa.array([b"\0", b"", b"a\0b\xff", None]),
    "struct": pa.StructArray.from_arrays([FLOATS, FAR.cast(pa.timestamp("us")), DAYS], ["x", "t", "d"]),
    "structs": pa.array(
        [[{"x": None}], [None], [{"x": 1}, None], [{"x": 2}]], pa.list_(pa.struct([("x", pa.int64())]))
    ),
    "map": pa.array([[("a", None)], [], None, [("", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())),
    "map_of_dates": pa.MapArray.from_arrays([0, 1, 2, 3, 4], pa.array(["a", "b", "c", "d"]), DAYS),
}


@both_versions
@pytest.mark.parametrize("name", ODD)
def test_a_right_mirror_of_odd_values_is_equal(tmp_path: Path, name: str, format_version: int) -> None:
    root = str(tmp_path)
    tables.create(root, {"id": [1, 2, 3, 4], name: ODD[name]}, properties={"delta.enableDeletionVectors": "true"})
    tables.delete(root, "id = 3")
    convert(root, format_version=format_version)
    found = verify(root, rows=True)
    assert found.differences == ()
    assert found.no_second_reader is None


def test_a_right_mirror_of_files_of_another_writer_is_equal(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"text": ["a", None], "raw": [b"a", None]}))
    convert(str(tmp_path))
    assert verify(str(tmp_path), rows=True).differences == ()


@both_versions
def test_a_right_mirror_partitioned_by_doubles_is_equal(tmp_path: Path, format_version: int) -> None:
    root = str(tmp_path)
    values = pa.array([0.1, 1e300, 5e-324, -0.0, float("nan"), float("-inf"), None])
    tables.create(root, {"id": range(7), "p": values}, partition_by=["p"])
    convert(root, format_version=format_version)
    assert verify(root, rows=True).differences == ()


def test_a_verification_counts_files_and_deleted_rows_and_tells_its_progress(table: TableBuilder) -> None:
    mirror = convert(table.root)
    told: list[tuple[int, int]] = []
    found = verify(table.root, progress=lambda *numbers: told.append(numbers))
    assert found == Verification(0, mirror.snapshot_id, 3, 1, False, ())
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_mirror_elsewhere_is_verified_there(table: TableBuilder, tmp_path: Path) -> None:
    out = str(tmp_path / "mirror")
    convert(table.root, out=out)
    assert verify(table.root, out=out).is_equal
    with pytest.raises(ConversionError, match="there is no mirror") as raised:
        verify(table.root)
    assert raised.value.reason == "no mirror"


def test_a_version_that_is_not_mirrored_is_told(table: TableBuilder) -> None:
    convert(table.root)
    with pytest.raises(VersionNotFoundError, match="no snapshot of version 7") as raised:
        verify(table.root, version=7)
    assert (raised.value.earliest, raised.value.latest) == (0, 0)


def test_files_that_only_one_of_the_two_has_are_differences(table: TableBuilder) -> None:
    convert(table.root)
    table.versions[0][3] = table.add({"id": [5]}, {"p": "1"}, name="p=1/other")
    rewrite(table)
    assert whats(verify(table.root)) == {
        "f1": "the mirror has a file that the table does not have",
        "other": "the mirror lacks the file",
    }


def test_another_size_or_number_of_records_is_a_difference(table: TableBuilder) -> None:
    convert(table.root)
    body(table, 1)["size"] += 1
    body(table, 2)["stats"] = json.dumps(json.loads(body(table, 2)["stats"]) | {"numRecords": 4})
    size = body(table, 1)["size"]
    rewrite(table)
    assert whats(verify(table.root)) == {
        "f1": f"it has {size - 1} bytes, but {size} in the table",
        "f2": "it has 3 records, but 4 in the table",
    }


@both_versions
def test_other_deleted_rows_are_a_difference(table: TableBuilder, format_version: int) -> None:
    body(table, 1)["deletionVector"] = table.deletion_vector([0, 2], kind="i")
    rewrite(table)
    convert(table.root, format_version=format_version)
    body(table, 0)["deletionVector"] = table.deletion_vector([2])
    body(table, 1)["deletionVector"] = table.deletion_vector([0])
    rewrite(table)
    found = verify(table.root)
    assert [d.what for d in found.differences if d.path.endswith("f0")] == [
        "the row at position 1 is deleted in one of the two only"
    ]
    assert [d.what for d in found.differences if d.path.endswith("f1")] == [
        "2 rows are deleted, the table lacks 1",
        "the row at position 2 is deleted in one of the two only",
    ]


@both_versions
def test_deletes_that_only_one_of_the_two_has_are_a_difference(table: TableBuilder, format_version: int) -> None:
    convert(table.root, format_version=format_version)
    body(table, 1)["deletionVector"] = body(table, 0).pop("deletionVector")
    rewrite(table)
    assert whats(verify(table.root)) == {
        "f0": "1 rows are deleted, the table has all of them",
        "f1": "no row is deleted, the table lacks 1",
    }


def test_a_damaged_vector_of_the_mirror_is_a_difference(table: TableBuilder) -> None:
    mirror = convert(table.root, format_version=3)
    [puffin] = Path(mirror.location).glob("**/*.puffin")
    data = bytearray(puffin.read_bytes())
    data[20] ^= 1
    puffin.write_bytes(bytes(data))
    assert "CRC-32 is wrong" in whats(verify(table.root))["f0"]


def test_rows_are_compared_only_if_asked(table: TableBuilder) -> None:
    convert(table.root)
    body(table, 2)["partitionValues"] = {"p": "99"}
    rewrite(table)
    assert verify(table.root).is_equal
    found = verify(table.root, rows=True)
    assert whats(found) == {"f2": "live row 0: in the mirror, the column 'p' differs"}


def test_files_without_rows_are_the_same_and_files_that_are_taken_for_such_are_not(table: TableBuilder) -> None:
    table.versions[0].append(table.add({"id": []}, {"p": "0"}, name="p=0/empty"))
    body(table, 2)["stats"] = json.dumps({"numRecords": 0})
    rewrite(table)
    convert(table.root)
    assert whats(verify(table.root)) == {"f2": "the mirror lists the file as empty, but it is not"}


def test_a_mirror_that_pyiceberg_cannot_open_is_told(tmp_path: Path) -> None:
    root, out = path_of("delta44--variants"), str(tmp_path / "mirror")
    convert(root, out=out, format_version=3)
    with pytest.raises(ConversionError, match="variant") as raised:
        verify(root, out=out)
    assert raised.value.reason == "pyiceberg"


def test_a_data_file_that_nobody_can_read_is_damage_and_no_difference(table: TableBuilder) -> None:
    convert(table.root)
    path = Path(table.root) / "p=1" / "f1"
    data = path.read_bytes()
    path.write_bytes(b"?" * len(data))
    with pytest.raises(CorruptTableError):
        verify(table.root, rows=True)
    assert verify(table.root).is_equal


def test_a_delete_file_that_applies_to_nothing_is_a_difference(table: TableBuilder, monkeypatch: Any) -> None:
    """The name of the data file in a delete file's bounds decides what it applies to."""
    bounded = deletes._encode_tail

    def renamed(*about: Any) -> bytes:
        return bounded(*about).replace(b"/p=0/f0", b"/p=0/f9")

    monkeypatch.setattr(deletes, "_encode_tail", renamed)
    [file] = Path(convert(table.root).location).glob("deletes/*")
    assert whats(verify(table.root)) == {
        "f0": "no row is deleted, the table lacks 1",
        file.name: "the delete file applies to no data file of the mirror",
    }


# A second reader of the Delta table


class NullParquet:
    """Reads nulls in place of the values of `id`, as if the kernel asked for the wrong column."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read_parquet_files(self, *given: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        for batch in self._inner.read_parquet_files(*given, **more):
            place = batch.schema.get_field_index("id")
            yield batch if place < 0 else batch.set_column(place, "id", pa.nulls(batch.num_rows, pa.int64()))


def test_rows_that_lakeport_and_the_mirror_have_wrong_in_the_same_way_are_a_difference(table: TableBuilder) -> None:
    for index in range(3):
        body(table, index)["stats"] = json.dumps({"numRecords": 3})
    rewrite(table)
    mirror = convert(table.root)
    path = Path(mirror.metadata_location)
    text = path.read_text()
    path.write_text(text.replace('\\"field-id\\":1,\\"names\\":[\\"id\\"]', '\\"field-id\\":99,\\"names\\":[\\"id\\"]'))
    engine = default_engine()
    wrong = replace(engine, parquet=NullParquet(engine.parquet))
    found = verify(table.root, rows=True, engine=wrong)
    assert [(d.path, d.what) for d in found.differences] == [
        (
            table.root,
            f"deltalake {deltalake.__version__} reads the Delta table differently from Lakeport: other values in id",
        )
    ]
    [right] = {difference.what for difference in verify(table.root, rows=True).differences}
    assert right == "live row 0: in the mirror, the column 'id' differs"


def test_the_second_reader_is_named(table: TableBuilder) -> None:
    convert(table.root)
    found = verify(table.root, rows=True)
    assert (found.is_equal, found.second_reader, found.no_second_reader) == (
        True,
        f"deltalake {deltalake.__version__}",
        None,
    )
    assert verify(table.root).second_reader is None


def test_a_second_reader_that_cannot_read_the_table_is_told(tmp_path: Path) -> None:
    root, out = path_of("delta44--vacuumed"), str(tmp_path / "mirror")
    convert(root, out=out)
    found = verify(root, out=out, rows=True)
    assert (found.is_equal, found.second_reader) == (True, None)
    assert "cannot read the table: " in str(found.no_second_reader)


def test_without_a_second_reader_that_is_told(table: TableBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(table.root)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    found = verify(table.root, rows=True)
    assert (found.is_equal, found.no_second_reader) == (True, "deltalake is not installed")


def fingerprint(**columns: Any) -> Fingerprint:
    rows = pa.table(columns)
    return Fingerprint.of(sorted(columns), rows.to_batches(max_chunksize=2))


def test_fingerprints_are_of_rows_and_neither_of_their_order_nor_of_their_types() -> None:
    one = fingerprint(a=[1, None, 3], b=["x", "y", "z"])
    views = pa.array(["z", "x", "y"], pa.string_view())
    assert one.difference(fingerprint(b=views, a=pa.array([3, 1, None], pa.int8()))) is None
    assert one.difference(fingerprint(b=["x", "z", "y"], a=[1, None, 3])) == "the same values in other rows"
    assert one.difference(fingerprint(b=["x", "y", "z"], a=[1, 2, 3])) == "other values in a"
    assert one.difference(fingerprint(b=["x", "y"], a=[1, None])) == "2 rows, not 3"
    twice = fingerprint(a=[1, 1, 3, 3])
    assert twice.difference(fingerprint(a=[1, 1, 1, 3])) == "other values in a"
    assert fingerprint(a=[None, None]).difference(fingerprint(a=[0, 0])) == "other values in a"


def test_no_rows_are_the_same_in_a_batch_and_in_none() -> None:
    batch = pa.record_batch({"a": pa.array([], pa.int64())})
    assert Fingerprint.of(["a"], []).difference(Fingerprint.of(["a"], [batch])) is None


def test_fingerprints_tell_decimals_apart_by_every_digit() -> None:
    one, other = (pa.array([Decimal("1" * 37 + last)], pa.decimal128(38, 0)) for last in "12")
    assert fingerprint(a=one).difference(fingerprint(a=other)) == "other values in a"


def test_fingerprints_take_alike_what_readers_have_in_several_ways() -> None:
    structs = pa.array([{"x": 1, "y": [2.5]}], pa.struct([("x", pa.int64()), ("y", pa.list_(pa.float64()))]))
    turned = pa.array([{"y": [2.5], "x": 1}], pa.struct([("y", pa.large_list(pa.float64())), ("x", pa.int32())]))
    moment = pa.array([0], pa.timestamp("us", "UTC"))
    pairs: list[tuple[Any, Any]] = [
        (structs, turned),
        (moment, moment.cast(pa.timestamp("ms", "UTC"))),
        (pa.array([float("nan"), 0.0]), pa.array([-0.0, float("nan")])),
        (pa.array(["a"]).dictionary_encode(), pa.array(["a"])),
        (pa.array([b"a"]), pa.array([b"a"], pa.binary_view())),
        (pa.array([[("k", moment[0])]], pa.map_(pa.string(), moment.type)),) * 2,
    ]
    for one, other in pairs:
        assert fingerprint(a=one).difference(fingerprint(a=other)) is None
