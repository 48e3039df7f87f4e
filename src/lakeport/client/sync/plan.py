"""Plan how a copy becomes a version of the shared table, and how it names its files. Pure: reads and writes nothing.

Files are named by the server's ids for the provider's files, or by their paths in the table: a data file is
`<id>.<run>.parquet`. The run identifies the sync that wrote it: two syncs never write the same file, and files that a
killed one completed are found by id. A deletion vector has its own file, named after the vector, so every writer writes
the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

import msgspec

from lakeport.client.tables.local_log import DATA
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor, encode_z85
from lakeport.kernel.scan import ScanFile

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_COPY = re.compile(rf"({_PLAIN.pattern})\.[0-9a-f]{{12}}\.parquet")
_VECTORS = uuid.UUID("5f0c1d5e-3d5c-4b86-9d54-0a6c9b2f7e11")
_AFTER_THE_VERSION = 1
"""The offset of a vector that is alone in its file."""


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


Key = tuple[str, str]
"""A name and a deletion vector's id: a different vector makes a different logical file."""
Live = dict[Key, ScanFile]
"""The files of a version of the copy."""


@dataclass(frozen=True)
class Wanted:
    """A file of the shared table at `root`."""

    file: ScanFile
    root: str

    @cached_property
    def name(self) -> str:
        return name_of(self.file.path, self.root)

    @cached_property
    def vector(self) -> DeletionVectorDescriptor | None:
        """The vector in the copy."""
        return copied_vector(self.file.deletion_vector, self.root)

    @property
    def vector_path(self) -> str | None:
        """The vector's path in the share."""
        vector = self.file.deletion_vector
        return None if vector is None else vector.location(self.root)

    @property
    def key(self) -> Key:
        return self.name, self.vector.unique_id if self.vector else ""


@dataclass(frozen=True)
class VersionPlan:
    added: list[Wanted]
    restated: list[Wanted]
    """Files of the copy for which the share has new details: row ids, tags or clustering."""
    removed: list[ScanFile]
    present: dict[str, str] = field(default_factory=dict)
    """The paths of data files in the copy, by name."""

    @property
    def missing(self) -> list[Wanted]:
        """The added files whose data is not in the copy's version that the plan started from."""
        once = {wanted.name: wanted for wanted in self.added if wanted.name not in self.present}
        return list(once.values())

    @property
    def vectors(self) -> list[Wanted]:
        return [wanted for wanted in self.added if wanted.vector is not None and wanted.vector.storage_type != "i"]


def plan_version(live: Live, shared: Iterable[Wanted], lost: frozenset[str] = frozenset()) -> VersionPlan:
    """`lost` are the paths of files missing from the copy's storage: they are removed and added again."""
    wanted = {one.key: one for one in shared}
    kept = {key: file for key, file in live.items() if file.path not in lost}
    return VersionPlan(
        added=[one for key, one in wanted.items() if key not in kept],
        restated=[one for key, one in wanted.items() if key in kept and _has_more_details(one.file, kept[key])],
        removed=[file for key, file in live.items() if key not in wanted or key not in kept],
        present={name: file.uri or file.path for (name, _), file in kept.items()},
    )


def live_files(files: Iterable[ScanFile], root: str) -> Live:
    """The files of the copy at `root`, by key; the name of a file not written by a sync is its path."""
    return {_key(file, root): file for file in files}


def planned_files(shared: Iterable[Wanted]) -> Live:
    """The copy's files if it had these."""
    return {one.key: one.file for one in shared}


def _key(file: ScanFile, root: str) -> Key:
    relative = file.path.removeprefix(f"{root}/")
    return parse_copy(relative) or file.path, file.vector_id


def _has_more_details(shared: ScanFile, known: ScanFile) -> bool:
    """Whether a writer has added information about the file without changing rows; where the share has none, the copy
    may keep its own."""
    new, old = (
        (file.base_row_id, file.default_row_commit_version, file.tags or None, file.clustering_provider)
        for file in (shared, known)
    )
    return any(mine is not None and mine != theirs for mine, theirs in zip(new, old, strict=True))
