"""Writing deletion vectors: all those of a commit, packed into as few files as is sensible.

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
    frame_payload,
)
from lakeport.kernel.deletion_vectors.z85 import encode_z85
from lakeport.kernel.engine import StorageClient

_FILE_BYTES = 8 << 20
"""A file that has so much gets no further vector."""


def write_deletion_vectors(
    storage: StorageClient, table_root: str, vectors: Iterable[npt.NDArray[np.uint64]]
) -> list[DeletionVectorDescriptor | None]:
    """Where the vectors are now, in their order; None for one that deletes nothing. If it fails, no file stays."""
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
        with suppress(StorageError):  # what made the writing fail is the news
            storage.delete(written)
        raise
    return descriptors


@dataclass
class _VectorFile:
    """A file in memory: its version, then each vector with its size before it and its CRC-32 after it."""

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
        """Puts it into the storage in one step, its path into `written`: it may be there even if this raises."""
        path = f"{table_root}/deletion_vector_{self.id}.bin"
        written.append(path)
        storage.write(path, b"".join([bytes([FILE_VERSION]), *self.frames]))
