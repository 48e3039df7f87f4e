"""How a copy names its files: by the server's ids for the provider's files, or by their paths in the table.

A data file is `<id>.<run>.parquet`. The run identifies the sync that wrote it: two syncs never write the same file, and
files that a killed one completed are found by id. A deletion vector has its own file, named after the vector, so every
writer writes the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from urllib.parse import unquote

import msgspec

from lakeport.client.tables.local_log import DATA
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor, encode_z85

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_COPY = re.compile(rf"({_PLAIN.pattern})\.[0-9a-f]{{12}}\.parquet")
_VECTORS = uuid.UUID("5f0c1d5e-3d5c-4b86-9d54-0a6c9b2f7e11")
_AFTER_THE_VERSION = 1
"""Where a vector starts that is alone in its file."""


def new_run() -> str:
    return uuid.uuid4().hex[:12]


def name_of(path: str, root: str) -> str:
    """The name shared by all copies of a data file, from its decoded path in the shared table at `root`."""
    identity = _identity(path, root)
    return identity if _PLAIN.fullmatch(identity) else hashlib.sha256(identity.encode()).hexdigest()


def copy_path(name: str, run: str) -> str:
    """Relative to the table, and the same as a URI."""
    return f"{name}.{run}.parquet"


def parse_copy(path: str) -> str | None:
    """The name in a data file's path, relative to the table; None if it is not a copy."""
    found = _COPY.fullmatch(path)
    return found[1] if found else None


def copied_vector(vector: DeletionVectorDescriptor | None, root: str) -> DeletionVectorDescriptor | None:
    """The copy's descriptor of a vector of the shared table at `root`; inline vectors are unchanged."""
    location = None if vector is None else vector.location(root)
    if vector is None or location is None:
        return vector
    # Some servers assign no ids to vector files: the other parts must then distinguish them.
    parts = (_identity(location, root), vector.offset, vector.size_in_bytes, vector.cardinality)
    return msgspec.structs.replace(
        vector,
        storage_type="u",
        path_or_inline_dv=encode_z85(uuid.uuid5(_VECTORS, repr(parts)).bytes),
        offset=_AFTER_THE_VERSION,
    )


def _identity(path: str, root: str) -> str:
    """The id in `delta-sharing:///table/id/size`; for a file in a directory, its path within the table."""
    return unquote(path.rsplit("/", 2)[1]) if path.startswith(f"{DATA}/") else path.removeprefix(f"{root}/")
