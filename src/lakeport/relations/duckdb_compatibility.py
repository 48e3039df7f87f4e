"""How data files store the columns of a scan, from their footers: whether DuckDB reads them as the kernel does.

DuckDB casts whatever it can and reads Java's old calendar as today's; the kernel does neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from lakeport.engine.parquet import read_footer
from lakeport.kernel.engine import FIELD_ID
from lakeport.kernel.values import is_bytes, is_text

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_SPARK = b"org.apache.spark."
_GREGORIAN_SINCE = b"3.1.0"
"""Earlier versions of Spark always wrote some dates or timestamps in Java's old calendar."""
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_BYTES = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_VIRTUAL = frozenset({"filename", "file_index", "file_row_number"})
"""Columns that DuckDB adds to those of files, unless files have such a name."""
_BITS_IN_DOUBLE = 32
"""Integers up to this width are exact as doubles."""


class DuckDBMismatchError(Exception):
    """DuckDB might return different rows from the kernel. The message gives the reason."""


class Zone(Enum):
    """How files store the timestamps of a column."""

    UTC = "as moments"
    LOCAL = "without a zone, although they are in UTC"


@dataclass(frozen=True)
class Layout:
    """The columns of some data files."""

    by_name: Mapping[str, pa.Field]
    """By names in lower case."""
    by_id: Mapping[bytes | None, pa.Field]
    int96: frozenset[str]
    """Top-level columns of that Parquet type, whose Arrow type is a timestamp in nanoseconds."""
    constant: frozenset[str]
    """The Parquet columns of `_constant_columns`."""

    def is_constant(self, column: pa.Field) -> bool:
        """Whether DuckDB may mistake values in this column or its fields for nulls."""
        stored = self._stored(column)
        return stored is not None and any(f"{path}.".startswith(f"{stored.name}.") for path in self.constant)

    def zone_of(self, column: pa.Field) -> Zone | None:
        """How the files store a column's timestamps; None if they do not have any. Raises `DuckDBMismatchError`."""
        stored = self._stored(column)
        if stored is None:
            if not column.nullable:
                raise DuckDBMismatchError(f"the required column {column.name!r} is missing from a file")
            return None
        source = pa.timestamp("us") if stored.name in self.int96 else stored.type
        if not _reads_exactly(source, column.type):
            raise DuckDBMismatchError(f"the column {column.name!r} is stored as {source} and read as {column.type}")
        if not types.is_timestamp(column.type) or column.type.tz is None:
            return None
        return Zone.LOCAL if source.tz is None else Zone.UTC

    def names_of(self, columns: Sequence[pa.Field]) -> list[str] | None:
        """The names of the columns in the files, if DuckDB can read them as they are: in the same types."""
        stored = [self._stored(column) for column in columns]
        names = [f.name for f, column in zip(stored, columns, strict=True) if f is not None and f.type == column.type]
        return names if len(names) == len(columns) and _VIRTUAL.isdisjoint(self.by_name) else None

    def _stored(self, column: pa.Field) -> pa.Field | None:
        field_id = (column.metadata or {}).get(FIELD_ID)
        return self.by_name.get(column.name.lower()) if field_id is None else self.by_id.get(field_id)


def layouts_of(paths: Iterable[str], *, with_times: bool) -> list[Layout]:
    """The layouts of the files, one for each schema.

    Raises `DuckDBMismatchError` if a footer cannot be read or, with times, if a file may have some in the old
    calendar."""
    found: list[tuple[pq.ParquetSchema, set[str]]] = []
    for path in paths:
        footer = _footer(path)
        if with_times and _may_be_legacy(footer.metadata or {}):
            raise DuckDBMismatchError("a file may hold dates in Java's old calendar")
        constant = next((known for schema, known in reversed(found) if footer.schema.equals(schema)), None)
        if constant is None:
            found.append((footer.schema, constant := set()))
        constant.update(_constant_columns(footer))
    return [_layout(schema, frozenset(constant)) for schema, constant in found]


