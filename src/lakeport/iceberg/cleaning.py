"""`clean`: expire snapshots of a mirror, and delete the generated files that no snapshot needs any more.

Files are identified by name alone, which is unique: rewritten mirrors may spell paths differently. Only files with such
a name, in such a folder, are treated as generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from lakeport.engine import default_engine
from lakeport.errors import ConversionError, MissingFileError
from lakeport.iceberg.manifests.manifest import Status, decode_entries
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile, read_manifest_list
from lakeport.iceberg.table.metadata import mirrored_version, version_of
from lakeport.iceberg.table.schema import Json
from lakeport.iceberg.targets import open_mirror
from lakeport.iceberg.targets.target import CommitLostError, Published, Target
from lakeport.kernel.definition import parse_interval
from lakeport.kernel.engine import Engine, FileStatus, StorageClient
from lakeport.kernel.snapshot import Table
from lakeport.workers.ordered import map_ordered

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_METADATA = rf"v\d+\.metadata\.json|\d{{5,}}-{_UUID}\.metadata\.json|{_UUID}-m\d+\.avro|snap-\d+-(?:\d+-)?{_UUID}\.avro"
_DELETES = rf"[0-9a-f]{{16}}-{_UUID}\.(?:parquet|puffin)"
_FOLDERS = {
    folder: re.compile(rf"(?:{names})|\.(?:{names})\.[0-9a-f]{{32}}\.tmp")
    for folder, names in (("metadata", _METADATA), ("deletes", _DELETES))
}
"""The names of generated files by folder, including temporary names."""
_READ_AT_ONCE = 16


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
        for paths in map_ordered(self.data_files, deletes.values(), _READ_AT_ONCE, "manifests"):
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


_MILLISECOND = timedelta(milliseconds=1)
_BATCH = 1000
_DELETED_AT_ONCE = 8


@dataclass(frozen=True)
class ExpiredSnapshot:
    """An expired snapshot, and the reason."""

    snapshot_id: int
    version: int | None
    """The Delta version it shows; None if Lakeport did not write it."""
    reason: str
    """`retention`, or `vacuumed` if files it needs are gone."""


@dataclass(frozen=True)
class Cleaning:
    """The snapshots and files that can be removed or, if `deleted`, were removed."""

    expired: tuple[ExpiredSnapshot, ...]
    files: tuple[str, ...]
    """Relative to the mirror's directory, sorted."""
    bytes: int
    deleted: bool


