"""The files of a clustered table to reorder. Files that were ordered together are a cube, named in their tags.

A cube of a certain size is full and is not reordered. So keeping the order costs only the rows added since; in return,
filters read files of several cubes. Names and sizes are those of Delta's own writer.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from lakeport.kernel.scan import ScanFile

CLUSTERING_PROVIDER = "liquid"
_CUBE, _COLUMNS = "ZCUBE_ID", "ZCUBE_ZORDER_BY"
FULL_CUBE = 100 << 30
LARGEST_CUBE = 150 << 30
"""In bytes."""


def cube_tags(columns: Sequence[str]) -> dict[str, str | None]:
    """The tags of the files of a new cube."""
    return {_CUBE: str(uuid.uuid4()), _COLUMNS: msgspec.json.encode(list(columns)).decode()}


def plan_cubes(
    files: Iterable[ScanFile],
    columns: Sequence[str],
    *,
    again: Callable[[ScanFile], bool],
    every: bool = False,
    full: int,
    most: int,
) -> list[tuple[ScanFile, ...]]:
    """The files of each new cube: those without a cube or in one that is not full, and those to be rewritten `again`;
    none if they already are one cube. Files ordered by other columns are included only with `every`."""
    cubes: dict[str | None, list[ScanFile]] = defaultdict(list)
    others: list[ScanFile] = []
    for file in files:
        if _is_other(file, list(columns)):
            others.append(file)
        else:
            cubes[_cube_of(file)].append(file)
    chosen = [file for cube, found in cubes.items() for file in _of_cube(cube, found, full, again)]
    chosen += others if every else filter(again, others)
    is_one = len({_cube_of(file) for file in chosen}) == 1 and _cube_of(chosen[0]) is not None
    if is_one and not any(map(again, chosen)) and not (every and others):
        return []
    return _bins(chosen, most)


def _of_cube(
    cube: str | None, files: list[ScanFile], full: int, again: Callable[[ScanFile], bool]
) -> Iterable[ScanFile]:
    is_full = cube is not None and sum(file.size for file in files) >= full
    return filter(again, files) if is_full else files


def _cube_of(file: ScanFile) -> str | None:
    return (file.tags or {}).get(_CUBE)


def _is_other(file: ScanFile, columns: list[str]) -> bool:
    """Whether another implementation ordered the file, or it is ordered by other columns."""
    if file.clustering_provider not in (None, CLUSTERING_PROVIDER):
        return True
    text = (file.tags or {}).get(_COLUMNS)
    return _cube_of(file) is not None and text is not None and _decoded(text) != columns


def _decoded(text: str) -> list[str] | None:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return None


def _bins(files: list[ScanFile], most: int) -> list[tuple[ScanFile, ...]]:
    bins: list[list[ScanFile]] = []
    size = 0
    for file in files:
        if not bins or size + file.size > most:
            bins.append([])
            size = 0
        bins[-1].append(file)
        size += file.size
    return [tuple(found) for found in bins]
