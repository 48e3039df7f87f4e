"""Manifests: entries come back, are copied as bytes, are found by their index, and are few."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile as PyManifestFile
from pyiceberg.manifest import read_manifest_list as read_list
from pyiceberg.table import StaticTable

import lakeport
from lakeport import iceberg, tables
from lakeport.engine import default_engine, engine_over
from lakeport.errors import CorruptTableError
from lakeport.iceberg.avro import decode_header, encode_file
from lakeport.iceberg.manifests.manifest import (
    OutOfStepError,
    Status,
    decode_entries,
    decode_manifest,
    hash_path,
    read_keys,
)
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile, read_manifest_list
from lakeport.iceberg.snapshots import manifest_set
from lakeport.iceberg.snapshots.manifest_set import ManifestReader, ManifestWriter
from lakeport.iceberg.table.partitions import Partitioning
from lakeport.testing.counting import CountingStorage
from tests.iceberg.changing import change_in_all_ways, numbers
from tests.iceberg.readers import PyIceberg, Reader, assert_mirrors, canonical, snapshots_of
from tests.properties import VECTORS

ENGINE = default_engine()


def manifests_of(conversion: iceberg.Conversion, version: int) -> list[ManifestFile]:
    return read_manifest_list(ENGINE.storage, snapshots_of(conversion)[version]["manifest-list"])


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    tables.create(path, numbers(0, 90), partition_by=["g"], properties=VECTORS)
    tables.delete(path, "id % 7 = 0")
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_another_library_reads_the_same_of_lists_and_entries(table: str, version: int) -> None:
    conversion = iceberg.convert(table, format_version=version)
    own = manifests_of(conversion, 1)
    io = PyArrowFileIO()
    theirs: list[PyManifestFile] = list(read_list(io.new_input(snapshots_of(conversion)[1]["manifest-list"])))
    assert [m.manifest_path for m in theirs] == [m.path for m in own]
    assert [(m.added_files_count, m.added_rows_count) for m in theirs] == [(3, 90), (3, 13)]
    assert [(m.content.value, m.sequence_number, m.partition_spec_id) for m in theirs] == [(0, 1, 0), (1, 1, 0)]
    for manifest, other in zip(own, theirs, strict=True):
        found = [(e.data_file.file_path, e.data_file.record_count) for e in other.fetch_manifest_entry(io)]
        entries = [entry["data_file"] for entry in decode_entries(ENGINE.storage, manifest)]
        assert [(file["file_path"], file["record_count"]) for file in entries] == found


@pytest.mark.parametrize("version", [2, 3])
def test_a_manifest_comes_back_byte_by_byte_but_for_what_it_inherits(table: str, version: int) -> None:
    conversion = iceberg.convert(table, format_version=version)
    for manifest in manifests_of(conversion, 1):
        data = ENGINE.storage.read(manifest.path)
        layout, entries = decode_manifest(data, manifest, version)
        assert {(e.status, e.sequence_number, e.file_sequence_number) for e in entries} == {(Status.ADDED, 1, 1)}
        first = 0
        for entry in entries:
            assert entry.first_row_id == (first if version == 3 and manifest.content == DATA else None)
            first += entry.record_count
        bare = [replace(e, sequence_number=None, file_sequence_number=None, first_row_id=None) for e in entries]
        assert layout.encode(bare) == data


@pytest.mark.parametrize("content", [DATA, DELETES])
def test_a_manifest_without_an_index_is_decoded_to_the_same(table: str, content: int) -> None:
    (manifest,) = (m for m in manifests_of(iceberg.convert(table), 1) if m.content == content)
    data = ENGINE.storage.read(manifest.path)
    layout, entries = decode_manifest(data, manifest, 2)
    plain = encode_file(layout.avro_schema, layout.metadata, [layout._encode_head(e) + e.tail for e in entries])
    assert decode_manifest(plain, manifest, 2)[1] == entries
    header = decode_header(plain)
    assert header is not None
    assert "lakeport.entries" not in header.metadata


def test_the_index_tells_which_data_files_a_manifest_is_about(table: str) -> None:
    paths = {hash_path(file.path) for file in lakeport.scan(table).files()}
    for manifest in manifests_of(iceberg.convert(table), 1):
        keys, _ = read_keys(ENGINE.storage, manifest)
        assert keys is not None
        assert set(keys.tolist()) == paths


def test_a_damaged_manifest_is_named(table: str) -> None:
    (manifest, _) = manifests_of(iceberg.convert(table), 1)
    Path(manifest.path).write_bytes(b"Obj\x01 and no more")
    with pytest.raises(CorruptTableError, match="manifest cannot be read") as caught:
        decode_manifest(ENGINE.storage.read(manifest.path), manifest, 2)
    assert caught.value.path == manifest.path
    with pytest.raises(CorruptTableError):
        list(decode_entries(ENGINE.storage, manifest))
    ENGINE.storage.write(manifest.path, b"no Avro", overwrite=True)
    with pytest.raises(CorruptTableError):
        read_keys(ENGINE.storage, manifest)


def test_manifests_without_removed_files_are_shared(table: str) -> None:
    iceberg.convert(table)
    tables.append(table, numbers(90, 100))
    tables.delete(table, "id >= 90 AND g = 1")
    conversion = iceberg.convert(table)
    before, after = (manifests_of(conversion, version) for version in (2, 3))
    shared = {manifest.path for manifest in before} & {manifest.path for manifest in after}
    first = {manifest.path for manifest in manifests_of(conversion, 1)}
    assert first <= shared  # what version 3 removed is in a manifest of version 2
    assert_mirrors(PyIceberg(), table, conversion, [1, 2, 3])


def test_an_entry_that_goes_is_told_once_and_then_forgotten(table: str) -> None:
    iceberg.convert(table)
    tables.delete(table, "g = 0")
    tables.append(table, numbers(90, 93))
    tables.delete(table, "g = 1")
    conversion = iceberg.convert(table)
    for version, gone in ((2, 1), (3, 0), (4, 2)):  # version 4 removes a file of version 0 and one of version 3
        number = snapshots_of(conversion)[version]["snapshot-id"]
        own = [m for m in manifests_of(conversion, version) if m.content == DATA and m.added_snapshot_id == number]
        assert sum(manifest.deleted_files_count for manifest in own) == gone


def test_a_file_that_no_manifest_has_is_an_alarm(table: str) -> None:
    manifests = manifests_of(iceberg.convert(table), 1)
    unpartitioned = Partitioning({"spec-id": 0, "fields": []}, (), (), ())
    reader = ManifestReader(ENGINE.storage)
    writer = ManifestWriter(ENGINE, f"{table}/_iceberg", 5, 2, 2, unpartitioned, reader)
    with pytest.raises(OutOfStepError):
        writer.carry_over(manifests, ["/no/such/file"], [])


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_partition_column_may_get_another_type(reader: Reader, tmp_path: Path, format_version: int) -> None:
    table = str(tmp_path / "table")
    texts = pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"]})
    tables.create(table, texts, partition_by=["part"], properties=VECTORS)
    tables.delete(table, "id = 2")
    iceberg.convert(table, format_version=format_version, since=0)
    whole = pa.table({"id": [1, 2, 3], "part": [1, 1, 2]})
    tables.overwrite(table, whole, overwrite_schema=True, partition_by=["part"])
    tables.append(table, whole)
    tables.delete(table, "id = 3")
    tables.restore(table, version=1)
    assert_mirrors(reader, table, iceberg.convert(table), list(range(6)))


def test_an_increment_reads_each_manifest_once_to_see_that_no_file_is_added_twice(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 10), properties=VECTORS)
    for start in range(10, 60, 10):
        tables.append(table, numbers(start, start + 10))
    iceberg.convert(table, since=0)
    tables.append(table, numbers(60, 70))
    storage = CountingStorage(ENGINE.storage)
    iceberg.convert(table, engine=engine_over(storage))
    opened = [name for name in storage.opened if name.endswith("-m0.avro")]
    assert len(opened) == len(set(opened)) == 6
    assert len([name for name in storage.opened if name.startswith("snap-")]) == 1


def test_small_manifests_become_one_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_set, "_MERGED", 20)
    table = str(tmp_path / "table")
    tables.create(table, numbers(0, 3), partition_by=["g"], properties=VECTORS)
    for start in range(3, 90, 3):
        tables.append(table, numbers(start, start + 3))
    for version in (2, 3):
        conversion = iceberg.convert(table, since=0, format_version=version, out=str(tmp_path / f"mirror{version}"))
        counts = [len(manifests_of(conversion, number)) for number in range(30)]
        assert max(counts) == 20
        assert counts[-1] < 12
        rows = PyIceberg().read(conversion.metadata_location, conversion.snapshot_id)
        assert canonical(rows) == canonical(lakeport.scan(table).to_arrow())
        merged = StaticTable.from_metadata(conversion.metadata_location).scan("g = 1").to_arrow()
        assert merged.num_rows == 30
        last = manifests_of(conversion, 29)
        assert sum(manifest.live_rows_count for manifest in last) == 90
        assert {manifest.min_sequence_number for manifest in last} >= {1}


def test_row_ids_stay_when_manifests_are_rewritten(table: str) -> None:
    iceberg.convert(table, format_version=3)
    before = row_ids(manifests_of(iceberg.convert(table), 1))
    tables.delete(table, "g = 1")
    tables.append(table, numbers(90, 95))
    after = row_ids(manifests_of(iceberg.convert(table), 3))
    kept = before.keys() & after.keys()
    assert len(kept) == 2
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    spans = sorted(after.values())
    assert all(first + count <= following for (first, count), (following, _) in pairwise(spans))


def row_ids(manifests: list[ManifestFile]) -> dict[int, tuple[int, int]]:
    """The first row id of each data file, and how many rows it has."""
    found: dict[int, tuple[int, int]] = {}
    for manifest in manifests:
        if manifest.content == DATA:
            _, entries = decode_manifest(ENGINE.storage.read(manifest.path), manifest, 3)
            found |= {e.key: (e.first_row_id or 0, e.record_count) for e in entries}
    return found


def test_histories_end_with_few_files_of_each_kind(table: str) -> None:
    change_in_all_ways(table)
    conversion = iceberg.convert(table)
    assert len(manifests_of(conversion, conversion.version)) == 2
