"""Turns a change of a Delta table into a snapshot of its mirror.

`SnapshotWriter` keeps the metadata and manifests of the latest snapshot, and builds the next one from a change: it
writes delete files, manifests and a manifest list, and collects the updates to publish. It publishes nothing.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.iceberg.delta.change import TableChange
from lakeport.iceberg.delta.kept_version import property_updates
from lakeport.iceberg.manifests.manifest import Entry, OutOfStepError, hash_path
from lakeport.iceberg.manifests.manifest_list import (
    DATA,
    DELETES,
    ManifestFile,
    encode_manifest_list,
    read_manifest_list,
)
from lakeport.iceberg.snapshots.deletes import DeleteTask, members_of, new_path, pack, vector_mark, write_deletes
from lakeport.iceberg.snapshots.entries import EntryMaker
from lakeport.iceberg.snapshots.manifest_set import MANIFEST_ENTRIES, ManifestReader, ManifestWriter, Removed
from lakeport.iceberg.snapshots.shape import Shape, plan_shape
from lakeport.iceberg.table.footer_checks import check_footers
from lakeport.iceberg.table.metadata import (
    DELTA_OPERATION,
    DELTA_TIMESTAMP,
    DELTA_VERSION,
    MAIN,
    apply_updates,
    current_snapshot,
    known_ids,
)
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.engine import Engine
from lakeport.workers import Workers


@dataclass(frozen=True)
class Added:
    """The files that a snapshot adds."""

    snapshot_id: int
    manifests: list[ManifestFile]
    data_bytes: int
    delete_bytes: int


@dataclass(frozen=True)
class Gone:
    """The files that a snapshot removes."""

    data: Removed
    deletes: Removed


def everything(manifests: Sequence[ManifestFile], format_version: int) -> Gone:
    """The totals of manifests, without sizes in bytes and, in format version 3, without the kinds of delete files."""
    vectors = 0 if format_version < 3 else None
    data, deletes = ([m for m in manifests if m.content == content] for content in (DATA, DELETES))
    return Gone(_count(data), _count(deletes, vectors))


def _count(manifests: Sequence[ManifestFile], vectors: int | None = 0) -> Removed:
    return Removed(
        sum(m.live_files_count for m in manifests), sum(m.live_rows_count for m in manifests), vectors=vectors
    )


def summarise(
    change: TableChange, added: Added, gone: Gone, manifests: Sequence[ManifestFile], format_version: int
) -> dict[str, str]:
    """The summary, with the names of Iceberg's specification and without zero counts. `manifests` are the
    snapshot's."""
    new = [m for m in manifests if m.added_snapshot_id == added.snapshot_id]  # including repacked ones
    data, deletes = ([m for m in new if m.content == content] for content in (DATA, DELETES))
    added_deletes = sum(m.added_files_count for m in deletes)
    changes = {
        "added-data-files": sum(m.added_files_count for m in data),
        "deleted-data-files": gone.data.files,
        "added-records": sum(m.added_rows_count for m in data),
        "deleted-records": gone.data.records,
        "added-files-size": added.data_bytes + added.delete_bytes + gone.deletes.repacked_bytes,
        "removed-files-size": gone.data.bytes + gone.deletes.bytes,
        "added-delete-files": added_deletes,
        "added-dvs" if format_version >= 3 else "added-position-delete-files": added_deletes,
        "removed-delete-files": gone.deletes.files,
        **_removed_by_kind(gone.deletes),
        "added-position-deletes": sum(m.added_rows_count for m in deletes),
        "removed-position-deletes": gone.deletes.records,
    }
    totals = {
        "total-data-files": sum(m.live_files_count for m in manifests if m.content == DATA),
        "total-records": sum(m.live_rows_count for m in manifests if m.content == DATA),
        "total-delete-files": sum(m.live_files_count for m in manifests if m.content == DELETES),
        "total-position-deletes": sum(m.live_rows_count for m in manifests if m.content == DELETES),
        "total-equality-deletes": 0,
    }
    delta = {DELTA_VERSION: change.version, DELTA_TIMESTAMP: change.timestamp, DELTA_OPERATION: change.operation}
    values = {**{name: count for name, count in changes.items() if count}, **totals, **delta}
    return {"operation": _operation(change, gone), **{name: str(value) for name, value in values.items()}}


def _removed_by_kind(deletes: Removed) -> dict[str, int]:
    if deletes.vectors is None:
        return {}
    return {"removed-position-delete-files": deletes.files - deletes.vectors, "removed-dvs": deletes.vectors}


