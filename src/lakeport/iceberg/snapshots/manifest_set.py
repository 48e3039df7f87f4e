"""The manifests of a mirror: which of them have given files, and which of them the next snapshot shares."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lakeport.iceberg.manifests.manifest import (
    Entry,
    ManifestLayout,
    OutOfStepError,
    Status,
    decode_manifest,
    hash_path,
    read_keys,
)
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile
from lakeport.iceberg.snapshots.deletes import repack
from lakeport.iceberg.table.partitions import Partitioning, merge_summaries
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.engine import Engine, StorageClient
from lakeport.workers.ordered import map_ordered

Keys = npt.NDArray[np.uint64]

_THREADS = 16
MANIFEST_ENTRIES = 8192
"""The maximum number of files in a manifest."""
_MERGED = 100
"""Merge this many small manifests into one."""


class ManifestReader:
    """Reads each manifest at most once: only its index, unless it has a wanted entry."""

    def __init__(self, storage: StorageClient) -> None:
        self._storage = storage
        self._keys: dict[str, Keys | None] = {}
        self._first_bytes: dict[str, bytes] = {}
        """The first bytes of manifests with wanted entries."""
        self._decoded: dict[str, tuple[ManifestLayout, list[Entry]]] = {}

    def find(self, manifests: Sequence[ManifestFile], wanted: Mapping[int, Collection[int]]) -> list[bool]:
        """Whether each manifest may have an entry with one of the wanted keys of its content. Raises
        `CorruptTableError` and `MissingFileError`."""
        keys = {content: np.array(sorted(found), dtype=np.uint64) for content, found in wanted.items()}
        asked = [manifest for manifest in manifests if len(keys[manifest.content])]
        if not asked:
            return [False] * len(manifests)
        hits = map_ordered(lambda one: self._may_have(one, keys[one.content]), asked, _THREADS, "manifests")
        found = {manifest.path for manifest, hit in zip(asked, hits, strict=True) if hit}
        return [manifest.path in found for manifest in manifests]

    def read(self, manifest: ManifestFile, format_version: int) -> tuple[ManifestLayout, list[Entry]]:
        """See `decode_manifest`. Raises like `find`."""
        if manifest.path not in self._decoded:
            first = self._first_bytes.pop(manifest.path, b"")
            rest = self._storage.read(manifest.path, len(first)) if len(first) < manifest.length else b""
            self._decoded[manifest.path] = decode_manifest(first + rest, manifest, format_version)
        return self._decoded[manifest.path]

    def learn(self, path: str, keys: list[int]) -> None:
        """Cache the keys of a manifest that has just been written."""
        self._keys[path] = np.array(keys, dtype=np.uint64)

    def forget(self, manifests: Iterable[ManifestFile]) -> None:
        """Drop all but the keys of these manifests: the next snapshot looks for other entries."""
        kept = {manifest.path for manifest in manifests}
        self._keys = {path: keys for path, keys in self._keys.items() if path in kept}
        self._first_bytes.clear()
        self._decoded.clear()

    def _may_have(self, manifest: ManifestFile, wanted: Keys) -> bool:
        data = b""
        if manifest.path not in self._keys:
            self._keys[manifest.path], data = read_keys(self._storage, manifest)
        keys = self._keys[manifest.path]
        is_hit = keys is None or bool(np.isin(wanted, keys).any())
        if is_hit and data:
            self._first_bytes[manifest.path] = data
        return is_hit


@dataclass
class Removed:
    """Files and records that a snapshot removes."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    vectors: int | None = 0
    """The number of deletion vectors among the files; None if unknown."""
    by_key: dict[int, int] = field(default_factory=dict)
    """The removed records by key of their data file: see `Entry.keys`. Excludes those repacked into another delete
    file."""
    repacked_bytes: int = 0
    """The size of the repacked delete files."""

    def add(self, entry: Entry, gone: Collection[int]) -> None:
        self.files += 1
        self.records += entry.record_count
        self.bytes += entry.file_size
        self.vectors = (self.vectors or 0) + entry.is_vector
        records = {member.key: member.records for member in entry.members} or {entry.key: entry.record_count}
        self.by_key |= {key: count for key, count in records.items() if key in gone}