def _footer(path: str) -> pq.FileMetaData:
    try:
        return read_footer(path)
    except (OSError, pa.ArrowException) as error:
        raise DuckDBMismatchError(str(error)) from error


def _constant_columns(footer: pq.FileMetaData) -> Iterator[str]:
    """Text and binary columns that have a row group with nulls and one distinct value, by its statistics. There, DuckDB
    2.0 returns every row for IS NULL, unless the chunk has a dictionary."""
    columns = [footer.schema.column(index) for index in range(len(footer.schema))]
    texts = [(i, column.path) for i, column in enumerate(columns) if column.physical_type in _BYTES]
    for group in map(footer.row_group, range(footer.num_row_groups)):
        yield from (path for index, path in texts if _is_constant(group.column(index)))


def _is_constant(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    if statistics is None or (statistics.has_null_count and statistics.null_count in (0, chunk.num_values)):
        return False
    return not statistics.has_min_max or bool(statistics.min_raw == statistics.max_raw)


def _may_be_legacy(metadata: dict[bytes, bytes]) -> bool:
    version = metadata.get(_SPARK + b"version", _GREGORIAN_SINCE)
    return version < _GREGORIAN_SINCE or any(key.startswith(_SPARK + b"legacy") for key in metadata)


def _layout(schema: pq.ParquetSchema, constant: frozenset[str]) -> Layout:
    fields = list(schema.to_arrow_schema())
    by_name = {field.name.lower(): field for field in fields}
    if len(by_name) < len(fields):
        raise DuckDBMismatchError("a file has columns whose names differ only in case")
    by_id = {(field.metadata or {}).get(FIELD_ID): field for field in fields}
    leaves = (schema.column(index) for index in range(len(schema)))
    int96 = frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96")
    return Layout(by_name, by_id, int96, constant)


def _reads_exactly(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether DuckDB casts the type as the kernel does, without an error."""
    if types.is_dictionary(source):
        return _reads_exactly(source.value_type, target)
    if types.is_nested(target):
        return _same_parts(source, target)
    if types.is_timestamp(source):
        return source.unit != "ns" and types.is_timestamp(target) and (target.tz is not None or source.tz is None)
    if types.is_integer(source):
        return _holds_integers(source, target)
    if types.is_decimal(source) and types.is_decimal(target):
        return bool(target.precision - source.precision >= target.scale - source.scale >= 0)
    if types.is_float32(source):
        return bool(types.is_float32(target) or types.is_float64(target))
    if types.is_date32(source):
        return bool(types.is_date32(target) or (types.is_timestamp(target) and target.tz is None))
    if types.is_string(target) or types.is_binary(target):
        return is_text(source) if types.is_string(target) else is_bytes(source)
    return bool(source == target)


def _holds_integers(source: pa.DataType, target: pa.DataType) -> bool:
    if types.is_signed_integer(target):
        return bool(source.bit_width + types.is_unsigned_integer(source) <= target.bit_width)
    if types.is_decimal(target):
        return bool(target.precision - target.scale >= _INTEGER_DIGITS[source.bit_width])
    return bool(types.is_float64(target) and source.bit_width <= _BITS_IN_DOUBLE)


def _same_parts(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a nested type is stored exactly as it is read."""
    if types.is_struct(target):
        return types.is_struct(source) and len(source) == len(target) and all(map(_same_part, source, target))
    if types.is_map(target):
        return (
            types.is_map(source)
            and _same_leaf(source.key_type, target.key_type)
            and _same_leaf(source.item_type, target.item_type)
        )
    return (types.is_list(source) or types.is_large_list(source)) and _same_leaf(source.value_type, target.value_type)


def _same_part(source: pa.Field, target: pa.Field) -> bool:
    return bool(source.name == target.name) and _same_leaf(source.type, target.type)


def _same_leaf(source: pa.DataType, target: pa.DataType) -> bool:
    if types.is_nested(target):
        return _same_parts(source, target)
    is_moment = types.is_timestamp(source) and types.is_timestamp(target)
    if is_moment:
        return bool(source.unit != "ns" and (source.tz is None) == (target.tz is None))
    return bool(source == target)
