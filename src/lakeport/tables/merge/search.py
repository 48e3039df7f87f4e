"""The first pass of a merge: find the clause for each target row, and the source rows with a match.

Reads only the columns that conditions use, several files in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.schema import ROW_POSITION
from lakeport.kernel.values import from_numpy, to_integers
from lakeport.kernel.write import format_row
from lakeport.tables.merge.clauses import BoundMerge, choose
from lakeport.tables.merge.sides import Pairs, RowNumbers
from lakeport.tables.merge.source import SharedMerge
from lakeport.workers import Workplace
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader

_GATHERED_ROWS = 1 << 16
_GATHERED_BYTES = 256 << 20
SHOWN_ROWS = 3
"""Of the source rows that match the same target row."""
_NO_ROWS: RowNumbers = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class AffectedRows:
    """Target rows to which a clause applies: three columns of equal length."""

    rows: RowNumbers
    """Row numbers, or positions in a file; strictly ascending once sorted."""
    clauses: RowNumbers
    """Clause numbers: clauses for matched rows first, then those for rows without a match."""
    source_rows: RowNumbers
    """The matching source row, or -1."""

    def take(self, chosen: npt.NDArray[np.int64] | slice) -> AffectedRows:
        return AffectedRows(self.rows[chosen], self.clauses[chosen], self.source_rows[chosen])

    def repeated(self) -> RowNumbers:
        """Where the same row comes again, if equal rows are adjacent."""
        return np.flatnonzero(self.rows[1:] == self.rows[:-1]) + 1

    def without(self, places: RowNumbers) -> AffectedRows:
        return self.take(np.delete(np.arange(len(self.rows)), places)) if len(places) else self

    @classmethod
    def joined(cls, parts: Sequence[AffectedRows]) -> AffectedRows:
        if not parts:
            return cls(_NO_ROWS, _NO_ROWS, _NO_ROWS)
        columns = ([part.rows for part in parts], [part.clauses for part in parts], [p.source_rows for p in parts])
        return cls(*map(np.concatenate, columns))


AffectedFiles = list[tuple[ScanFile, AffectedRows]]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The search result for some files."""

    found: AffectedFiles
    source_rows: RowNumbers
    """The source rows with a match."""


@dataclass(frozen=True)
class SearchTask:
    """A task: find the affected rows of some files. Raises `InvalidDataError`."""

    merge: SharedMerge
    reader: RowReader

    def __call__(self, place: Workplace, files: Sequence[ScanFile]) -> SearchResult:
        def rows_of(file: ScanFile) -> Iterator[tuple[ScanFile, pa.RecordBatch]]:
            for batch in self.reader.read(place.engine, file):
                place.check()
                yield file, batch

        return _Search(self.merge.open(place.engine)).run(in_order(files, rows_of, place.threads, self.reader.weight))


