"""The summary of a snapshot: its operation, its changes, and the totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeport.iceberg.delta.change import TableChange
from lakeport.iceberg.manifests.manifest import hash_path
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile
from lakeport.iceberg.snapshots.manifest_set import Removed
from lakeport.iceberg.table.metadata import DELTA_OPERATION, DELTA_TIMESTAMP, DELTA_VERSION


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
    told = {**{name: count for name, count in changes.items() if count}, **totals, **delta}
    return {"operation": _operation(change, gone), **{name: str(value) for name, value in told.items()}}


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
