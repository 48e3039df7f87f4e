"""Find the rows of a table's files that satisfy a condition, and count the rows of a file.

Reads only the condition's columns, several files in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from lakeport.kernel.data_files import decode_num_records
from lakeport.kernel.engine import ROW_INDEX, Engine, FileSplit
from lakeport.kernel.expressions import Expression, columns_in, format_expression, parse_filter, replace_now
from lakeport.kernel.scan import Scan, ScanFile
from lakeport.kernel.schema import ROW_POSITION, arrow_field
from lakeport.kernel.transaction import Transaction
from lakeport.kernel.values import to_integers
from lakeport.tables.operation import snapshot_of
from lakeport.tables.rows.output import Positions
from lakeport.workers import ThreadWorkers, Workers, Workplace
from lakeport.workers.ordered import in_order
from lakeport.workers.reading import RowReader


def parse_condition(where: str | Expression | None, now: int) -> Expression | None:
    """Parse a condition given as SQL text or an expression; `now` is its current time in milliseconds since the epoch.

    Raises `InvalidFilterError` for text that does not parse, `ValueError` for anything else."""
    if where is None:
        return None
    parsed = parse_filter(where) if isinstance(where, str) else where
    if not isinstance(parsed, Expression):
        raise ValueError(f"a condition must be SQL text or an expression, not {type(where).__name__}")
    return replace_now(parsed, now)


def format_condition(condition: str | Expression) -> str:
    """A condition as recorded in a table's history."""
    return condition if isinstance(condition, str) else format_expression(condition)


def find_rows(
    transaction: Transaction, condition: Expression | None, workers: Workers | None = None
) -> Iterator[tuple[ScanFile, Positions | None]]:
    """The rows to change: those that satisfy the condition, by file and position; None means every row not deleted.
    Records the condition as read by the transaction.

    Opens no file if partition values alone decide. Rows for which the condition is null are not found. Raises
    `InvalidFilterError` and `UnknownColumnError`, and `UnsupportedFeatureError` for an append-only table."""
    transaction.check_rows_may_change()
    builder = snapshot_of(transaction).scan_builder().with_log_details()
    scan = (builder if condition is None else builder.with_filter(condition)).build()
    files = transaction.plan(scan)
    if scan.remaining_filter is None:
        return ((file, None) for file in files)
    positions = _Search(_position_reader(scan)).run(workers or ThreadWorkers(transaction.engine), files)
    return ((file, rows) for file, rows in zip(files, positions, strict=True) if len(rows))


def _position_reader(scan: Scan) -> RowReader:
    assert scan.filter is not None
    assert scan.remaining_filter is not None
    schema = scan.snapshot.schema
    columns = schema.select(column.path for column in columns_in(scan.remaining_filter))
    narrow = scan.snapshot.scan_builder().with_filter(scan.filter).with_read_schema(columns).with_row_position()
    return RowReader.for_scan(narrow.build(), pa.schema([arrow_field(ROW_POSITION)]))


@dataclass(frozen=True)
class _Search:
    """A task: the matching rows of a file."""

    reader: RowReader

    def __call__(self, place: Workplace, file: ScanFile) -> Positions:
        parts = [to_integers(batch.column(0)) for batch in self.reader.read(place.engine, file)]
        return np.concatenate(parts).astype(np.uint64) if parts else np.zeros(0, np.uint64)

    def run(self, workers: Workers, files: Sequence[ScanFile]) -> Iterator[Positions]:
        """The rows of each file, in order. In this process, more files are fetched than there are threads."""
        place = workers.here
        if place is None:
            return workers.map(self, files)

        def found_in(file: ScanFile) -> Iterator[Positions]:
            yield self(place, file)

        return in_order(files, found_in, place.threads, self.reader.weight)


def counted(engine: Engine, file: ScanFile) -> ScanFile:
    """The file with `numRecords` in its statistics: from the log, or counted in the file."""
    if decode_num_records(file.stats) is not None:
        return file
    batches = engine.parquet.read_parquet_files([FileSplit(file.status)], pa.schema([ROW_INDEX]))
    count = {"numRecords": sum(batch.num_rows for batch in batches)}
    return msgspec.structs.replace(file, stats=msgspec.json.encode(_decode_object(file.stats) | count).decode())


def count_rows(place: Workplace, file: ScanFile) -> ScanFile:
    """`counted` as a task."""
    return counted(place.engine, file)


def _decode_object(stats: str | None) -> dict[str, Any]:
    """Keep values as raw text, so decimals keep their digits. Empty for invalid statistics."""
    try:
        return msgspec.json.decode(stats, type=dict[str, msgspec.Raw]) if stats else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
