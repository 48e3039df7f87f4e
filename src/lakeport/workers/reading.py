"""Read the rows of a scan on this machine: several files at once, results in order, memory bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import MissingFileError
from lakeport.kernel.changes import ChangeFile, ChangeScan, ChangeState, transform_change_data
from lakeport.kernel.data_files import conform
from lakeport.kernel.engine import Engine, FileSplit
from lakeport.kernel.expressions import Expression
from lakeport.kernel.scan import FilteredBatch, Scan, ScanFile, ScanState, transform_physical_data
from lakeport.locations import is_url
from lakeport.workers.memory import arrow_pool_for
from lakeport.workers.ordered import MOST_WAITED_FOR, in_order

_ToRows = Callable[[Iterable[pa.RecordBatch]], Iterator[FilteredBatch]]
_WHOLE = 1 << 20
"""Row groups rarely have more rows."""


@dataclass(frozen=True)
class RowReader:
    """Reads files of a scan, of rows or of changes, into filtered rows of `output`. Picklable, so it can be sent to a
    worker."""

    state: ScanState | ChangeState
    output: pa.Schema
    filter: Expression | None = None
    """The filter on the rows, in logical names."""
    physical_filter: Expression | None = None
    """The same filter for the Parquet handler, in physical names."""
    share: float = 1.0
    """About the fraction of a file that is read, by its columns."""

    @classmethod
    def for_scan(cls, scan: Scan | ChangeScan, output: pa.Schema | None = None) -> RowReader:
        state = scan.scan_state
        output = state.arrow_schema if output is None else output
        share = len(scan.schema.names) / max(1, len(scan.snapshot.schema.names)) if isinstance(scan, Scan) else 1.0
        return cls(state, output, scan.remaining_filter, scan.physical_filter, share)

    def read(
        self, engine: Engine, file: ScanFile | ChangeFile, split: FileSplit | None = None, batch_size: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file or a split of it. Raises `MissingFileError` if the file or its deletion vector is gone."""
        with reporting_vacuumed_files():
            yield from self._read(engine, file, split, batch_size)

    def weight(self, file: ScanFile | ChangeFile) -> int:
        """The weight of a file for `in_order`. A file on disk keeps a core busy; reading over a network is mostly
        waiting, so more files than cores can be in flight."""
        return int(file.size * self.share) if is_remote(file) else MOST_WAITED_FOR + 1

    def _read(
        self, engine: Engine, file: ScanFile | ChangeFile, split: FileSplit | None, batch_size: int | None
    ) -> Iterator[pa.RecordBatch]:
        def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            splits = [split or FileSplit(file.status)]
            return engine.parquet.read_parquet_files(splits, schema, self.physical_filter, batch_size)

        return self.rows_of(engine, file, read)

    def rows_of(
        self, engine: Engine, file: ScanFile | ChangeFile, read: Callable[[pa.Schema], Iterable[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file; `read` reads the columns of a schema from it."""
        select = None
        if self.filter is not None:
            select = engine.expressions.predicate_evaluator(self.state.arrow_schema, self.filter)
        schema, to_rows = self._physical(engine, file)
        for batch in to_rows(read(schema)):
            selection = batch.selection if select is None else select(batch.data, batch.selection)
            rows = batch.data if selection is None else _selected(batch.data, selection)
            if rows.num_rows:
                yield rows if rows.schema.equals(self.output) else conform(rows, self.output, path=file.path)

    def _physical(self, engine: Engine, file: ScanFile | ChangeFile) -> tuple[pa.Schema, _ToRows]:
        """The schema to read from a file, and the conversion to rows."""
        state = self.state
        if isinstance(state, ScanState) and isinstance(file, ScanFile):
            return state.physical_schema(file), partial(transform_physical_data, engine, state, file)
        if isinstance(state, ChangeState) and isinstance(file, ChangeFile):
            return state.physical_schema(file), partial(transform_change_data, engine, state, file)
        raise TypeError(f"a {type(file).__name__} cannot be read with a {type(state).__name__}")


def _selected(rows: pa.RecordBatch, selection: pa.BooleanArray) -> pa.RecordBatch:
    count = selection.true_count
    if count == len(selection):
        return rows
    size = rows.nbytes * count // len(selection) if count else 0
    return pc.filter(rows, selection, memory_pool=arrow_pool_for(size))


@contextmanager
def reporting_vacuumed_files() -> Iterator[None]:
    """Explain why a file of a table may be gone."""
    try:
        yield
    except MissingFileError as error:
        raise MissingFileError(
            "the file does not exist; it may have been vacuumed: read a later version", path=error.path
        ) from error


def read_rows(
    engine: Engine,
    reader: RowReader,
    files: Iterable[ScanFile | ChangeFile],
    batch_size: int | None = None,
    threads: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the files, in file order, reading `threads` files at once, in bounded memory."""

    def read_file(file: ScanFile | ChangeFile) -> Iterator[pa.RecordBatch]:
        return reader.read(engine, file, batch_size=batch_size)

    # One more file than cores, so that no core idles while a finished file is consumed.
    return in_order(files, read_file, threads or pa.cpu_count() + 1, None if threads else reader.weight)


def read_whole(engine: Engine, reader: RowReader, files: Sequence[ScanFile | ChangeFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, in file order, for a consumer that keeps them all. Batches are large, and any number of
    them may wait for the consumer."""

    def read_file(file: ScanFile | ChangeFile) -> Iterator[pa.RecordBatch]:
        return reader.read(engine, file, batch_size=_WHOLE)

    if any(map(is_remote, files)):
        return in_order(files, read_file, pa.cpu_count() + 1, reader.weight, bounded=False)
    return in_order(files, read_file, len(files), at_once=pa.cpu_count(), bounded=False)


def is_remote(file: ScanFile | ChangeFile) -> bool:
    """Whether the file is read over a network."""
    return is_url(file.path)
