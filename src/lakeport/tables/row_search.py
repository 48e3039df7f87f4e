"""Which rows of a table's files satisfy a condition: only the columns that it names are read, several files at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.engine.reading import RowReader, in_order
from lakeport.kernel.arrays import to_integers
from lakeport.kernel.expressions import Expression, columns_in, replace_now
from lakeport.kernel.scan import Scan
from lakeport.kernel.scan_files import ROW_POSITION, ScanFile
from lakeport.kernel.schema import arrow_field
from lakeport.kernel.snapshot import Snapshot
from lakeport.kernel.sql import parse_filter
from lakeport.kernel.transaction import Transaction

Positions = npt.NDArray[np.uint64]
"""Positions of rows in a file, strictly ascending."""

READERS = pa.cpu_count() + 1
"""How many files are read at once: one more than there are cores, so that none waits while a file is taken."""


@dataclass(frozen=True, eq=False)
class FoundRows:
    """Rows of a file: those at the positions; where they are None, every row that is not deleted."""

    file: ScanFile
    positions: Positions | None


def parse_condition(where: str | Expression | None, now: int) -> Expression | None:
    """The condition that a person gave as SQL text or as an expression, at one time in milliseconds since the epoch.

    Raises `InvalidFilterError` for text that does not parse, `ValueError` for what is neither."""
    if where is None:
        return None
    parsed = parse_filter(where) if isinstance(where, str) else where
    if not isinstance(parsed, Expression):
        raise ValueError(f"a condition is SQL text or an expression, not {type(where).__name__}")
    return replace_now(parsed, now)


def find_rows(transaction: Transaction, snapshot: Snapshot, condition: Expression | None) -> Iterator[FoundRows]:
    """The files in which rows satisfy the condition; the transaction has then read what the condition selects.

    Where partition values alone decide, no file is opened. Rows for which the condition is null are not found.
    Raises `InvalidFilterError` and `UnknownColumnError`."""
    builder = snapshot.scan_builder().with_log_details()
    scan = (builder if condition is None else builder.with_filter(condition)).build()
    files = transaction.plan(scan)
    if scan.remaining_filter is None:
        return (FoundRows(file, None) for file in files)
    reader = _position_reader(scan)
    return in_order(files, lambda file: _found_in(transaction, reader, file), READERS)


def _position_reader(scan: Scan) -> RowReader:
    assert scan.filter is not None
    assert scan.remaining_filter is not None
    schema = scan.snapshot.schema
    columns = schema.select(column.path for column in columns_in(scan.remaining_filter))
    narrow = scan.snapshot.scan_builder().with_filter(scan.filter).with_read_schema(columns).with_row_position()
    return RowReader.for_scan(narrow.build(), pa.schema([arrow_field(ROW_POSITION)]))


def _found_in(transaction: Transaction, reader: RowReader, file: ScanFile) -> Iterator[FoundRows]:
    parts = [to_integers(batch.column(0)) for batch in reader.read(transaction.engine, file)]
    if parts:
        yield FoundRows(file, np.concatenate(parts).astype(np.uint64))
