"""Write all deletion vectors of a commit, packed into few files.

See "Deletion Vector File Storage Format" in Delta's protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakeport.errors import StorageError
from lakeport.kernel.deletion_vectors.vector import (
    FILE_VERSION,
    DeletionVectorDescriptor,
    encode_deletion_vector,
    encode_z85,
    frame_payload,
)
from lakeport.kernel.engine import StorageClient

_FILE_BYTES = 8 << 20
"""Files of at least this size get no further vector."""


def write_deletion_vectors(
    storage: StorageClient, table_root: str, vectors: Iterable[npt.NDArray[np.uint64]]
) -> list[DeletionVectorDescriptor | None]:
    """The written vectors in order; None for one that deletes nothing. On failure, deletes the files."""
    written: list[str] = []
    descriptors: list[DeletionVectorDescriptor | None] = []
    file = _VectorFile()
    try:
        for positions in vectors:
            if file.size >= _FILE_BYTES:
                file.write(storage, table_root, written)
                file = _VectorFile()
            descriptors.append(file.add(positions) if len(positions) else None)
        if file.frames:
            file.write(storage, table_root, written)
    except BaseException:
        with suppress(StorageError):  # report the original error
            storage.delete(written)
        raise
    return descriptors


@dataclass
class _VectorFile:
    """A file in memory: a version byte, then each vector, preceded by its size and followed by its CRC-32."""

    id: uuid.UUID = field(default_factory=uuid.uuid4)
    frames: list[bytes] = field(default_factory=list)
    size: int = 1

    def add(self, positions: npt.NDArray[np.uint64]) -> DeletionVectorDescriptor:
        payload = encode_deletion_vector(positions)
        descriptor = DeletionVectorDescriptor(
            storage_type="u",
            path_or_inline_dv=encode_z85(self.id.bytes),
            size_in_bytes=len(payload),
            cardinality=len(positions),
            offset=self.size,
        )
        frame = frame_payload(payload)
        self.frames.append(frame)
        self.size += len(frame)
        return descriptor

    def write(self, storage: StorageClient, table_root: str, written: list[str]) -> None:
        """Write it atomically and add its path to `written`: it may exist even if this raises."""
        path = f"{table_root}/deletion_vector_{self.id}.bin"
        written.append(path)
        storage.write(path, b"".join([bytes([FILE_VERSION]), *self.frames]))
