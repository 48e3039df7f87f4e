"""The changes that a merge makes, and the plan of its search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakeport.kernel.scan import ScanFile
from lakeport.kernel.transaction import Transaction
from lakeport.tables.merge.clauses import BoundMerge
from lakeport.tables.merge.pruning import SeenKeys, target_filter
from lakeport.tables.merge.sides import RowNumbers
from lakeport.tables.operation import snapshot_of
from lakeport.tables.rows.changes import FileChange
from lakeport.tables.rows.output import Inserted
from lakeport.workers.reading import RowReader


@dataclass(frozen=True, eq=False)
class MergeChanges:
    """The changes that a merge makes."""

    files: Sequence[FileChange]
    inserts: Iterable[Inserted]
    source_rows: int
    rows_of_clauses: RowNumbers
    """The number of target rows to which each clause applies."""


def plan_search(
    transaction: Transaction, merge: BoundMerge, source_keys: Sequence[SeenKeys]
) -> tuple[RowReader, list[ScanFile]]:
    """The files with rows that may be affected, and a reader of the columns that the conditions use."""
    snapshot, sides = snapshot_of(transaction), merge.sides
    builder = snapshot.scan_builder().with_log_details().with_row_position()
    known = None if merge.not_matched_by_source else target_filter(sides, merge.condition, source_keys)
    builder = builder if known is None else builder.with_filter(known)
    conditions = [clause.condition for clause in merge.on_target if clause.condition is not None]
    names = sides.target.names_in(merge.condition.on_target)
    names = tuple(dict.fromkeys([*names, *(name for each in conditions for name in each.target_names)]))
    scan = builder.with_read_schema(snapshot.schema.select((name,) for name in names)).build()
    # The filter only skips files and row groups; matching decides about rows.
    reader = RowReader(scan.scan_state, scan.scan_state.arrow_schema, None, scan.physical_filter)
    return reader, transaction.plan(scan)
