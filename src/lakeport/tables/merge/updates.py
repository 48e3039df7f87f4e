"""The source rows for updates in a temporary file, in the order of the rows that they update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.kernel.engine import Engine
from lakeport.kernel.schema import ROW_POSITION, StructType
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.tables.merge.clauses import BoundMerge
from lakeport.tables.merge.search import AffectedRows
from lakeport.tables.merge.sides import Pairs, RowNumbers
from lakeport.tables.rows.output import Positions, Updated
from lakeport.workers.spilling import PartNumbers, SpilledRows

Places = npt.NDArray[np.int64]
"""Rows of the target, in order: the number of the file, and the position in it."""
_POSITION_BITS = 40
_PLACE, _NUMBER, _CLAUSE = -3, -2, -1
"""The last columns of the file."""
_OWN_FIELDS = [pa.field(name, pa.int64()) for name in ("place", "number", "clause")]


def places_in(file: int, positions: RowNumbers) -> Places:
    return positions + (file << _POSITION_BITS)


def split_by_file(places: Places, files: int) -> list[Positions]:
    """The positions in each file of sorted places, which are no longer valid then."""
    cuts = np.searchsorted(places, places_in(0, np.arange(files + 1) << _POSITION_BITS))
    places &= (1 << _POSITION_BITS) - 1
    positions = places.view(np.uint64)
    return [positions[start:end] for start, end in pairwise(cuts.tolist())]


class SpilledUpdates:
    """Takes source rows with the rows that they update; then gives the new values of a file's rows."""

    def __init__(self, merge: BoundMerge, cuts: Places, held: int, groups_held: int) -> None:
        """Rows between two of `cuts` are held together, and so many of these groups at once."""
        self.merge, self._cuts, self._held = merge, cuts, held
        self._names = list(dict.fromkeys(chain.from_iterable(clause.source_names for clause in merge.matched)))
        fields = [merge.source.schema.field(name) for name in self._names]
        self.rows = SpilledRows(pa.schema([*fields, *_OWN_FIELDS]), self._group_of, held)
        self._sorted_group = lru_cache(groups_held)(self._read_group)

    def add(self, found: AffectedRows, source: pa.RecordBatch, numbers: RowNumbers) -> None:
        """Add the updates of matched rows; their `rows` are places, and `numbers` those of the source's rows."""
        chosen = np.flatnonzero(self.merge.is_update[found.clauses])
        step = max(1, self._held * source.num_rows // max(1, source.nbytes))
        for start in range(0, len(chosen), step):
            part = found.take(chosen[start : start + step])
            columns = source.select(self._names).take(from_numpy(part.source_rows)).columns
            self._add(columns, part, numbers[part.source_rows])

    def add_unmatched(self, found: AffectedRows) -> None:
        """Add updates that need no source row."""
        part = found.take(np.flatnonzero(self.merge.is_update[found.clauses]))
        count = len(part.rows)
        columns = [pa.nulls(count, field.type) for field in self.rows.schema][:_PLACE]
        self._add(columns, part, np.full(count, -1, np.int64))

    def _add(self, columns: list[pa.Array], part: AffectedRows, numbers: RowNumbers) -> None:
        own = [from_numpy(values) for values in (part.rows, numbers, part.clauses)]
        self.rows.add(pa.RecordBatch.from_arrays([*columns, *own], schema=self.rows.schema))

    def updated(self, file: int, rows: pa.RecordBatch) -> Iterator[Updated]:
        """The new values of rows of a file."""
        source = self._source_of(places_in(file, to_integers(rows.column(ROW_POSITION.name))))
        clauses, numbers = to_integers(source.column(_CLAUSE)), to_integers(source.column(_NUMBER))
        for _ in _OWN_FIELDS:  # by place: the source may have columns of these names
            source = source.remove_column(source.num_columns - 1)
        for number, clause in enumerate(self.merge.on_target):
            chosen = np.flatnonzero(clauses == number)
            if len(chosen):
                before = rows.take(from_numpy(chosen))
                pairs = Pairs(before, source, None, chosen, numbers)
                name_row = pairs.name_row if number < len(self.merge.matched) else None
                yield Updated(before, clause.updated(before, pairs), name_row)

    def _source_of(self, places: Places) -> pa.RecordBatch:
        """The rows for these places, which are all that are updated between the first and the last."""
        first, last = np.searchsorted(self._cuts, places[[0, -1]], side="right").tolist()
        parts = []
        for group in filter(self.rows.has, range(first, last + 1)):
            rows = self._sorted_group(group)
            start, end = np.searchsorted(to_integers(rows.column(_PLACE)), [places[0], places[-1] + 1]).tolist()
            parts.append(rows.slice(start, end - start))
        return pa.concat_batches(parts)

    def _read_group(self, group: int) -> pa.RecordBatch:
        rows = pa.concat_batches(list(self.rows.blocks(group)))
        return rows.take(from_numpy(np.argsort(to_integers(rows.column(_PLACE)), kind="stable")))

    def _group_of(self, rows: pa.RecordBatch) -> PartNumbers:
        return np.searchsorted(self._cuts, to_integers(rows.column(_PLACE)), side="right")


@dataclass(frozen=True, eq=False)
class FileUpdate:
    """The updates of one file."""

    updates: SpilledUpdates
    file: int

    @property
    def sets(self) -> frozenset[str]:
        return self.updates.merge.sets

    @property
    def reads(self) -> frozenset[str]:
        return self.updates.merge.reads

    def open(self, engine: Engine, columns: StructType) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        return partial(self.updates.updated, self.file)