class _Search:
    """Searches target rows and remembers which source rows had a match."""

    def __init__(self, merge: BoundMerge) -> None:
        self._merge, self._lookup = merge, Lookup(merge)

    def run(self, batches: Iterable[tuple[ScanFile, pa.RecordBatch]]) -> SearchResult:
        """Search batches, which have `ROW_POSITION` and are ordered by file.

        Raises `InvalidDataError` if several source rows would change the same row."""
        found: dict[str, tuple[ScanFile, list[AffectedRows]]] = {}
        for gathered in self._gathered(batches):
            for file, part in self._in_files(gathered):
                found.setdefault(file.path, (file, []))[1].append(part)
        joined = [(file, AffectedRows.joined(parts)) for file, parts in found.values()]
        return SearchResult(joined, np.flatnonzero(self._lookup.is_matched))

    def _gathered(
        self, batches: Iterable[tuple[ScanFile, pa.RecordBatch]]
    ) -> Iterator[list[tuple[ScanFile, pa.RecordBatch]]]:
        """Batch the lookups: each has a fixed cost proportional to the source's length."""
        enough = max(_GATHERED_ROWS, self._merge.source.num_rows)
        gathered: list[tuple[ScanFile, pa.RecordBatch]] = []
        rows = size = 0
        for file, batch in batches:
            gathered.append((file, batch))
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= enough or size >= _GATHERED_BYTES:
                yield gathered
                gathered, rows, size = [], 0, 0
        if gathered:
            yield gathered

    def _in_files(self, gathered: list[tuple[ScanFile, pa.RecordBatch]]) -> Iterator[tuple[ScanFile, AffectedRows]]:
        rows = pa.concat_batches([batch for _, batch in gathered])
        found = self._look(rows)
        positions = to_integers(rows.column(ROW_POSITION.name))
        ends = np.cumsum([batch.num_rows for _, batch in gathered])
        cuts = [0, *np.searchsorted(found.rows, ends).tolist()]
        for (file, _), start, end in zip(gathered, cuts[:-1], cuts[1:], strict=True):
            if end > start:
                part = found.take(slice(start, end))
                yield file, AffectedRows(positions[part.rows], part.clauses, part.source_rows)

    def _look(self, target: pa.RecordBatch) -> AffectedRows:
        """The affected rows, in order."""
        found, is_matched = self._lookup.matched(target)
        repeated = found.repeated()
        if len(repeated) and not self._merge.may_match_repeatedly:
            raise self._ambiguous(target, found, int(repeated[0]))
        found = found.without(repeated)
        if not self._merge.not_matched_by_source:
            return found
        joined = AffectedRows.joined([found, self._lookup.unmatched(target, np.flatnonzero(~is_matched))])
        return joined.take(np.argsort(joined.rows, kind="stable"))

    def _ambiguous(self, target: pa.RecordBatch, found: AffectedRows, at: int) -> InvalidDataError:
        row, source = int(found.rows[at]), self._merge.source
        sources = found.source_rows[found.rows == row]
        shown = source.take(from_numpy(sources[:SHOWN_ROWS]))
        return ambiguous(target.slice(row, 1), shown, len(sources), int(sources[1]))


class Lookup:
    """Looks up target rows in the source."""

    def __init__(self, merge: BoundMerge) -> None:
        self._merge = merge
        self._found = np.zeros(merge.source.num_rows, np.bool_)

    @property
    def is_matched(self) -> npt.NDArray[np.bool_]:
        """A mask of the source rows that had a match so far."""
        return self._merge.matcher.with_match(self._found)

    def matched(self, target: pa.RecordBatch) -> tuple[AffectedRows, npt.NDArray[np.bool_]]:
        """The rows with a match to which a clause applies, in order, with each of their source rows; and a mask of all
        rows with a match. Stops at an ambiguous row: there may be any number of them, with any number of matches."""
        is_matched = np.zeros(target.num_rows, np.bool_)
        parts = []
        for rows, source_rows in self._merge.matcher.matches(target):
            self._found[source_rows] = True
            is_matched[rows] = True
            if self._merge.matched:
                parts.append(self._changed(target, rows, source_rows))
                if len(repeated := parts[-1].repeated()):
                    if not self._merge.may_match_repeatedly:
                        break
                    parts[-1] = parts[-1].without(repeated)
        return AffectedRows.joined(parts), is_matched

    def _changed(self, target: pa.RecordBatch, rows: RowNumbers, source_rows: RowNumbers) -> AffectedRows:
        clauses = choose(self._merge.matched, Pairs(target, self._merge.source, rows, source_rows))
        return AffectedRows(rows, clauses, source_rows).take(np.flatnonzero(clauses >= 0))

    def unmatched(self, target: pa.RecordBatch, rows: RowNumbers) -> AffectedRows:
        """Those rows of the target, all without a match, to which a clause applies."""
        clauses = choose(self._merge.not_matched_by_source, Pairs(target, None, rows))
        applies = np.flatnonzero(clauses >= 0)
        numbers = clauses[applies] + len(self._merge.matched)
        return AffectedRows(rows[applies], numbers, np.full(len(applies), -1, np.int64))


def ambiguous(target: pa.RecordBatch, sources: pa.RecordBatch, count: int, row: int) -> InvalidDataError:
    """The error for a row of the target that `count` source rows would change: some of them, and the second's
    number."""
    names = [name for name in target.schema.names if name != ROW_POSITION.name]
    shown = "; ".join(format_row(sources, number, sources.schema.names) for number in range(sources.num_rows))
    return InvalidDataError(
        f"the row of the target with {format_row(target, 0, names)} is matched by {count} rows of the source, so its "
        f"new values are ambiguous: {shown}; keep one row in the source for each row of the target, or distinguish "
        "them in a condition",
        row=row,
    )
