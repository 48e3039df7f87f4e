"""A merge whose source is larger than its share of memory.

Source rows and target keys are spilled to temporary files, partitioned by the hash of their keys, so that a row and its
matches are in the same part. Within a part, blocks of the source are matched like a source held in memory. Source rows
for updates are spilled to a third file, in the order of the rows that they update.

Without an equality between the sides there is one part, and each block is compared with every target row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import ROW_POSITION
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.values import from_numpy, to_integers, to_mask
from lakeport.tables.merge.clauses import BoundMerge
from lakeport.tables.merge.hashing import hash_rows
from lakeport.tables.merge.in_memory import inserted_rows
from lakeport.tables.merge.matching import JoinKeys, is_nan
from lakeport.tables.merge.planning import MergeChanges, plan_search
from lakeport.tables.merge.pruning import SeenKeys
from lakeport.tables.merge.search import SHOWN_ROWS, AffectedRows, Lookup, ambiguous
from lakeport.tables.merge.sides import Pairs, RowNumbers
from lakeport.tables.merge.updates import FileUpdate, Places, SpilledUpdates, places_in, split_by_file
from lakeport.tables.rows.changes import FileChange
from lakeport.tables.rows.output import Inserted
from lakeport.workers import Workplace
from lakeport.workers.memory import release_memory
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader
from lakeport.workers.spilling import PartNumbers, SpilledRows

_PARTS = 64
_PART_BITS = np.uint64(6)
_MAX_BLOCK_BYTES = 256 << 20


@dataclass(frozen=True)
class _Shares:
    """The shares of a memory limit."""

    limit: int
    threads: int

    @property
    def block(self) -> int:
        """Rows of the source that are looked up at once, or wait to be written."""
        return min(self.limit // 32, _MAX_BLOCK_BYTES)

    @property
    def keys(self) -> int:
        """Keys of the target that are looked up at once, or wait to be written."""
        return self.block // 4

    @property
    def group(self) -> int:
        """Source rows for updates, for each file that is read."""
        return self.block // (self.threads + 1)


@contextmanager
def spilled_changes(
    transaction: Transaction, merge: BoundMerge, place: Workplace, batches: Iterable[pa.RecordBatch], limit: int
) -> Iterator[MergeChanges]:
    """The changes that the merge makes. Consumes the source's rows once; `merge` has none of them."""
    shares = _Shares(limit, place.threads)
    with ExitStack() as stack:
        source, keys = _spill_source(merge, batches, shares.block, stack)
        release_memory()
        reader, files = plan_search(transaction, merge, keys)
        target = stack.enter_context(_target_file(merge, reader.output, shares.keys))
        group_rows = max(1, shares.group * source.rows // max(1, source.size))
        cuts = _spill_target(place, reader, files, target, group_rows)
        release_memory()
        updates = SpilledUpdates(merge, cuts, shares.block, place.threads + 1)
        stack.enter_context(updates.rows)
        search = _Search(merge, source, target, updates)
        for part in target.parts():
            place.check()
            search.search(part)
        updates.rows.finish()
        release_memory()
        yield MergeChanges(
            search.file_changes(files), _inserted(merge, source, search.is_matched), source.rows, search.counts
        )


# Spilling


def _spill_source(
    merge: BoundMerge, batches: Iterable[pa.RecordBatch], held: int, stack: ExitStack
) -> tuple[SpilledRows, list[SeenKeys]]:
    """The rows with their numbers, and the keys in them."""
    keys = JoinKeys(merge.sides, merge.condition.keys)

    def part_of(rows: pa.RecordBatch) -> PartNumbers:
        return _part_numbers(merge, keys.of_source(_Block.of(rows).rows), rows.num_rows)

    schema = merge.source.schema.append(pa.field("number", pa.int64()))
    source = stack.enter_context(SpilledRows(schema, part_of, held))
    seen = [SeenKeys.of(column) for column in keys.of_source(merge.source)]
    first = 0
    for batch in batches:
        seen = [known | SeenKeys.of(column) for known, column in zip(seen, keys.of_source(batch), strict=True)]
        numbers = from_numpy(np.arange(first, first + batch.num_rows))
        source.add(pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema))
        first += batch.num_rows
    source.finish()
    return source, seen


