"""Consecutive changes, combined into one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakeport.iceberg.delta.change import InternalDeletionVector, KnownFiles, TableChange
from lakeport.iceberg.delta.commit_diff import VectorId
from lakeport.kernel.scan import ScanFile


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
