"""Deletion vectors and table changes, as values that the source of a conversion hands to its target. `squash` combines
consecutive changes into one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lakeport.errors import CorruptTableError
from lakeport.kernel.deletion_vectors import (
    DeletionVectorDescriptor,
    frame_payload,
    positions_in,
    read_bitmap,
    read_portable,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.log import CommitActions, FileColumns, file_keys, keys_of, to_file_batch
from lakeport.kernel.paths import whole_path
from lakeport.kernel.scan import FilteredBatch, ScanFile, scan_files_in
from lakeport.kernel.snapshot import Snapshot

VectorId = str
"""The unique id of a deletion vector; empty for none."""


@dataclass(frozen=True, slots=True)
class InternalDeletionVector:
    """The deleted rows of one data file: the location of the vector, not the positions. Can be pickled."""

    data_file_path: str
    """Absolute and plain, like `ScanFile.path`."""
    descriptor: DeletionVectorDescriptor
    source_path: str | None
    """The file that holds it; None if it is inline."""
    partition_values: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    """Those of the data file, like `ScanFile.partition_values`: its delete file is in the same partition."""

    @classmethod
    def of(cls, file: ScanFile, table_root: str) -> InternalDeletionVector | None:
        """The vector of a data file; None if there is none or it is empty. Raises `CorruptTableError` for an invalid
        descriptor."""
        if file.deletion_vector is None or not file.deletion_vector.cardinality:
            return None
        location = file.deletion_vector.location(table_root)
        return cls(file.path, file.deletion_vector, location, file.partition_values)

    @property
    def offset(self) -> int | None:
        """The offset of its size field in `source_path`; None if it is inline."""
        return None if self.source_path is None else self.descriptor.offset or 1

    @property
    def size(self) -> int:
        """Payload bytes, without the size before and the checksum after."""
        return self.descriptor.size_in_bytes

    @property
    def count_records_deleted(self) -> int:
        return self.descriptor.cardinality

    def ordinals(self, engine: Engine) -> Iterator[npt.NDArray[np.uint64]]:
        """The positions, ascending, in chunks of at most 65,536. Only the compressed bitmap is held in memory.

        Raises `MissingFileError`, and `CorruptTableError` if the bytes are damaged or contradict the descriptor."""
        return positions_in(read_bitmap(self.descriptor, self.source_path, engine.storage))

    def blob(self, engine: Engine) -> bytes:
        """The bytes of an Iceberg `deletion-vector-v1` blob: size, payload, checksum. They equal those of Delta's file,
        unless that uses the pre-portable format or contains unused bytes. Raises like `ordinals`."""
        return frame_payload(read_portable(self.descriptor, self.source_path, engine.storage))


@dataclass(frozen=True, slots=True)
class TableChange:
    """The changes of one commit, of a range of commits taken as one, or of a whole snapshot with all files added.

    A file of which only the deletion vector changed is neither in `files_added` nor in `files_removed`. A path is in at
    most one of the two."""

    version: int
    """The last one of a range."""
    timestamp: int
    """Commit time, in milliseconds since the epoch."""
    operation: str
    """Delta's operation name, that of the last commit of a range; empty if the commit has none."""
    snapshot: Snapshot
    """Schema, partitioning and properties of the version."""
    files_added: Sequence[ScanFile]
    """With statistics and log details."""
    files_removed: Sequence[str]
    """Paths, like `ScanFile.path`."""
    vectors_added: Sequence[InternalDeletionVector]
    """New and replacing vectors, including those of added files."""
    vectors_removed: Sequence[str]
    """Paths of the data files whose former vector is obsolete: replaced, revoked, or removed with its file."""
    data_change: bool
    """False if the files were only rewritten, with the same rows."""
    restores: bool = False
    """Whether a commit restored an earlier version: new deletion vectors may then delete different rows."""

    @property
    def is_empty(self) -> bool:
        """Whether no file and no vector changed; schema and properties may still differ."""
        return not (self.files_added or self.files_removed or self.vectors_added or self.vectors_removed)


class KnownFiles(Protocol):
    """The files of a version, from a source other than its log."""

    def agrees(self, files: Mapping[str, VectorId], absent: Collection[str]) -> bool:
        """Whether the version has these data files, each with the deletion vector of this unique id (empty for none),
        and has no file of `absent`. False if uncertain."""


def squash(changes: Callable[[KnownFiles], Iterator[TableChange]], known: KnownFiles | None) -> Iterator[TableChange]:
    """One change for all; none if there are none. `known` knows the files of the version before the first."""
    net, last, data_change, restores = _Net(known), None, False, False
    for last in changes(net):
        net.include(last)
        data_change |= last.data_change
        restores |= last.restores
    if last is not None:
        yield replace(
            last,
            files_added=tuple(net.added.values()),
            files_removed=tuple(net.removed),
            vectors_added=tuple(net.vectors.values()),
            vectors_removed=tuple(net.former_vectors),
            data_change=data_change,
            restores=restores,
        )


@dataclass
class _Net:
    known: KnownFiles | None
    added: dict[str, ScanFile] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    vectors: dict[str, InternalDeletionVector] = field(default_factory=dict)
    former_vectors: dict[str, None] = field(default_factory=dict)
    """Files of the first version whose vectors are obsolete."""
    touched: dict[str, VectorId | None] = field(default_factory=dict)
    """Changed files with their current vectors; None for removed files."""

    def include(self, change: TableChange) -> None:
        for path in change.vectors_removed:
            if self.vectors.pop(path, None) is None and path not in self.added:
                self.former_vectors[path] = None
        for path in change.files_removed:
            if self.added.pop(path, None) is None:
                self.removed[path] = None
        for file in change.files_added:
            if file.path in self.removed:  # the first version had it, and the last has it again
                del self.removed[file.path]
            else:
                self.added[file.path] = file
        self.vectors.update((vector.data_file_path, vector) for vector in change.vectors_added)
        self._touch(change)

    def _touch(self, change: TableChange) -> None:
        self.touched |= dict.fromkeys(change.vectors_removed, "")
        self.touched |= dict.fromkeys(change.files_removed, None)
        self.touched |= {file.path: file.vector_id for file in change.files_added}
        self.touched |= {vector.data_file_path: vector.descriptor.unique_id for vector in change.vectors_added}

    def agrees(self, files: Mapping[str, VectorId], absent: Collection[str]) -> bool:
        """See `KnownFiles`: for the version after the changes so far."""
        if any(self.touched.get(path, vector) != vector for path, vector in files.items()):
            return False
        if self.known is None or any(self.touched.get(path) is not None for path in absent):
            return False
        others = {path: vector for path, vector in files.items() if path not in self.touched}
        return self.known.agrees(others, [path for path in absent if path not in self.touched])


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
    """The changed files and deletion vectors of a commit; see `TableChange`.

    Delta records a new deletion vector as a remove and an add of the same path. A commit may also add a file again to
    update its details: that is not a change here."""

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