@dataclass(frozen=True)
class ManifestWriter:
    """Writes the manifests of one snapshot."""

    engine: Engine
    location: str
    """The directory of the mirror."""
    snapshot_id: int
    sequence_number: int
    format_version: int
    partitioning: Partitioning
    """For the files that the snapshot adds."""
    reader: ManifestReader
    written: list[str] = field(default_factory=list)

    def write(self, layout: ManifestLayout, entries: Sequence[Entry], partitions: list[Json]) -> ManifestFile:
        path = f"{self.location}/metadata/{uuid.uuid4()}-m0.avro"
        data = layout.encode(entries)
        self.written.append(path)
        self.engine.storage.write(path, data)
        self.reader.learn(path, [key for entry in entries for key in entry.keys])
        counts = {status: _count(entries, status) for status in Status}
        live = [self._sequence_number(entry) for entry in entries if entry.status != Status.DELETED]
        return ManifestFile(
            path=path,
            length=len(data),
            partition_spec_id=layout.spec_id,
            content=layout.content,
            sequence_number=self.sequence_number,
            min_sequence_number=min(live, default=self.sequence_number),
            added_snapshot_id=self.snapshot_id,
            added_files_count=counts[Status.ADDED][0],
            existing_files_count=counts[Status.EXISTING][0],
            deleted_files_count=counts[Status.DELETED][0],
            added_rows_count=counts[Status.ADDED][1],
            existing_rows_count=counts[Status.EXISTING][1],
            deleted_rows_count=counts[Status.DELETED][1],
            partitions=partitions,
        )

    def _sequence_number(self, entry: Entry) -> int:
        return self.sequence_number if entry.sequence_number is None else entry.sequence_number

    def carry_over(
        self, manifests: Sequence[ManifestFile], files: Collection[str], vectors: Collection[str]
    ) -> tuple[list[ManifestFile], Removed, Removed]:
        """The manifests without the data files `files` and the delete files of `vectors`, and the removed records.

        Rewrites only manifests that have one of them. Raises `OutOfStepError` if one is missing."""
        living = [manifest for manifest in manifests if manifest.live_files_count]
        gone = {DATA: _keys(files), DELETES: _keys(vectors)}
        affected = self.reader.find(living, gone)
        removed = {DATA: Removed(), DELETES: Removed()}
        left = (
            self._without(m, gone[m.content], removed[m.content]) if hit else m
            for m, hit in zip(living, affected, strict=True)
        )
        kept = [manifest for manifest in left if manifest is not None]
        if any(removed[content].by_key.keys() != gone[content] for content in gone):
            raise OutOfStepError
        return self._merge_small(kept), removed[DATA], removed[DELETES]

    def _without(self, manifest: ManifestFile, gone: frozenset[int], removed: Removed) -> ManifestFile | None:
        layout, found = self._read(manifest)
        entries = []
        for entry in found:
            if not gone.isdisjoint(entry.keys):
                removed.add(entry, gone)
                entries.append(replace(entry, status=Status.DELETED, snapshot_id=self.snapshot_id))
                kept = repack(self.engine, self.location, layout, entry, gone, self.snapshot_id, self.written)
                entries += kept
                removed.repacked_bytes += sum(other.file_size for other in kept)
            else:
                entries.append(replace(entry, status=Status.EXISTING))
        if all(entry.status == Status.EXISTING for entry in entries):  # a hash collision
            return manifest
        # DuckDB cannot read a snapshot whose manifests have different partition types, even if no entry is live.
        if all(entry.status == Status.DELETED for entry in entries) and not layout.partitions_as(self.partitioning):
            return None
        return self.write(layout, entries, manifest.partitions or [])

    def _read(self, manifest: ManifestFile) -> tuple[ManifestLayout, list[Entry]]:
        return self.reader.read(manifest, self.format_version)

    def _merge_small(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Every commit adds a manifest: merge small ones from time to time to keep them few."""
        small: dict[tuple[int, int], list[ManifestFile]] = {}
        for manifest in manifests:
            is_earlier = manifest.added_snapshot_id != self.snapshot_id
            if is_earlier and manifest.live_files_count < MANIFEST_ENTRIES // 2:
                small.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
        for group in small.values():
            if len(group) >= _MERGED:
                gone = {manifest.path for manifest in group}
                manifests = [m for m in manifests if m.path not in gone] + self._merge(group)
        return manifests

    def _merge(self, group: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests with equal partition types."""
        alike: dict[str, list[tuple[ManifestFile, ManifestLayout, list[Entry]]]] = {}
        for manifest in group:
            layout, entries = self._read(manifest)
            alike.setdefault(repr(layout.avro_schema), []).append((manifest, layout, entries))
        return [merged for parts in alike.values() for merged in self._merge_alike(parts)]

    def _merge_alike(self, parts: list[tuple[ManifestFile, ManifestLayout, list[Entry]]]) -> Iterator[ManifestFile]:
        layout = parts[-1][1]
        entries = [replace(entry, status=Status.EXISTING) for _, _, found in parts for entry in found]
        summary = merge_summaries([manifest.partitions or [] for manifest, _, _ in parts], layout.partition_types)
        for start in range(0, len(entries), MANIFEST_ENTRIES):
            yield self.write(layout, entries[start : start + MANIFEST_ENTRIES], summary)


def _keys(paths: Iterable[str]) -> frozenset[int]:
    return frozenset(map(hash_path, paths))


def _count(entries: Iterable[Entry], status: Status) -> tuple[int, int]:
    chosen = [entry.record_count for entry in entries if entry.status == status]
    return len(chosen), sum(chosen)
