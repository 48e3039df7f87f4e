"""Mirrors whose own files are wrong or damaged: `verify` notices it."""

from __future__ import annotations

import json
import struct as binary
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.engine import default_engine
from lakeport.errors import CorruptTableError
from lakeport.iceberg import convert
from lakeport.iceberg.avro import decode_header, decode_records, encode_file, encoder
from lakeport.iceberg.verification.verify import verify
from lakeport.testing.builder import TableBuilder, protocol, struct

pytest.importorskip("pyiceberg")
Records = list[dict[str, Any]]
Falsify = Callable[[TableBuilder], object]
both_versions = pytest.mark.parametrize("format_version", [2, 3])


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three files of one partition each: the first has a deletion vector, the last has nulls."""
    table = TableBuilder(
        default_engine(),
        str(tmp_path / "t"),
        struct(id="long", p="integer"),
        partition_by=["p"],
        protocol=protocol(features=["deletionVectors"]),
    )
    rows = [[0, 1, 2], [10, 11, 12], [20, None, 22]]
    files = [table.add({"id": ids}, {"p": str(n)}, name=f"p={n}/f{n}") for n, ids in enumerate(rows)]
    files[0]["add"]["deletionVector"] = table.deletion_vector([1])
    return table.create(*files)


def metadata_path(table: TableBuilder) -> Path:
    [found] = Path(table.root).glob("_iceberg/metadata/v*.metadata.json")
    return found


def manifest_list(table: TableBuilder) -> Path:
    [snapshot] = json.loads(metadata_path(table).read_text())["snapshots"]
    return Path(snapshot["manifest-list"])


def manifest(table: TableBuilder, content: int) -> Path:
    records = decode_records(manifest_list(table).read_bytes())
    [path] = [Path(one["manifest_path"]) for one in records if one["content"] == content]
    return path


def data_manifest(table: TableBuilder) -> Path:
    return manifest(table, 0)


def delete_manifest(table: TableBuilder) -> Path:
    return manifest(table, 1)


def in_records(find: Callable[[TableBuilder], Path], change: Callable[[Records], object]) -> Falsify:
    """Changes the records of an Avro file."""

    def falsify(table: TableBuilder) -> None:
        data = find(table).read_bytes()
        header = decode_header(data)
        assert header is not None
        records = list(decode_records(data))
        change(records)
        own = {name: text for name, text in header.metadata.items() if not name.startswith("avro.")}
        find(table).write_bytes(encode_file(header.schema, own, map(encoder(header.schema), records)))

    return falsify


def in_entry(number: int, **changes: Any) -> Falsify:
    """Changes what the manifest says of a data file."""
    return in_records(data_manifest, lambda found: found[number]["data_file"].update(changes))


def in_fields(change: Callable[[Records], object]) -> Falsify:
    """Changes the columns of the mirror's schema."""

    def falsify(table: TableBuilder) -> None:
        metadata = json.loads(metadata_path(table).read_text())
        change(metadata["schemas"][0]["fields"])
        metadata_path(table).write_text(json.dumps(metadata))

    return falsify


def swap_names(fields: Records) -> None:
    fields[0]["name"], fields[1]["name"] = fields[1]["name"], fields[0]["name"]


def whats(table: TableBuilder, *, rows: bool = False) -> str:
    return "; ".join(difference.what for difference in verify(table.root, rows=rows).differences)


