"""Deletion vectors: their location, encoding and positions.

May import `engine` and `paths`.
"""

from lakeport.kernel.deletion_vectors.vector import (
    FILE_VERSION, DeletionVector, DeletionVectorDescriptor, encode_bitmap, encode_deletion_vector, encode_inline,
    encode_z85, frame_payload, positions_in, read_bitmap, read_deletion_vector, union,
)  # fmt: skip
from lakeport.kernel.deletion_vectors.writing import write_deletion_vectors
