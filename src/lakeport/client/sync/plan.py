"""Plan how a copy becomes a version of the shared table. Pure: reads and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from lakeport.client.sync.names import copied_vector, name_of, parse_copy
from lakeport.kernel.deletion_vectors import DeletionVectorDescriptor
from lakeport.kernel.scan import ScanFile

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
    """Files in the copy about which the share now has more: row ids, tags or clustering."""
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
        restated=[one for key, one in wanted.items() if key in kept and _tells_more(one.file, kept[key])],
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


def _tells_more(shared: ScanFile, known: ScanFile) -> bool:
    """Whether a writer has added information about the file without changing rows; where the share has none, the copy
    may keep its own."""
    new, old = (
        (file.base_row_id, file.default_row_commit_version, file.tags or None, file.clustering_provider)
        for file in (shared, known)
    )
    return any(mine is not None and mine != theirs for mine, theirs in zip(new, old, strict=True))
