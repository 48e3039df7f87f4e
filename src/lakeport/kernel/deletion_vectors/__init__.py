"""Deletion vectors: their location, encoding and positions.

May import `engine` and `paths`.
"""

from lakeport.kernel.deletion_vectors.vector import (
    FILE_VERSION,
    DeletionVector,
    DeletionVectorDescriptor,
    encode_bitmap,
    encode_deletion_vector,
    encode_inline,
    frame_payload,
    positions_in,
    read_bitmap,
    read_deletion_vector,
    union,
)
from lakeport.kernel.deletion_vectors.writing import write_deletion_vectors
from lakeport.kernel.deletion_vectors.z85 import encode_z85

__all__ = [
    "FILE_VERSION", "DeletionVector", "DeletionVectorDescriptor", "encode_bitmap", "encode_deletion_vector",
    "encode_inline", "encode_z85", "frame_payload", "positions_in", "read_bitmap", "read_deletion_vector", "union",
    "write_deletion_vectors",
]  # fmt: skip