FALSE: dict[str, tuple[Falsify, str]] = {
    "columns in another order": (in_fields(lambda fields: fields.reverse()), "in the order p, id"),
    "names that are swapped": (in_fields(swap_names), "in the order p, id"),
    "a column less": (in_fields(lambda fields: fields.pop(0)), "there is no column 'id'"),
    "another type": (in_fields(lambda fields: fields[0].update(type="string")), "'id' is of the type large_string"),
    "a data file twice": (in_records(data_manifest, lambda found: found.append(found[0])), "has the file twice"),
    "a manifest twice": (in_records(manifest_list, lambda found: found.append(found[0])), "has the file twice"),
    "a delete file twice": (in_records(delete_manifest, lambda found: found.append(found[0])), "delete file twice"),
    "no delete file": (in_records(manifest_list, lambda found: found.pop(1)), "no row is deleted, the table lacks 1"),
    "another number of deleted rows": (
        in_records(delete_manifest, lambda found: found[0]["data_file"].update(record_count=5)),
        "1 rows are deleted by it, not 5",
    ),
    "deletes older than their data": (
        in_records(delete_manifest, lambda found: found[0].update(sequence_number=0)),
        "no row is deleted, the table lacks 1",
    ),
    "deletes taken for data": (
        in_records(manifest_list, lambda found: found[1].update(content=0)),
        "the manifest list takes it for a manifest of data",
    ),
    "a manifest with fewer files": (
        in_records(manifest_list, lambda found: found[0].update(added_files_count=2)),
        "a wrong number of its files",
    ),
    "a partition left out": (
        in_records(manifest_list, lambda found: found[0]["partitions"][0].update(upper_bound=binary.pack("<i", 1))),
        "the manifest list leaves out values of the partition field 'p'",
    ),
}


def bound(number: int) -> list[dict[str, Any]]:
    return [{"key": 1, "value": binary.pack("<q", number)}]


FALSE_OF_ROWS: dict[str, tuple[Falsify, str]] = {
    "a partition value": (in_entry(1, partition={"p": 7}), "the column 'p' differs"),
    "no partition value": (in_entry(1, partition={"p": None}), "the column 'p' differs"),
    "a lower bound": (
        in_entry(1, lower_bounds=bound(11)),
        "metrics of 'id', which the table's statistics gave, are wrong: there are values less than 11",
    ),
    "an upper bound": (in_entry(1, upper_bounds=bound(11)), "there are values greater than 11"),
    "no nulls": (in_entry(2, null_value_counts=[{"key": 1, "value": 0}]), "there are nulls"),
    "nothing but nulls": (in_entry(1, null_value_counts=[{"key": 1, "value": 3}]), "there are not only nulls"),
    "half a bound": (in_entry(1, lower_bounds=[{"key": 1, "value": b"!"}]), "pyiceberg cannot read its rows"),
}


@both_versions
@pytest.mark.parametrize("case", [*FALSE, *FALSE_OF_ROWS])
def test_what_is_false_in_a_mirror_is_a_difference(table: TableBuilder, format_version: int, case: str) -> None:
    falsify, what = (FALSE | FALSE_OF_ROWS)[case]
    rows = case in FALSE_OF_ROWS
    convert(table.root, format_version=format_version)
    assert verify(table.root, rows=rows).is_equal
    falsify(table)
    assert what in whats(table, rows=rows)


def test_a_deletion_vector_in_another_partition_is_a_difference(table: TableBuilder) -> None:
    convert(table.root, format_version=3)
    in_records(delete_manifest, lambda found: found[0]["data_file"].update(partition={"p": 2}))(table)
    assert "its delete file is in another partition, so filters may miss it" in whats(table)


def test_another_number_of_records_is_a_difference_if_the_table_does_not_tell_it(table: TableBuilder) -> None:
    del table.versions[0][3]["add"]["stats"]
    table.commit(*table.versions[0], version=0)
    convert(table.root)
    assert verify(table.root, rows=True).is_equal
    in_entry(1, record_count=4)(table)
    assert whats(table, rows=True) == "it has 3 records, its metrics say 4"


@both_versions
@pytest.mark.parametrize("find", [manifest_list, data_manifest, delete_manifest])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.95])
def test_a_damaged_manifest_is_named(
    table: TableBuilder, format_version: int, find: Callable[[TableBuilder], Path], part: float
) -> None:
    convert(table.root, format_version=format_version)
    path = find(table)
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(CorruptTableError, match="pyiceberg cannot read the mirror"):
        verify(table.root)


@both_versions
def test_a_damaged_delete_file_is_a_difference(table: TableBuilder, format_version: int) -> None:
    [deletes] = Path(convert(table.root, format_version=format_version).location).glob("deletes/*")
    deletes.write_bytes(deletes.read_bytes()[:40])
    assert "pyiceberg cannot read the mirror" in whats(table)