def _target_file(merge: BoundMerge, schema: pa.Schema, held: int) -> SpilledRows:
    keys = JoinKeys(merge.sides, merge.condition.keys)

    def part_of(rows: pa.RecordBatch) -> PartNumbers:
        return _part_numbers(merge, keys.of_target(Pairs(rows, None)), rows.num_rows)

    return SpilledRows(schema, part_of, held)


def _part_numbers(merge: BoundMerge, keys: Sequence[pa.Array], rows: int) -> PartNumbers:
    """The part of each row, by its keys. Rows that cannot match are spread over all parts."""
    if not keys:
        return np.zeros(rows, np.int64)
    parts = (hash_rows(keys, rows) >> (np.uint64(64) - _PART_BITS)).astype(np.int64)
    for key, column in zip(merge.condition.keys, keys, strict=True):
        if column.null_count and not key.null_safe:
            _spread(parts, to_mask(column.is_null()))
        if pa.types.is_floating(column.type):
            _spread(parts, to_mask(is_nan(column)))
    return parts


def _spread(parts: PartNumbers, chosen: npt.NDArray[np.bool_]) -> None:
    parts[chosen] = np.flatnonzero(chosen) % _PARTS


def _spill_target(
    place: Workplace, reader: RowReader, files: Sequence[ScanFile], target: SpilledRows, group_rows: int
) -> Places:
    """Read the files and spill their rows, with places for positions. Returns every `group_rows`th place."""

    def rows_of(number: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in reader.read(place.engine, files[number]):
            place.check()
            yield number, batch

    cuts, rows = [np.zeros(0, np.int64)], 0
    column = target.schema.get_field_index(ROW_POSITION.name)
    for number, batch in in_order(range(len(files)), rows_of, place.threads, lambda n: reader.weight(files[n])):
        places = places_in(number, to_integers(batch.column(column)))
        target.add(batch.set_column(column, target.schema.field(column), from_numpy(places)))
        cuts.append(places[-rows % group_rows :: group_rows])
        rows += batch.num_rows
    target.finish()
    return np.concatenate(cuts)


# Search


class _Search:
    """Searches part by part."""

    def __init__(self, merge: BoundMerge, source: SpilledRows, target: SpilledRows, updates: SpilledUpdates) -> None:
        self._merge, self._source, self._target, self._updates = merge, source, target, updates
        self.is_matched = np.zeros(source.rows, np.bool_)
        """Which source rows have a match."""
        self.counts = np.zeros(len(merge.on_target), np.int64)
        self._deleted: list[Places] = []
        self._updated: list[Places] = []

    def search(self, part: int) -> None:
        """Raises `InvalidDataError` if several source rows would change the same row."""
        found = AffectedRows.joined([])
        has_match: list[npt.NDArray[np.bool_]] = []
        for block in self._blocks(part):
            found = self._unique(part, AffectedRows.joined([found, *self._search_block(part, block, has_match)]))
        self._keep(found)
        if self._merge.not_matched_by_source:
            self._search_unmatched(part, has_match)

    def _search_block(self, part: int, block: _Block, has_match: list[npt.NDArray[np.bool_]]) -> Iterator[AffectedRows]:
        """The affected rows, by place; marks in `has_match` the rows of each block of the target that have a match."""
        lookup = Lookup(self._merge.over(block.rows))
        for index, rows in enumerate(self._target.blocks(part)):
            affected, is_matched = lookup.matched(rows)
            affected = self._unique(part, _at_places(affected, rows))
            self._updates.add(affected, block.rows, block.numbers)
            yield affected
            if index == len(has_match):
                has_match.append(is_matched)
            has_match[index] |= is_matched
        self.is_matched[block.numbers[lookup.is_matched]] = True

    def _blocks(self, part: int) -> Iterator[_Block]:
        return map(_Block.of, self._source.blocks(part))

    def _search_unmatched(self, part: int, has_match: Sequence[npt.NDArray[np.bool_]]) -> None:
        lookup = Lookup(self._merge)
        for index, rows in enumerate(self._target.blocks(part)):
            is_free = ~has_match[index] if has_match else np.ones(rows.num_rows, np.bool_)
            found = _at_places(lookup.unmatched(rows, np.flatnonzero(is_free)), rows)
            self._updates.add_unmatched(found)
            self._keep(found)

    def _unique(self, part: int, found: AffectedRows) -> AffectedRows:
        found = found.take(np.argsort(found.rows, kind="stable"))
        repeated = found.repeated()
        if len(repeated) and not self._merge.may_match_repeatedly:
            raise self._ambiguous(part, found.rows[repeated[0]])
        return found.without(repeated)

    def _ambiguous(self, part: int, place: np.int64) -> InvalidDataError:
        is_at = ((rows, np.flatnonzero(_places(rows) == place)) for rows in self._target.blocks(part))
        target = next(rows.slice(int(found[0]), 1) for rows, found in is_at if len(found))
        shown, numbers = [], []
        for block in self._blocks(part):
            sources = Lookup(self._merge.over(block.rows)).matched(target)[0].source_rows
            shown.append(block.rows.take(from_numpy(sources[:SHOWN_ROWS])))
            numbers += block.numbers[sources].tolist()
        return ambiguous(target, pa.concat_batches(shown).slice(0, SHOWN_ROWS), len(numbers), numbers[1])

    def _keep(self, found: AffectedRows) -> None:
        self.counts += np.bincount(found.clauses, minlength=len(self.counts))
        is_update = self._merge.is_update[found.clauses]
        self._deleted.append(found.rows[~is_update])
        self._updated.append(found.rows[is_update])

    def file_changes(self, files: Sequence[ScanFile]) -> list[FileChange]:
        """The changes of all files; to be called once, at the end."""
        deleted, updated = (split_by_file(_sorted(parts), len(files)) for parts in (self._deleted, self._updated))
        return [
            FileChange(file, deleted[number], updated[number], FileUpdate(self._updates, number))
            for number, file in enumerate(files)
            if len(deleted[number]) or len(updated[number])
        ]


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows of the source, and their numbers in the whole."""

    rows: pa.RecordBatch
    numbers: RowNumbers

    @classmethod
    def of(cls, spilled: pa.RecordBatch) -> _Block:
        last = spilled.num_columns - 1
        return cls(spilled.remove_column(last), to_integers(spilled.column(last)))


def _places(target: pa.RecordBatch) -> Places:
    return to_integers(target.column(ROW_POSITION.name))


def _at_places(found: AffectedRows, target: pa.RecordBatch) -> AffectedRows:
    return AffectedRows(_places(target)[found.rows], found.clauses, found.source_rows)


def _sorted(parts: list[Places]) -> Places:
    """The places in order. Empties the list, so that memory holds them only once."""
    places = np.empty(sum(map(len, parts)), np.int64)
    while parts:
        part = parts.pop()
        places[sum(map(len, parts)) :][: len(part)] = part
    places.sort()
    return places


def _inserted(merge: BoundMerge, source: SpilledRows, is_matched: npt.NDArray[np.bool_]) -> Iterator[Inserted]:
    """The new rows, in the order of the source."""
    if merge.not_matched:
        for block in map(_Block.of, source.chunks()):
            order = np.argsort(block.numbers)
            unmatched = order[~is_matched[block.numbers[order]]]
            yield from inserted_rows(merge, block.rows, unmatched, block.numbers)
