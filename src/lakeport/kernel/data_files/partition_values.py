"""Convert partition values between the log's strings and typed values."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError, InvalidDataError
from lakeport.kernel.schema import PrimitiveType, StructField, arrow_type
from lakeport.kernel.values import (
    EXACT,
    Day,
    FarTime,
    Moment,
    array_of,
    day_of,
    microseconds_of,
    moment_at,
    scalar_of,
    take_or_null,
    to_mask,
    utc_text,
)

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^<>|]")
"""Characters escaped in names of partition directories; non-ASCII text is kept."""
_FAR_DATE = re.compile(r"([+-]?\d{4,7})-(\d\d)-(\d\d)", re.ASCII)


def parse_partition_values(texts: pa.Array, field: StructField, *, path: str) -> pa.Array:
    """Parse a column of serialised values to the field's type. Parses each distinct value once.

    Raises `CorruptTableError` naming the table at `path`."""
    encoded = texts.dictionary_encode()
    values = [parse_partition_value(text, field, path=path) for text in encoded.dictionary.to_pylist()]
    return array_of(values, arrow_type(field.type)).take(encoded.indices)


def partition_column(text: str | None, field: StructField, length: int, *, path: str) -> pa.Array:
    """A column that repeats one serialised value."""
    if not text:
        return pa.nulls(length, arrow_type(field.type))
    value = parse_partition_value(text, field, path=path)
    return pa.repeat(scalar_of(value, arrow_type(field.type)), length)


def parse_partition_value(text: str | None, field: StructField, *, path: str) -> Any:
    """Parse one value; the empty string is null for every type. Raises `CorruptTableError`."""
    if not text:
        return None
    name = field.type.name if isinstance(field.type, PrimitiveType) else ""
    parse = _parse_decimal(field.type) if name.startswith("decimal") else _PARSERS.get(name)
    if parse is None:
        raise CorruptTableError(f"the column {field.name!r} cannot be a partition column: it is {name}", path=path)
    try:
        return parse(text)
    except (ValueError, InvalidOperation, OverflowError, KeyError) as error:
        raise CorruptTableError(
            f"{text!r} is not a {name} value of partition column {field.name!r}", path=path
        ) from error


def format_partition_value(value: Any, field: StructField) -> str | None:
    """Serialise one value for the log, the inverse of `parse_partition_value`; the empty string has the same form as
    null."""
    if value is None or value == "":
        return None
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _format_double(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return _format_binary(value, field.name)
        case datetime() | FarTime() if value.tzinfo is not None:
            return utc_text(value)
    return str(value)


def _format_double(value: float) -> str:
    if value - value != 0:  # not finite
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _format_binary(value: bytes, column: str) -> str:
    try:
        return value.decode()
    except UnicodeError:
        raise InvalidDataError(
            f"the partition column {column!r} has bytes that are not UTF-8 text, which the log cannot store: "
            f"{value[:20]!r}",
            column=column,
        ) from None


def partition_directory(values: Mapping[str, str | None]) -> str:
    """A partition's directory as named by Hive and Spark: `day=2026-01-01/region=a%3Ab`, as plain text."""
    return "/".join(f"{_escape(name)}={_escape(value or _HIVE_NULL)}" for name, value in values.items())


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def constant_column(value: Any, data_type: pa.DataType, length: int) -> pa.Array:
    """A column that repeats one value."""
    if value is None:
        return pa.nulls(length, data_type)
    return pa.repeat(scalar_of(value, data_type), length)


def compact_partitions(values: pa.MapArray) -> pa.StructArray:
    """Serialised values as a struct of all keys that occur, storing each distinct value once."""
    keys = [key for key in pc.unique(values.keys).to_pylist() if key is not None]
    columns = [_lookup(values, key).dictionary_encode() for key in keys]
    return pa.StructArray.from_arrays(columns, names=keys) if keys else pa.nulls(len(values))


def partition_struct(values: pa.Array | None, names: tuple[str, ...], length: int) -> pa.StructArray:
    """The serialised values of `names` as a struct, from maps or from the output of `compact_partitions`."""
    columns = []
    for name in names:
        if values is None or pa.types.is_null(values.type):
            column = pa.nulls(length, pa.string())
        elif pa.types.is_map(values.type):
            column = _lookup(values, name)
        else:
            index = values.type.get_field_index(name)
            column = values.field(index).dictionary_decode() if index >= 0 else pa.nulls(length, pa.string())
        columns.append(column)
    fields = [pa.field(name, pa.string()) for name in names]
    return pa.Array.from_buffers(pa.struct(fields), length, [None], children=columns)


def _lookup(values: pa.MapArray, key: str) -> pa.Array:
    """The value of a key in each map. (Arrow's map_lookup works row by row and takes ten times as long.)"""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    found = np.flatnonzero(to_mask(pc.equal(values.keys, scalar_of(key, pa.string()))))
    found = found[(found >= offsets[0]) & (found < offsets[-1])]
    entry = np.full(len(values), -1, np.int64)
    entry[(np.searchsorted(offsets, found, side="right") - 1)[::-1]] = found[::-1]  # the first of a repeated key
    first = int(offsets[0])
    if len(values) == len(values.items) - first and np.array_equal(entry, np.arange(first, first + len(values))):
        return values.items.slice(first).cast(pa.string())
    return take_or_null(values.items, entry).cast(pa.string())


def _parse_integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise OverflowError(text)
        return value

    return parse


def _parse_decimal(data_type: Any) -> Callable[[str], Decimal]:
    precision, scale = data_type.decimal

    def parse(text: str) -> Decimal:
        number = Decimal(text)
        exact = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
        if exact != number or exact.copy_abs() >= 10 ** (precision - scale):
            raise ValueError(text)
        return exact

    return parse


def _parse_double(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def _parse_single(text: str) -> float:
    value = _parse_double(text)
    struct.pack("<f", value)  # raises OverflowError
    return value


def _parse_date(text: str) -> Day:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _parse_far_date(text)


def _parse_far_date(text: str) -> Day:
    match = _FAR_DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return day_of(*map(int, match.groups()))


def _parse_timestamp(text: str) -> Moment:
    try:
        moment = datetime.fromisoformat(_six_digits(text))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _parse_far_time(text, UTC)


def _parse_timestamp_ntz(text: str) -> Moment:
    try:
        return datetime.fromisoformat(_six_digits(text)).replace(tzinfo=None)
    except ValueError:
        return _parse_far_time(text, None)


def _parse_far_time(text: str, zone: timezone | None) -> Moment:
    day, _, rest = text.replace(" ", "T", 1).partition("T")
    clock = datetime.fromisoformat(_six_digits(f"1970-01-01T{rest or '00'}"))
    since_midnight = microseconds_of(clock if zone else clock.replace(tzinfo=None))
    return moment_at(microseconds_of(_parse_far_date(day)) + since_midnight, zone)


def _six_digits(text: str) -> str:
    """Truncate a fraction of a second to microseconds."""
    head, dot, tail = text.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[: min(digits, 6)]}{tail[digits:]}" if dot else text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "string": str,
    "long": _parse_integer(64),
    "integer": _parse_integer(32),
    "short": _parse_integer(16),
    "byte": _parse_integer(8),
    "float": _parse_single,
    "double": _parse_double,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    "binary": str.encode,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}