def _operation(change: TableChange, gone: Gone) -> str:
    """Incremental readers may skip `replace` and `delete`: these must not add rows."""
    if not change.data_change and (change.files_removed or change.vectors_removed):
        return "replace"
    if gone.data.files or gone.deletes.files or change.vectors_added:
        return "overwrite" if change.files_added or _brings_rows_back(change, gone) else "delete"
    return "append"


def _brings_rows_back(change: TableChange, gone: Gone) -> bool:
    """Whether a remaining data file has fewer deleted rows than before, or different ones. Only a restore replaces
    deleted rows by others, so the operation decides that case."""
    removed = frozenset(map(hash_path, change.files_removed))
    now = {hash_path(vector.data_file_path): vector.count_records_deleted for vector in change.vectors_added}
    before = {key: count for key, count in gone.deletes.by_key.items() if key not in removed}
    return bool(before) and (change.restores or any(count > now.get(key, 0) for key, count in before.items()))


class SnapshotWriter:
    def __init__(self, engine: Engine, location: str, metadata: Json, workers: Workers) -> None:
        """`metadata` is the state before the first change; `location` is the directory for generated files."""
        self._engine, self._location, self._workers = engine, location, workers
        self.metadata = metadata
        self.updates: list[Json] = []
        """The updates from the initial metadata to `metadata`, without the kept version."""
        self._latest: TableChange | None = None
        self.written: list[str] = []
        """The files written for it, to remove if it is never published."""
        self._reader = ManifestReader(engine.storage)
        snapshot = current_snapshot(metadata)
        self._manifests = [] if snapshot is None else read_manifest_list(engine.storage, snapshot["manifest-list"])

    def restart(self, metadata: Json) -> None:
        """Reset after publishing: `metadata` is the published state."""
        self.metadata, self._latest = metadata, None
        self.updates.clear()
        self.written.clear()

    def finished_updates(self) -> list[Json]:
        """The updates to publish, including the properties of the last version."""
        if self._latest is None:
            return self.updates
        return [*self.updates, *property_updates(self.metadata["properties"], self._latest.snapshot)]

    def apply(self, change: TableChange, *, whole: bool = False) -> None:
        """Build the snapshot of a change. With `whole`, the change is the whole table and replaces the old contents.

        Raises `ConversionError`, `FieldIdConflict`, `OutOfStepError`, and `CorruptTableError` if the table has a data
        file twice, before any of this change is in `updates`."""
        self._check_new(change, whole=whole)
        shape, updates = plan_shape(self.metadata, change.snapshot)
        shaped = apply_updates(self.metadata, updates, 0)
        is_mapped = change.snapshot.mapping_mode != "none"
        check_footers(self._engine, change.files_added, known_ids(shaped), is_mapped=is_mapped)
        snapshot_id = secrets.randbits(63) or 1
        number = self.metadata["last-sequence-number"] + 1
        writer = ManifestWriter(
            self._engine,
            self._location,
            snapshot_id,
            number,
            shape.format_version,
            shape.partitioning,
            self._reader,
            self.written,
        )
        added = self._write_added(change, shape, writer)
        kept: list[ManifestFile] = []
        if whole:
            gone = everything(self._manifests, shape.format_version)
        else:
            kept, *removed = writer.carry_over(self._manifests, change.files_removed, change.vectors_removed)
            gone = Gone(*removed)
        manifests, assigned = _with_row_ids([*added.manifests, *kept], self.metadata.get("next-row-id"))
        snapshot = self._snapshot(change, shape, writer, assigned)
        snapshot["summary"] = summarise(change, added, gone, manifests, shape.format_version)
        snapshot["manifest-list"] = self._write_list(manifests, snapshot, shape.format_version)
        updates += [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": snapshot_id},
        ]
        self._latest = change
        self.metadata = apply_updates(self.metadata, updates, 0)
        self.updates += updates
        self._manifests = manifests
        self._reader.forget(manifests)

    def _check_new(self, change: TableChange, *, whole: bool) -> None:
        """A data file listed twice would give readers its rows twice."""
        paths: set[str] = set()
        for file in change.files_added:
            if file.path in paths:
                raise CorruptTableError(
                    f"version {change.version} has the data file {file.path!r} twice, with two deletion vectors: "
                    "remove one of the two from the Delta table",
                    path=change.snapshot.root,
                )
            paths.add(file.path)
        if not whole and self._find_entries({DATA: frozenset(map(hash_path, paths)), DELETES: frozenset()})[DATA]:
            raise OutOfStepError

    def agrees(self, files: Mapping[str, str], absent: Collection[str]) -> bool:
        """See `KnownFiles`: for the files of the latest snapshot."""
        asked = frozenset(map(hash_path, (*files, *absent)))
        live = self._find_entries({DATA: asked, DELETES: asked})
        keys = {hash_path(path): vector for path, vector in files.items()}
        if live[DATA].keys() != keys.keys() or live[DELETES].keys() != {key for key, vector in keys.items() if vector}:
            return False
        return all(_is_made_of(entry, key, keys[key]) for key, entry in live[DELETES].items())

    def _find_entries(self, wanted: Mapping[int, Collection[int]]) -> dict[int, dict[int, Entry]]:
        """The live entries with these keys, by content and key."""
        found: dict[int, dict[int, Entry]] = {DATA: {}, DELETES: {}}
        version = self.metadata["format-version"]
        for manifest, hit in zip(self._manifests, self._reader.find(self._manifests, wanted), strict=True):
            if hit:
                _, entries = self._reader.read(manifest, version)
                about = ((key, entry) for entry in entries for key in entry.keys)
                found[manifest.content] |= {key: entry for key, entry in about if key in wanted[manifest.content]}
        return found

    def _write_added(self, change: TableChange, shape: Shape, writer: ManifestWriter) -> Added:
        maker = EntryMaker(self._engine, shape, change.snapshot, writer.snapshot_id)
        is_packed = shape.format_version < 3
        groups = (
            pack(change.vectors_added, lambda texts: shape.partitioning.parse(texts, change.snapshot.root))
            if is_packed
            else ((vector,) for vector in change.vectors_added)
        )
        suffix = "parquet" if is_packed else "puffin"
        tasks = [
            DeleteTask(group, new_path(self._location, members_of(group)[0], suffix), shape.format_version)
            for group in groups
        ]
        self.written += [task.path for task in tasks]
        deletes = write_deletes(self._workers, tasks)
        batches = [
            *((DATA, batch) for batch in maker.data_files(change.files_added, MANIFEST_ENTRIES)),
            *((DELETES, batch) for batch in maker.delete_files(tasks, deletes, MANIFEST_ENTRIES)),
        ]
        manifests = [
            writer.write(shape.layout(content), batch.entries, shape.partitioning.summarise(batch.partitions))
            for content, batch in batches
        ]
        return Added(
            writer.snapshot_id, manifests, sum(f.size for f in change.files_added), sum(d.file_size for d in deletes)
        )

    def _snapshot(self, change: TableChange, shape: Shape, writer: ManifestWriter, assigned: int | None) -> Json:
        """The snapshot, without its summary and its manifest list."""
        parent = current_snapshot(self.metadata)
        after = 0 if parent is None else parent["timestamp-ms"] + 1
        snapshot = {
            "snapshot-id": writer.snapshot_id,
            "sequence-number": writer.sequence_number,
            "timestamp-ms": max(change.timestamp, after),
            "schema-id": shape.schema["schema-id"],
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent["snapshot-id"]
        if assigned is not None:
            snapshot |= {"first-row-id": self.metadata["next-row-id"], "added-rows": assigned}
        return snapshot

    def _write_list(self, manifests: Sequence[ManifestFile], snapshot: Json, format_version: int) -> str:
        path = f"{self._location}/metadata/snap-{snapshot['snapshot-id']}-{uuid.uuid4()}.avro"
        data = encode_manifest_list(
            manifests,
            format_version,
            snapshot_id=snapshot["snapshot-id"],
            parent_id=snapshot.get("parent-snapshot-id"),
            sequence_number=snapshot["sequence-number"],
            first_row_id=snapshot.get("first-row-id"),
        )
        self.written.append(path)
        self._engine.storage.write(path, data)
        return path


def _is_made_of(entry: Entry, key: int, vector_id: str) -> bool:
    """Whether a delete file's rows of a data file come from this deletion vector."""
    vector = hash_path(vector_id)
    if entry.members:
        return any(member.key == key and member.vector == vector for member in entry.members)
    return vector_mark(vector).encode() in entry.tail


def _with_row_ids(manifests: list[ManifestFile], start: int | None) -> tuple[list[ManifestFile], int | None]:
    """Assign row ids to data manifests without them, and return how many. See "First Row ID Assignment" in Iceberg's
    specification; there are none before format version 3."""
    if start is None:
        return manifests, None
    following = start
    assigned = []
    for manifest in manifests:
        if manifest.content == DATA and manifest.first_row_id is None:
            manifest = msgspec.structs.replace(manifest, first_row_id=following)
            following += manifest.live_rows_count
        assigned.append(manifest)
    return assigned, following - start
