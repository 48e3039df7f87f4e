"""The changes of one commit: files added and removed, and files of which only the deletion vector changed.

Delta records a new deletion vector as a remove and an add of the same path. A commit may also add a file again to
update its details: that is not a change here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakeport.errors import CorruptTableError
from lakeport.iceberg.delta.change import InternalDeletionVector, VectorId
from lakeport.kernel.log import CommitActions, FileColumns, file_keys, keys_of, to_file_batch
from lakeport.kernel.paths import whole_path
from lakeport.kernel.scan import FilteredBatch, ScanFile, scan_files_in
from lakeport.kernel.snapshot import Snapshot

Key = tuple[str, VectorId]
"""A file of a version: its path, absolute and plain, and its deletion vector."""

COLUMNS = {"add": FileColumns(row_tracking=True, stats=True, log_details=True), "remove": FileColumns()}
"""The columns of a commit's file actions to read."""


def added_files(commit: CommitActions, snapshot: Snapshot) -> dict[str, ScanFile]:
    """The files that a commit adds, by path; `snapshot` is the version that it makes. Raises `CorruptTableError` for a
    file with two deletion vectors."""
    columns = replace(COLUMNS["add"], partitions=snapshot.physical_partition_columns)
    found: dict[str, ScanFile] = {}
    for actions in commit.adds:
        batch = to_file_batch(actions, columns, snapshot.root)
        for file in scan_files_in(FilteredBatch(batch), snapshot.root):
            if file.path in found and found[file.path].vector_id != file.vector_id:
                message = f"the commit adds {file.path!r} with two deletion vectors"
                raise CorruptTableError(message, path=commit.file.path)
            found[file.path] = file
    return found


def removed_keys(commit: CommitActions, root: str) -> list[Key]:
    """The paths that a commit removes, each with its deletion vector."""
    return [_split_key(key, root) for removes in commit.removes for key in keys_of(removes, root).to_pylist()]


def live_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The paths of a version's files, each with its deletion vector. Reads only log files."""
    for batch in snapshot.live_files(FileColumns()):
        for key in file_keys(batch.column("path"), batch.column("deletionVector")).to_pylist():
            yield _split_key(key, snapshot.root)


def _split_key(key: str, root: str) -> Key:
    path, _, vector = key.partition("\0")
    return whole_path(path, root), vector


@dataclass(frozen=True, slots=True)
class CommitDiff:
    """The changed files and deletion vectors of a commit; see `TableChange`."""

    files_added: Sequence[ScanFile]
    files_removed: Sequence[str]
    vectors_added: Sequence[InternalDeletionVector]
    vectors_removed: Sequence[str]

    @property
    def growth(self) -> int:
        """The net number of files added."""
        return len(self.files_added) - len(self.files_removed)


def diff_commit(
    added: Mapping[str, ScanFile],
    removed: Sequence[Key],
    before: Mapping[str, VectorId],
    root: str,
) -> CommitDiff:
    """The changes of a commit that adds and removes these files, if the table had the files `before`; untouched ones
    may be omitted. Raises `CorruptTableError` if a file gets a second deletion vector while keeping the first."""
    removed_keys = set(removed)
    gone = [path for path, vector in removed_keys if before.get(path) == vector and path not in added]
    files_added, vectors_added, vectors_removed = [], [], [path for path in gone if before[path]]
    for path, file in added.items():
        former, now = before.get(path), file.vector_id
        if former == now:
            continue
        if former is None:
            files_added.append(file)
        elif (path, former) not in removed_keys:
            raise CorruptTableError(f"{path!r} is added with another deletion vector, but not removed", path=root)
        elif former:
            vectors_removed.append(path)
        if vector := InternalDeletionVector.of(file, root):
            vectors_added.append(vector)
    return CommitDiff(files_added, gone, vectors_added, vectors_removed)
