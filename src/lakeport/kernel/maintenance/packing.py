"""Choose the files of a table to rewrite, and group them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeport.kernel.actions import Add
from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.scan import ScanFile

_LARGE_ENOUGH = 0.75
"""Files of at least this fraction of the target size are left alone."""
_FULL = 0.95
_TOO_MANY_DELETED = 0.05
"""Files with a greater fraction of deleted rows are rewritten, whatever their size."""
_OPEN_BINS = 16

Bin = tuple[ScanFile, ...]


def plan_bins(files: Iterable[ScanFile], target_size: int, *, purge: bool = False) -> list[Bin]:
    """Group files to rewrite into bins, each to become one file of at most about the target size. Files of a bin share
    a partition and are as close in time as their sizes allow.

    A bin of one file is planned only to purge its deletion vector: if many rows are deleted, or with `purge`."""
    candidates = (file for file in files if file.size < _LARGE_ENOUGH * target_size or is_worn(file, purge))
    bins = [found for together in by_partition(candidates) for found in _pack(together, target_size)]
    return [found for found in bins if len(found) > 1 or is_worn(found[0], purge)]


def by_partition(files: Iterable[ScanFile]) -> list[Bin]:
    """The files of each partition."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[ScanFile]] = defaultdict(list)
    for file in files:
        partitions[partition_of(file)].append(file)
    return [tuple(found) for found in partitions.values()]


def partition_of(file: ScanFile | Add) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted((name, value or None) for name, value in file.partition_values.items()))


def is_worn(file: ScanFile, purge: bool) -> bool:
    """Whether the file has a deletion vector to purge."""
    return file.deletion_vector is not None and (purge or _deleted_part(file) > _TOO_MANY_DELETED)


def living_size(file: ScanFile) -> float:
    """About how many bytes the rows take that are not deleted."""
    return file.size * (1 - _deleted_part(file))


def _deleted_part(file: ScanFile) -> float:
    """From 0 to 1; 1 for a file with an unknown number of rows."""
    if file.deletion_vector is None:
        return 0.0
    records = decode_num_records(file.stats)
    return min(file.deletion_vector.cardinality / records, 1.0) if records else 1.0


@dataclass(eq=False)
class _OpenBin:
    files: list[ScanFile] = field(default_factory=list)
    size: float = 0.0


def _pack(files: Bin, target_size: int) -> list[Bin]:
    """First fit among the most recently opened bins: no two of them would fit into one."""
    bins: list[_OpenBin] = []
    open_bins: list[_OpenBin] = []
    for file in sorted(files, key=lambda file: (file.modification_time, file.path)):
        size = living_size(file)
        chosen = next((b for b in open_bins if b.size + size <= target_size), None)
        if chosen is None:
            chosen = _OpenBin()
            bins.append(chosen)
            open_bins = [*open_bins[-_OPEN_BINS + 1 :], chosen]
        chosen.files.append(file)
        chosen.size += size
        if chosen.size >= _FULL * target_size:
            open_bins.remove(chosen)
    return [tuple(b.files) for b in bins]
