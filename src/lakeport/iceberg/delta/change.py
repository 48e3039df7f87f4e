"""Deletion vectors and table changes, as values that the source of a conversion hands to its target."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lakeport.kernel.deletion_vectors import (
    DeletionVectorDescriptor,
    encode_bitmap,
    frame_payload,
    positions_in,
    read_bitmap,
)
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot


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
        return frame_payload(encode_bitmap(read_bitmap(self.descriptor, self.source_path, engine.storage)))


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

    def agrees(self, files: Mapping[str, str], absent: Collection[str]) -> bool:
        """Whether the version has these data files, each with the deletion vector of this unique id (empty for none),
        and has no file of `absent`. False if uncertain."""
