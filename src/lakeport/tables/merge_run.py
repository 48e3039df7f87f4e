"""How a merge is done: one pass finds what happens to which rows, another one writes the rows that change.

Files in which nothing happens are not touched. A merge that changes no row of the target is an append.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine.reading import RowReader, in_order
from lakeport.engine.writing import write_rows
from lakeport.errors import InvalidDataError
from lakeport.kernel.arrays import from_numpy, to_integers
from lakeport.kernel.input_rows import RowNames, fit_column
from lakeport.kernel.row_transformer import RowTransformer
from lakeport.kernel.scan_files import ROW_POSITION, ScanFile
from lakeport.kernel.schema import arrow_schema, nullable, schema_from_arrow
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.transaction import Transaction
from lakeport.tables.matching import Matcher, split_condition, target_filter
from lakeport.tables.merge_clauses import BoundMerge, choose
from lakeport.tables.merge_search import Found, MergeSearch
from lakeport.tables.merge_sides import Pairs, RowNumbers, name_source_row
from lakeport.tables.operation import Result, finish
from lakeport.tables.row_changes import ChangeCounts, FileChange, RowChanges, row_reader
from lakeport.tables.row_search import READERS

_INSERTED_ROWS = 1 << 16
"""So many rows of the source are worked out at once."""


def load_source(reader: pa.RecordBatchReader) -> pa.RecordBatch:
    """All rows of the source, in the types that Delta has. Raises `InvalidDataError`."""
    table = reader.read_all()
    try:
        schema = arrow_schema(schema_from_arrow(table.schema))
    except ValueError as error:
        raise InvalidDataError(f"the source cannot be merged: {error}") from error
    names = [name.lower() for name in schema.names]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidDataError(f"the source has two columns with the name {twice!r}", column=twice)
    columns = [_in_one(table.column(index), field.name) for index, field in enumerate(schema)]
    fitted = [fit_column(column, field, name_source_row) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(fitted, schema=nullable(schema))


def _in_one(column: pa.ChunkedArray, name: str) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        raise InvalidDataError(
            f"the column {name!r} of the source holds more than 2 GiB: merge it in several parts", column=name
        )
    return combined


@dataclass(frozen=True, eq=False)
class _Rewritten:
    """Rows of a file that are written again."""

    before: pa.RecordBatch
    after: pa.RecordBatch | None
    """None for rows that stay as they are."""
    name_row: RowNames | None = None
    """By the source, if it has a part in them."""


class MergeRun:
    """One execution of a merge."""

    def __init__(self, transaction: Transaction, source: pa.RecordBatch, merge: BoundMerge) -> None:
        assert transaction.snapshot is not None, "a new table has no rows to merge into"
        self._transaction, self._snapshot, self._engine = transaction, transaction.snapshot, transaction.engine
        self._source, self._merge = source, merge
        self._clauses = [*merge.matched, *merge.not_matched_by_source]
        """Those for rows of the target, by their numbers."""
        self._is_update = np.array([clause.action == "update" for clause in self._clauses], np.bool_)

    def run(self) -> Result:
        """Raises what `Merge.execute` raises."""
        matcher = Matcher(self._merge.sides, split_condition(self._merge.on, self._merge.sides), self._source)
        search = MergeSearch(matcher, self._source, self._merge.matched, self._merge.not_matched_by_source)
        found = search.run(self._target_rows(matcher))
        unmatched = np.flatnonzero(~search.matched_sources)
        return self._change(found, unmatched) if found else self._append(unmatched)

    # What happens to which rows

    def _target_rows(self, matcher: Matcher) -> Iterator[tuple[ScanFile, pa.RecordBatch]]:
        """The rows of the target that a clause may apply to, or a row of the source match, with the columns that the
        conditions mention."""
        builder = self._snapshot.scan_builder().with_log_details().with_row_position()
        known = None if self._merge.not_matched_by_source else target_filter(self._merge.sides, matcher)
        builder = builder if known is None else builder.with_filter(known)
        conditions = [clause.condition for clause in self._clauses if clause.condition is not None]
        names = self._merge.sides.target.names_in(matcher.condition.on_target)
        names = tuple(dict.fromkeys([*names, *(name for each in conditions for name in each.target_names)]))
        scan = builder.with_read_schema(self._snapshot.schema.select((name,) for name in names)).build()
        # The filter leaves files and row groups out; which rows match is found out anyway.
        reader = RowReader(scan.scan_state, scan.scan_state.arrow_schema, None, scan.physical_filter)

        def rows_of(file: ScanFile) -> Iterator[tuple[ScanFile, pa.RecordBatch]]:
            return ((file, batch) for batch in reader.read(self._engine, file))

        return in_order(self._transaction.plan(scan), rows_of, READERS)

    # What is written

    def _append(self, unmatched: RowNumbers) -> Result:
        """No row of the target changes."""
        context = self._transaction.write_context()
        transformer = RowTransformer(self._engine, context)
        inserted = 0

        def checked() -> Iterator[pa.RecordBatch]:
            nonlocal inserted
            for pairs, rows in self._inserted(unmatched):
                inserted += len(pairs)
                yield transformer.checked(rows, pairs.name_row)

        adds = write_rows(self._engine, context.for_moved_rows(), checked())
        self._transaction.add_files(adds)
        added_bytes = sum(add.size for add in adds)
        counts = ChangeCounts(inserted_rows=inserted, added_files=len(adds), added_bytes=added_bytes)
        self._transaction.metrics |= self._metrics(counts, [])
        return finish(self._transaction, adds)

    def _change(self, found: list[tuple[ScanFile, Found]], unmatched: RowNumbers) -> Result:
        updated = [(file, rows) for file, rows in found if self._is_update[rows.clauses].any()]
        with RowChanges(self._transaction, updates=bool(updated)) as changes:
            for file, rows in found:
                changes.take(self._file_change(file, rows, changes.uses_vectors))
            rewrite = _Rewriter(self._snapshot, self._source, self._merge, copies=not changes.uses_vectors)
            for part in in_order(updated, rewrite.rows_of, READERS):
                if part.after is None:
                    changes.copy(part.before)
                else:
                    changes.update(part.before, part.after, part.name_row)
            for pairs, new in self._inserted(unmatched):
                changes.insert(new, pairs.name_row)
            self._transaction.metrics |= self._metrics(changes.stage(), [rows for _, rows in found])
            return changes.commit()

    def _file_change(self, file: ScanFile, found: Found, uses_vectors: bool) -> FileChange:
        """Rows that are updated go from where they are; without deletion vectors, so do their neighbours."""
        is_update = self._is_update[found.clauses]
        deleted, replaced = (found.rows[mask].astype(np.uint64) for mask in (~is_update, is_update))
        return FileChange(file, deleted, replaced if uses_vectors or not len(replaced) else None)

    def _inserted(self, unmatched: RowNumbers) -> Iterator[tuple[Pairs, pa.RecordBatch]]:
        """Rows of the source that match none, and the new rows that they make."""
        for start in range(0, len(unmatched), _INSERTED_ROWS):
            pairs = Pairs(None, self._source, None, unmatched[start : start + _INSERTED_ROWS])
            chosen = choose(self._merge.not_matched, pairs)
            for number, clause in enumerate(self._merge.not_matched):
                if len(rows := np.flatnonzero(chosen == number)):
                    inserting = pairs.take(rows)
                    yield inserting, clause.inserted(inserting)

    def _metrics(self, counts: ChangeCounts, found: Sequence[Found]) -> dict[str, int]:
        """What was done, in the words of Spark."""
        totals = np.zeros(len(self._clauses), np.int64)
        for rows in found:
            totals += np.bincount(rows.clauses, minlength=len(self._clauses))
        matched = np.arange(len(self._clauses)) < len(self._merge.matched)

        def rows_in(clauses: npt.NDArray[np.bool_]) -> int:
            return int(totals[clauses].sum())

        return {
            "numSourceRows": self._source.num_rows,
            "numTargetRowsInserted": counts.inserted_rows,
            "numTargetRowsUpdated": rows_in(self._is_update),
            "numTargetRowsMatchedUpdated": rows_in(self._is_update & matched),
            "numTargetRowsNotMatchedBySourceUpdated": rows_in(self._is_update & ~matched),
            "numTargetRowsDeleted": rows_in(~self._is_update),
            "numTargetRowsMatchedDeleted": rows_in(~self._is_update & matched),
            "numTargetRowsNotMatchedBySourceDeleted": rows_in(~self._is_update & ~matched),
            "numTargetRowsCopied": counts.copied_rows,
            "numOutputRows": counts.inserted_rows + counts.updated_rows + counts.copied_rows,
            "numTargetFilesAdded": counts.added_files,
            "numTargetFilesRemoved": counts.removed_files,
            "numTargetBytesAdded": counts.added_bytes,
            "numTargetBytesRemoved": counts.removed_bytes,
            "numTargetChangeFilesAdded": counts.change_files,
            "numTargetDeletionVectorsAdded": counts.vectors_added,
            "numTargetDeletionVectorsUpdated": counts.vectors_updated,
            "numTargetDeletionVectorsRemoved": counts.vectors_removed,
        }


class _Rewriter:
    """Rows of files as they are to be. With `copies`, those to which nothing happens come too."""

    def __init__(self, snapshot: Snapshot, source: pa.RecordBatch, merge: BoundMerge, *, copies: bool) -> None:
        self._engine, self._reader = snapshot.engine, row_reader(snapshot)
        self._source, self._copies = source, copies
        self._clauses, self._matched = [*merge.matched, *merge.not_matched_by_source], len(merge.matched)

    def rows_of(self, item: tuple[ScanFile, Found]) -> Iterator[_Rewritten]:
        file, found = item
        for batch in self._reader.read(self._engine, file):
            positions = to_integers(batch.column(ROW_POSITION.name))
            places = np.searchsorted(found.rows, positions)
            places[places == len(found)] = 0
            is_found = found.rows[places] == positions
            if self._copies and not is_found.all():
                yield _Rewritten(batch.filter(from_numpy(~is_found)), None)
            rows = np.flatnonzero(is_found)
            yield from self._updated(batch, rows, found.take(places[rows]))

    def _updated(self, batch: pa.RecordBatch, rows: RowNumbers, found: Found) -> Iterator[_Rewritten]:
        for number, clause in enumerate(self._clauses):
            chosen = np.flatnonzero(found.clauses == number)
            if clause.action == "update" and len(chosen):
                before = batch.take(from_numpy(rows[chosen]))
                pairs = Pairs(before, self._source, None, found.source_rows[chosen])
                name_row = pairs.name_row if number < self._matched else None
                yield _Rewritten(before, clause.updated(before, pairs), name_row)
