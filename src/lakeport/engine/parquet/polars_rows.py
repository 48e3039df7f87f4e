"""Read filtered rows with Polars, which decodes only the rows that pass the filter; pyarrow decodes all.

The Polars filter keeps every row that the original keeps, and maybe more. Polars orders NaN, so rows with NaN are
always kept. Polars reads only types that it returns exactly. If it fails, pyarrow reads the rows again, so errors are
the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from importlib.util import find_spec
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from lakeport.engine.expressions.literals import fits
from lakeport.engine.parquet.batch_size import BatchSize
from lakeport.engine.parquet.row_filter import FoundRows
from lakeport.engine.parquet.row_groups import SMALL, RowGroups
from lakeport.kernel.data_files import conform
from lakeport.kernel.engine import AS_STORED, FIELD_ID, ROW_INDEX, FileStatus
from lakeport.kernel.expressions import (
    And,
    Column,
    CompareOp,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from lakeport.kernel.values import array_of

if TYPE_CHECKING:
    import polars as pl

_PROCESS = os.getpid()
"""Polars hangs in a process that was forked after it had started its threads."""
_WORTH_IMPORTING = 150 << 20
"""Bytes of files: from here on, importing Polars takes less time than it saves."""
_KINDS = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(),
}  # fmt: skip
_MOST_AT_ONCE = 64 << 20
"""Bytes that a consumer of batches may have decoded in one piece; the filter may leave them all."""
_LITERALS = bool | int | str | float | Decimal | date  # dates and timestamps of Python's years
_OPERATORS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "<=>": eq}
_MOST_VALUES = 100
"""Of an IN list; a longer one is slower than a filter that all rows pass."""


def uses_polars(files: Iterable[FileStatus]) -> bool:
    """Whether to leave filtered files to Polars: not small ones, if the program has loaded Polars or if they are worth
    importing it."""
    sizes = [file.size for file in files if file.size > SMALL]
    if "polars" in sys.modules:
        return bool(sizes and sys.modules["polars"]) and os.getpid() == _PROCESS
    return sum(sizes) >= _WORTH_IMPORTING and find_spec("polars") is not None


def load_polars(files: Iterable[FileStatus]) -> None:
    """Import Polars before the files are filtered, if it is to be used: one file alone may not be worth it."""
    if uses_polars(files):
        import polars  # noqa: F401


@dataclass(frozen=True)
class PolarsRows:
    """Reads the rows that a filter leaves with Polars."""

    filter: pl.Expr

    @classmethod
    def of(cls, predicate: Expression, schema: pa.Schema) -> PolarsRows | None:
        """None for columns that Polars may not return exactly, and for filters that it does not know."""
        if not all(map(_is_exact, schema)):
            return None
        translated = _translated(predicate, {field.name: field.type for field in schema})
        return None if translated is None else cls(translated)

    def rows(self, groups: RowGroups, schema: pa.Schema, size: BatchSize) -> FoundRows | None:
        if groups.rows > size.rows and groups.size > _MOST_AT_ONCE:
            return None
        if size.bytes is not None and groups.about_bytes(schema) > 2 * size.bytes:
            return None
        if groups.calendar is not None or not _is_stored(groups, schema):
            return None
        source = groups.path if groups.is_local else groups.file.image(groups.numbers, schema.names)
        if source is None:
            return None
        from polars.exceptions import PanicException

        try:
            return self._read(source, groups, schema)
        except (Exception, PanicException):  # pyarrow reads it or explains what is wrong
            return None

    def _read(self, source: str | bytes, groups: RowGroups, schema: pa.Schema) -> FoundRows:
        import polars as pl

        scan = pl.scan_parquet(
            source, row_index_name=ROW_INDEX.name, use_statistics=False, hive_partitioning=False, glob=False,
            cache=False,
        )  # fmt: skip
        if len(groups.numbers) < groups.file.metadata.num_row_groups:
            scan = scan.slice(groups.start, groups.rows)
        found = scan.filter(self.filter).select(*schema.names, ROW_INDEX.name).collect()
        table = found.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
        (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return iter([conform(batch, schema, path=groups.path)]), found[ROW_INDEX.name].to_numpy().astype("int64")


def _is_exact(field: pa.Field) -> bool:
    metadata, kind = field.metadata or {}, field.type
    if FIELD_ID in metadata or AS_STORED in metadata or field.name.startswith(("^", "*")):  # patterns of names
        return False
    is_moment = types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC")
    return bool(is_moment or kind in _KINDS or types.is_decimal128(kind))


def _is_stored(groups: RowGroups, schema: pa.Schema) -> bool:
    """Whether the file has every column under its name, in its type, and no other kind of timestamp."""
    stored, parquet = groups.file.schema_arrow, groups.file.schema
    by_name = {parquet.column(index).path: parquet.column(index) for index in range(len(parquet))}
    return (
        all(
            stored.names.count(field.name) == 1
            and stored.field(field.name).type == field.type
            and by_name[field.name].physical_type != "INT96"
            for field in schema
        )
        and ROW_INDEX.name not in stored.names
    )


def _translated(predicate: Expression, kinds: dict[str, pa.DataType]) -> pl.Expr | None:
    """The filter, or one that more rows pass; None for one that all pass."""
    match predicate:
        case And(left, right):
            parts = [part for side in (left, right) if (part := _translated(side, kinds)) is not None]
            return reduce(and_, parts) if parts else None
        case Or(left, right):
            first, second = _translated(left, kinds), _translated(right, kinds)
            return None if first is None or second is None else first | second
        case IsNull(Column((name,))) if name in kinds:
            return _column(name).is_null()
        case Not(IsNull(Column((name,)))) if name in kinds:
            return _column(name).is_not_null()
        case Comparison(op, Column((name,)), Literal(value)) if name in kinds:
            return _compared(op, name, value, kinds[name])
        case In(Column((name,)), values) if name in kinds and len(values) <= _MOST_VALUES:
            equal = [_compared("=", name, v.value if isinstance(v, Literal) else None, kinds[name]) for v in values]
            known = [part for part in equal if part is not None]
            return reduce(or_, known) if known and len(known) == len(equal) else None
    return None


def _compared(op: CompareOp, name: str, value: Any, kind: pa.DataType) -> pl.Expr | None:
    if not isinstance(value, _LITERALS) or not fits(value, kind):
        return None
    import polars as pl

    column, literal = pl.col(name), pl.lit(value, dtype=pl.Series(array_of([], kind)).dtype)
    compared: pl.Expr = _OPERATORS[op](column, literal)
    return compared | column.is_nan() if types.is_floating(kind) else compared


def _column(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name)