def clean(
    target: str,
    *,
    out: str | None = None,
    catalog: Any = None,
    table: str | None = None,
    retention: timedelta | str = "7 days",
    grace: timedelta | str = "1 day",
    dry_run: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> Cleaning:
    """Find the snapshots of a mirror that were not current at any time within `retention`, or whose data files VACUUM
    has deleted from the Delta table, and the generated files that no other snapshot needs. With `dry_run=False`, expire
    and delete them. `out`, `catalog` and `table` locate the mirror, as for `convert`.

    The current snapshot stays, and so do those with a branch or a tag. Data files are never touched. Old metadata, and
    files that no snapshot has ever needed, are deleted only if they are older than `grace`. It must exceed the duration
    of the longest conversion: a running converter may be about to publish them.

    Raises `ConversionError` if there is no mirror."""
    engine = engine or default_engine(storage_options)
    source, place = open_mirror(engine, target, out, catalog, table)
    cleaner = _Cleaner(source, place, _milliseconds(retention), _milliseconds(grace))
    while True:  # lost the race against a converter: look again
        try:
            return cleaner.run(dry_run=dry_run)
        except CommitLostError:
            continue


def _milliseconds(interval: timedelta | str) -> int:
    value = parse_interval(interval) if isinstance(interval, str) else interval // _MILLISECOND
    if value < 0:
        raise ValueError(f"the interval {interval} is negative")
    return value


@dataclass(frozen=True)
class _Cleaner:
    source: Table
    target: Target
    retention: int
    grace: int

    def run(self, *, dry_run: bool) -> Cleaning:
        engine = self.source.engine
        # List first: anything published after that is either not listed, or known to be needed.
        now, files = engine.now(), list(generated_files(engine.storage, self.target.location))
        published = self.target.load()
        if published is None or mirrored_version(published.metadata) is None:
            raise ConversionError(f"there is no mirror to clean [{self.target.location}]", reason="no mirror")
        plan = _Plan(self.source, published, now - self.retention)
        unneeded = [file for file in files if plan.is_unneeded(file, now - self.grace)]
        if not dry_run:
            if plan.expired:
                self.target.publish(published, published.metadata, [plan.update])
            self._delete(unneeded)
        paths = tuple(sorted(file.path.removeprefix(f"{self.target.location}/") for file in unneeded))
        return Cleaning(plan.expired, paths, sum(file.size for file in unneeded), not dry_run)

    def _delete(self, files: list[FileStatus]) -> None:
        batches = [[file.path for file in files[start : start + _BATCH]] for start in range(0, len(files), _BATCH)]
        for _ in map_ordered(self.source.engine.storage.delete, batches, _DELETED_AT_ONCE, "clean"):
            pass


class _Plan:
    """The snapshots to expire from a published mirror, and the files needed after that."""

    def __init__(self, source: Table, published: Published, since: int) -> None:
        self._source, self._published = source, published
        self._metadata = published.metadata
        self._files = SnapshotFiles(source.engine.storage)
        reasons = self._outdated(since)
        reasons |= self._incomplete(snapshot for snapshot in self._passing() if snapshot["snapshot-id"] not in reasons)
        self.expired = tuple(
            ExpiredSnapshot(snapshot["snapshot-id"], version_of(snapshot), reasons[snapshot["snapshot-id"]])
            for snapshot in self._snapshots
            if snapshot["snapshot-id"] in reasons
        )

    @property
    def update(self) -> Json:
        return {"action": "remove-snapshots", "snapshot-ids": [snapshot.snapshot_id for snapshot in self.expired]}

    def is_unneeded(self, file: FileStatus, until: int) -> bool:
        """Whether a generated file can be deleted. Files that no snapshot is known to have needed must not be newer
        than `until`."""
        name = name_of(file.path)
        return name not in self._needed and (name in self._released or file.modification_time <= until)

    @cached_property
    def _snapshots(self) -> list[Json]:
        """Oldest first."""
        snapshots: list[Json] = self._metadata.get("snapshots") or []
        return sorted(snapshots, key=lambda snapshot: snapshot.get("sequence-number", 0))

    @cached_property
    def _lasting(self) -> set[int]:
        """The ids of snapshots that are never expired."""
        named = {ref["snapshot-id"] for ref in (self._metadata.get("refs") or {}).values()}
        return {*named, self._metadata["current-snapshot-id"]}

    def _passing(self) -> Iterator[Json]:
        return (snapshot for snapshot in self._snapshots if snapshot["snapshot-id"] not in self._lasting)

    def _outdated(self, since: int) -> dict[int, str]:
        """Snapshots that were superseded before `since`."""
        followed_at = {
            snapshot["snapshot-id"]: following["timestamp-ms"]
            for snapshot, following in zip(self._snapshots, self._snapshots[1:], strict=False)
        }
        ids = (snapshot["snapshot-id"] for snapshot in self._passing())
        return {number: "retention" for number in ids if followed_at.get(number, since) < since}

    def _incomplete(self, snapshots: Iterable[Json]) -> dict[int, str]:
        """The snapshots that need missing files. Files that lasting snapshots share are not checked."""
        lasting = [snapshot for snapshot in self._snapshots if snapshot["snapshot-id"] in self._lasting]
        whole = {manifest.path: True for s in lasting for manifest in self._files.manifests_of(s, DATA)}
        return {s["snapshot-id"]: "vacuumed" for s in snapshots if not self._is_whole(s, whole)}

    def _is_whole(self, snapshot: Json, whole: dict[str, bool]) -> bool:
        """`whole` caches the manifests checked so far."""
        try:
            for manifest in self._files.manifests_of(snapshot, DATA):
                if manifest.path not in whole:
                    whole[manifest.path] = not any(map(self._is_gone, self._files.data_files(manifest)))
                if not whole[manifest.path]:
                    return False
        except MissingFileError:
            return False
        return True

    def _is_gone(self, path: str) -> bool:
        return path not in self._existing and self._source.engine.storage.status(path) is None

    @cached_property
    def _existing(self) -> set[str]:
        """The files in the Delta table's directory."""
        return {file.path for file in self._source.engine.storage.list_all(self._source.root)}

    @cached_property
    def _needed(self) -> set[str]:
        """The names of generated files to keep."""
        gone = {snapshot.snapshot_id for snapshot in self.expired}
        kept = [snapshot for snapshot in self._snapshots if snapshot["snapshot-id"] not in gone]
        current = set() if gone else {name_of(self._published.path)}  # expiring snapshots replaces the metadata too
        return self._files.generated_names(kept) | current

    @cached_property
    def _released(self) -> set[str]:
        """The names of generated files that expired snapshots needed: no converter is about to publish them."""
        gone = {snapshot.snapshot_id for snapshot in self.expired}
        return self._names_of(snapshot for snapshot in self._snapshots if snapshot["snapshot-id"] in gone)

    def _names_of(self, snapshots: Iterable[Json]) -> set[str]:
        names: set[str] = set()
        for snapshot in snapshots:
            try:
                names |= self._files.generated_names([snapshot])
            except MissingFileError:  # its remaining files are found by age
                continue
        return names
