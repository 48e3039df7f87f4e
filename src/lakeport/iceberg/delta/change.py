"""What the source of a conversion hands to its target: deletion vectors and the changes of a table, as values."""

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
    """The deleted rows of one data file: where they are written down, not the positions themselves. Can be pickled."""

    data_file_path: str
    """Absolute and plain, as `ScanFile.path`."""
    descriptor: DeletionVectorDescriptor
    source_path: str | None
    """The file that it lies in; None if it is inline."""
    partition_values: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    """Those of the data file, as `ScanFile.partition_values`: a delete file is in the same partition."""

    @classmethod
    def of(cls, file: ScanFile, table_root: str) -> InternalDeletionVector | None:
        """That of a data file; None if all of its rows live, as an empty vector says too. Raises `CorruptTableError`
        for a descriptor that makes no sense."""
        if file.deletion_vector is None or not file.deletion_vector.cardinality:
            return None
        location = file.deletion_vector.location(table_root)
        return cls(file.path, file.deletion_vector, location, file.partition_values)

    @property
    def offset(self) -> int | None:
        """Where its size stands in `source_path`; None if it is inline."""
        return None if self.source_path is None else self.descriptor.offset or 1

    @property
    def size(self) -> int:
        """Bytes of the payload, without the size before it and the checksum behind it."""
        return self.descriptor.size_in_bytes

    @property
    def count_records_deleted(self) -> int:
        return self.descriptor.cardinality

    def ordinals(self, engine: Engine) -> Iterator[npt.NDArray[np.uint64]]:
        """The positions, ascending, in parts of at most 65,536; only the compressed bitmap is held.

        Raises `MissingFileError`, and `CorruptTableError` if the bytes are damaged or contradict the descriptor."""
        return positions_in(read_bitmap(self.descriptor, self.source_path, engine.storage))

    def blob(self, engine: Engine) -> bytes:
        """The bytes of an Iceberg blob `deletion-vector-v1`: size, payload, checksum. They are those of Delta's file,
        unless that has the format before the portable one or bytes without meaning. Raises as `ordinals`."""
        return frame_payload(encode_bitmap(read_bitmap(self.descriptor, self.source_path, engine.storage)))


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one commit made of a table; or a range of commits, taken as one; or a whole snapshot, all of it added.

    A file of which only the deletion vector changed is neither in `files_added` nor in `files_removed`. A path is in at
    most one of the two."""

    version: int
    """Of the range, the last one."""
    timestamp: int
    """When the version was made, in milliseconds since the epoch."""
    operation: str
    """Delta's name of the operation, of a range that of its last commit; empty if the commit does not say."""
    snapshot: Snapshot
    """Schema, partitioning and properties of the version."""
    files_added: Sequence[ScanFile]
    """With statistics and log details."""
    files_removed: Sequence[str]
    """Paths, as `ScanFile.path`."""
    vectors_added: Sequence[InternalDeletionVector]
    """New ones, and those that take the place of another; of added files too."""
    vectors_removed: Sequence[str]
    """Paths of the data files whose former vector counts no more: replaced, taken back, or gone with its file."""
    data_change: bool
    """False if the rows are the same as before: the files were only rewritten."""
    restores: bool = False
    """Whether a commit restored an earlier version: deletion vectors may have been replaced by others of other rows."""

    @property
    def is_empty(self) -> bool:
        """Whether no file and no vector changed; schema and properties may have."""
        return not (self.files_added or self.files_removed or self.vectors_added or self.vectors_removed)


class KnownFiles(Protocol):
    """The files of a version, as somebody else than its log knows them."""

    def agrees(self, files: Mapping[str, str], absent: Collection[str]) -> bool:
        """Whether the version has these data files, each with the deletion vector of this unique id, which is empty
        for none, and has no file of `absent`. False where that is not known for certain."""
