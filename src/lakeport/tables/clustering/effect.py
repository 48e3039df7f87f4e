"""The effect of an order of rows: the files and bytes that filters read before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeport.kernel.actions import Add
from lakeport.kernel.clustering import FilterCost, Row, costs_of_filters
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot

_PROBES = 100


@dataclass(frozen=True)
class FilterEffect:
    """How much a filter on some columns reads of the files that `optimize` examined. This is an average over up to 100
    rows; each filter selects a row's values in these columns (`a = 1 AND b = 2`). It is computed from log statistics,
    by which readers choose files."""

    columns: tuple[str, ...]
    before: FilterCost
    after: FilterCost


def effect_of(
    snapshot: Snapshot, files: Sequence[ScanFile], rewritten: Iterable[ScanFile], adds: Iterable[Add], probes: list[Row]
) -> tuple[FilterEffect, ...]:
    """`files` are those before, of which some were rewritten."""
    gone = {file.key for file in rewritten}
    step = max(1, -(-len(probes) // _PROBES))
    before, after = (
        costs_of_filters(snapshot.engine, snapshot.schema, snapshot.mapping_mode, known, probes[::step])
        for known in (
            [(file.stats, file.size) for file in files],
            [*((f.stats, f.size) for f in files if f.key not in gone), *((add.stats, add.size) for add in adds)],
        )
    )
    return tuple(FilterEffect(old.columns, old, new) for old, new in zip(before, after, strict=True))
