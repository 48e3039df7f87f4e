"""The files that conversions generate, and which of them a snapshot needs.

Files are identified by name alone, which is unique: rewritten mirrors may spell paths differently. Only files with such
a name, in such a folder, are treated as generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lakeport.iceberg.manifests.manifest import Status, decode_entries
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile, read_manifest_list
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.engine import FileStatus, StorageClient
from lakeport.workers.ordered import map_ordered

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_METADATA = rf"v\d+\.metadata\.json|\d{{5,}}-{_UUID}\.metadata\.json|{_UUID}-m\d+\.avro|snap-\d+-(?:\d+-)?{_UUID}\.avro"
_DELETES = rf"[0-9a-f]{{16}}-{_UUID}\.(?:parquet|puffin)"
_FOLDERS = {
    folder: re.compile(rf"(?:{names})|\.(?:{names})\.[0-9a-f]{{32}}\.tmp")
    for folder, names in (("metadata", _METADATA), ("deletes", _DELETES))
}
"""The names of generated files by folder, including temporary names."""
_THREADS = 16


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def generated_files(storage: StorageClient, location: str) -> Iterator[FileStatus]:
    """All generated files of a mirror, needed or not."""
    for folder, names in _FOLDERS.items():
        for file in storage.list_from(f"{location}/{folder}", ""):
            if names.fullmatch(name_of(file.path)):
                yield file


class SnapshotFiles:
    """The files of snapshots. Each manifest is read once, however many snapshots share it."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage
        self._manifests: dict[str, list[ManifestFile]] = {}
        self._listed: dict[str, tuple[str, ...]] = {}

    def manifests_of(self, snapshot: Json, content: int) -> list[ManifestFile]:
        """Raises `CorruptTableError` and `MissingFileError`."""
        path = snapshot["manifest-list"]
        if path not in self._manifests:
            self._manifests[path] = read_manifest_list(self._storage, path)
        return [manifest for manifest in self._manifests[path] if manifest.content == content]

    def generated_names(self, snapshots: Iterable[Json]) -> set[str]:
        """The names of all generated files that snapshots need, except metadata. Raises like `manifests_of`."""
        names: set[str] = set()
        deletes: dict[str, ManifestFile] = {}
        for snapshot in snapshots:
            deletes |= {manifest.path: manifest for manifest in self.manifests_of(snapshot, DELETES)}
            data = self.manifests_of(snapshot, DATA)
            names |= {name_of(snapshot["manifest-list"]), *(name_of(m.path) for m in (*data, *deletes.values()))}
        for paths in map_ordered(self.data_files, deletes.values(), _THREADS, "manifests"):
            names.update(map(name_of, paths))
        return names

    def data_files(self, manifest: ManifestFile) -> tuple[str, ...]:
        """The paths of a manifest's data files. Raises like `manifests_of`."""
        if manifest.path not in self._listed:
            entries = decode_entries(self._storage, manifest)
            self._listed[manifest.path] = tuple(
                entry["data_file"]["file_path"] for entry in entries if entry["status"] != Status.DELETED
            )
        return self._listed[manifest.path]
