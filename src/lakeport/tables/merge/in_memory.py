"""A merge whose source is held in memory, here and by every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakeport.kernel.definition import TARGET_FILE_SIZE
from lakeport.kernel.engine import Engine
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import ROW_POSITION, StructType
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.tables.merge.clauses import BoundMerge, choose
from lakeport.tables.merge.planning import MergeChanges, plan_search
from lakeport.tables.merge.pruning import SeenKeys
from lakeport.tables.merge.search import AffectedFiles, AffectedRows, SearchTask
from lakeport.tables.merge.sides import Pairs, RowNumbers
from lakeport.tables.merge.source import SharedMerge, shared_merge
from lakeport.tables.rows.changes import FileChange
from lakeport.tables.rows.output import Inserted, Updated
from lakeport.workers import Workers

_INSERTED_ROWS = 1 << 16
"""Source rows processed at a time."""


@contextmanager
def in_memory_changes(transaction: Transaction, merge: BoundMerge, workers: Workers) -> Iterator[MergeChanges]:
    """What the merge does; its source is complete."""
    with shared_merge(merge, workers, transaction.root) as shared:
        found, unmatched = _search(transaction, merge, shared, workers)
        counts = sum((_counts(merge, rows) for _, rows in found), np.zeros(len(merge.on_target), np.int64))
        yield MergeChanges(
            [_file_change(merge, shared, file, rows) for file, rows in found],
            inserted_rows(merge, merge.source, unmatched),
            merge.source.num_rows,
            counts,
        )


def _search(
    transaction: Transaction, merge: BoundMerge, shared: SharedMerge, workers: Workers
) -> tuple[AffectedFiles, RowNumbers]:
    """The affected files, and the source rows without a match."""
    reader, files = plan_search(transaction, merge, [SeenKeys.of(keys) for keys in merge.matcher.source_keys])
    most = TARGET_FILE_SIZE.of(transaction.metadata.configuration)
    groups = workers.groups(files, lambda file: file.size, most)
    found: AffectedFiles = []
    is_matched = np.zeros(merge.source.num_rows, np.bool_)
    for part in workers.map(SearchTask(shared, reader), groups):
        found += part.found
        is_matched[part.source_rows] = True
    return found, np.flatnonzero(~is_matched)


def _counts(merge: BoundMerge, found: AffectedRows) -> RowNumbers:
    return np.bincount(found.clauses, minlength=len(merge.on_target))


def _file_change(merge: BoundMerge, shared: SharedMerge, file: ScanFile, found: AffectedRows) -> FileChange:
    is_update = merge.is_update[found.clauses]
    deleted, updated = (found.rows[mask].astype(np.uint64) for mask in (~is_update, is_update))
    return FileChange(
        file, deleted, updated, _UpdateRows(shared, found, merge.sets, merge.reads) if len(updated) else None
    )


@dataclass(frozen=True)
class _UpdateRows:
    """Applies the update clauses to rows of a file."""

    merge: SharedMerge
    found: AffectedRows
    sets: frozenset[str]
    reads: frozenset[str]

    def open(self, engine: Engine, columns: StructType) -> Callable[[pa.RecordBatch], Iterator[Updated]]:
        return partial(self._updated, self.merge.open(engine))

    def _updated(self, merge: BoundMerge, rows: pa.RecordBatch) -> Iterator[Updated]:
        found = self.found.take(np.searchsorted(self.found.rows, to_integers(rows.column(ROW_POSITION.name))))
        for number, clause in enumerate(merge.on_target):
            chosen = np.flatnonzero(found.clauses == number)
            if len(chosen):
                before = rows.take(from_numpy(chosen))
                pairs = Pairs(before, merge.source, None, found.source_rows[chosen])
                name_row = pairs.name_row if number < len(merge.matched) else None
                yield Updated(before, clause.updated(before, pairs), name_row)


def inserted_rows(
    merge: BoundMerge, source: pa.RecordBatch, unmatched: RowNumbers, numbers: RowNumbers | None = None
) -> Iterator[Inserted]:
    """The new rows for source rows without a match. `numbers` are those of the rows in the whole source, if these are
    only a part."""
    for start in range(0, len(unmatched), _INSERTED_ROWS):
        pairs = Pairs(None, source, None, unmatched[start : start + _INSERTED_ROWS], numbers)
        chosen = choose(merge.not_matched, pairs)
        for number, clause in enumerate(merge.not_matched):
            if len(rows := np.flatnonzero(chosen == number)):
                inserting = pairs.take(rows)
                yield Inserted(clause.inserted(inserting), inserting.name_row)
