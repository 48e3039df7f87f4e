"""The reader of manifests: what it looks for it finds, and no byte is read twice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lakeport import iceberg
from lakeport.engine import default_engine
from lakeport.iceberg.manifests import manifest as manifests
from lakeport.iceberg.manifests.manifest import decode_manifest, hash_path
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile, read_manifest_list
from lakeport.iceberg.snapshots.manifest_set import ManifestReader
from lakeport.testing.builder import TableBuilder, struct
from lakeport.testing.counting import CountingStorage
from tests.iceberg.readers import snapshots_of

FILES = 400
HEADER = {"with the header": 2100, "before the end of the header": 100, "with all": 64 << 10}
"""What is read of a manifest first, besides the bytes of its index."""


class RangeStorage(CountingStorage):
    """Notes how many bytes of a file were read."""

    def __init__(self) -> None:
        super().__init__(default_engine().storage)
        self.bytes_read = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        self.bytes_read += len(data)
        return data


@pytest.fixture
def manifest(tmp_path: Path) -> ManifestFile:
    """One with many files."""
    table = TableBuilder(default_engine(), str(tmp_path / "table"), struct(id="long"))
    file = table.add({"id": [1]}, name="file")["add"]
    table.create(*({"add": {**file, "path": name_of(number)}} for number in range(FILES)))
    [found] = read_manifest_list(
        default_engine().storage, snapshots_of(iceberg.convert(table.root))[0]["manifest-list"]
    )
    return found


def name_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest() * 2


def key_of(manifest: ManifestFile, number: int) -> int:
    return hash_path(f"{manifest.path.partition('/_iceberg/')[0]}/{name_of(number)}")


@pytest.mark.parametrize("first", HEADER)
def test_a_manifest_that_has_a_file_is_read_once(
    manifest: ManifestFile, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(manifests, "_BESIDES_INDEX", HEADER[first])
    storage = RangeStorage()
    reader = ManifestReader(storage)
    assert reader.find([manifest], {DATA: {key_of(manifest, FILES), key_of(manifest, 7)}, DELETES: ()}) == [True]
    expected = decode_manifest(default_engine().storage.read(manifest.path), manifest, 2)
    assert reader.read(manifest, 2) == expected
    assert reader.read(manifest, 2) == expected
    assert len(expected[1]) == FILES
    assert storage.bytes_read == manifest.length
    assert reader.find([manifest], {DATA: {key_of(manifest, 8)}, DELETES: ()}) == [True]
    assert storage.bytes_read == manifest.length


def test_of_a_manifest_without_the_file_only_the_index_is_read(
    manifest: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "_BESIDES_INDEX", HEADER["with the header"])
    storage = RangeStorage()
    reader = ManifestReader(storage)
    assert reader.find([manifest], {DATA: (), DELETES: {1}}) == [False]
    assert storage.bytes_read == 0
    for number in (FILES, FILES + 1):
        assert reader.find([manifest], {DATA: {key_of(manifest, number)}, DELETES: ()}) == [False]
    assert storage.opened == [manifest.path.rpartition("/")[2]]
    assert storage.bytes_read < manifest.length // 2
    assert len(reader.read(manifest, 2)[1]) == FILES


def test_a_manifest_that_was_just_written_need_not_be_read(manifest: ManifestFile) -> None:
    storage = RangeStorage()
    reader = ManifestReader(storage)
    reader.learn(manifest.path, [5, 6])
    assert reader.find([manifest], {DATA: {6}, DELETES: ()}) == [True]
    assert reader.find([manifest], {DATA: {7}, DELETES: ()}) == [False]
    assert storage.opened == []
    reader.forget([])
    assert reader.find([manifest], {DATA: {6}, DELETES: ()}) == [False]
    assert storage.opened
