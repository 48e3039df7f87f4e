"""Partition values: the strings of the log as typed columns, and typed values as strings."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError, InvalidDataError
from lakeport.kernel.arrays import array_of, scalar_of, take_or_null, to_mask
from lakeport.kernel.decimals import EXACT
from lakeport.kernel.schema import PrimitiveType, StructField, arrow_type

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^<>|]")
"""What a directory of a partition must not have in its name; non-ASCII text stays."""
_FAR_DATE = re.compile(r"[+-]?\d{4,7}-\d\d-\d\d", re.ASCII)
_TIMES = ("date", "timestamp", "timestamp_ntz")
_DAY = 86_400_000_000
_MIDNIGHT = datetime(2000, 1, 1)


def parse_partition_values(texts: pa.Array, field: StructField, *, path: str) -> pa.Array:
    """A column of serialised values as a column of the field's type. Each distinct value is parsed once.

    Raises `CorruptTableError`, naming the table at `path`."""
    encoded = texts.dictionary_encode()
    values = [parse_partition_value(text, field, path=path) for text in encoded.dictionary.to_pylist()]
    return _values_array(values, arrow_type(field.type)).take(encoded.indices)


def partition_column(text: str | None, field: StructField, length: int, *, path: str) -> pa.Array:
    """A column that repeats one serialised value."""
    if not text:
        return pa.nulls(length, arrow_type(field.type))
    value = parse_partition_value(text, field, path=path)
    return pa.repeat(_values_array([value], arrow_type(field.type))[0], length)


def _values_array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if not any(type(value) is int for value in values) or not pa.types.is_temporal(data_type):
        return array_of(values, data_type)
    stored = pa.int32() if pa.types.is_date32(data_type) else pa.int64()
    near = array_of([None if type(value) is int else value for value in values], data_type).view(stored)
    far = array_of([value if type(value) is int else None for value in values], stored)
    return pc.coalesce(far, near).view(data_type)


def parse_partition_value(text: str | None, field: StructField, *, path: str) -> Any:
    """One value; the empty string is null for every type. Of years before 1 and after 9999, which Python's dates do not
    have, a number: days or microseconds since 1970, as Arrow stores them."""
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
    """One value, as `parse_partition_value` has it, as the log writes it; the empty string has no other form than null
    has."""
    if value is None or value == "":
        return None
    match value:
        case bool():
            return "true" if value else "false"
        case int() if isinstance(field.type, PrimitiveType) and field.type.name in _TIMES:
            return _format_far(value, field.type.name)
        case float():
            return _format_double(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return _format_binary(value, field.name)
        case datetime():
            text = value.isoformat(sep="T" if value.tzinfo else " ", timespec="auto")
            return text.replace("+00:00", "Z")
    return str(value)


def _format_double(value: float) -> str:
    if value - value != 0:  # not finite
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _format_far(stored: int, kind: str) -> str:
    """A date or a time of a year before 1 or after 9999, with the sign that ISO 8601 asks for."""
    moment = np.datetime64(stored if kind == "date" else stored // _DAY, "D")
    year = int(moment.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    day = f"{sign}{abs(year):04}{str(moment)[-6:]}"
    if kind == "date":
        return day
    time = (_MIDNIGHT + timedelta(microseconds=stored % _DAY)).time().isoformat(timespec="auto")
    return f"{day}T{time}Z" if kind == "timestamp" else f"{day} {time}"


def _format_binary(value: bytes, column: str) -> str:
    try:
        return value.decode()
    except UnicodeError:
        raise InvalidDataError(
            f"the partition column {column!r} has bytes that are no UTF-8 text, which the log cannot hold: "
            f"{value[:20]!r}",
            column=column,
        ) from None


def partition_directory(values: Mapping[str, str | None]) -> str:
    """The directory of a partition as Hive and Spark name it: `day=2026-01-01/region=a%3Ab`, as plain text."""
    return "/".join(f"{_escape(name)}={_escape(value or _HIVE_NULL)}" for name, value in values.items())


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def constant_column(value: Any, data_type: pa.DataType, length: int) -> pa.Array:
    """A column that repeats one value."""
    if value is None:
        return pa.nulls(length, data_type)
    return pa.repeat(scalar_of(value, data_type), length)


def compact_partitions(values: pa.MapArray) -> pa.StructArray:
    """Serialised values as a struct of every key that occurs, each distinct value kept once."""
    keys = [key for key in pc.unique(values.keys).to_pylist() if key is not None]
    columns = [_lookup(values, key).dictionary_encode() for key in keys]
    return pa.StructArray.from_arrays(columns, names=keys) if keys else pa.nulls(len(values))


def partition_struct(values: pa.Array | None, names: tuple[str, ...], length: int) -> pa.StructArray:
    """The serialised values of `names` as a struct, from maps or from what `compact_partitions` made of them."""
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
    """The value of a key in each map. (Arrow's map_lookup goes row by row, and takes ten times as long.)"""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    found = np.flatnonzero(to_mask(pc.equal(values.keys, scalar_of(key, pa.string()))))
    found = found[(found >= offsets[0]) & (found < offsets[-1])]
    entry = np.full(len(values), -1, np.int64)
    entry[(np.searchsorted(offsets, found, side="right") - 1)[::-1]] = found[::-1]  # of a repeated key, the first
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


def _parse_date(text: str) -> date | int:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _days(text)


def _days(text: str) -> int:
    """Days since 1970, of any year. Raises `ValueError`."""
    if not _FAR_DATE.fullmatch(text):
        raise ValueError(text)
    days = int(np.datetime64(text, "D").astype(np.int64))
    if not -(1 << 31) <= days < 1 << 31:
        raise OverflowError(text)
    return days


def _parse_timestamp(text: str) -> datetime | int:
    try:
        moment = datetime.fromisoformat(_six_digits(text))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _microseconds(text, zoned=True)


def _parse_timestamp_ntz(text: str) -> datetime | int:
    try:
        return datetime.fromisoformat(_six_digits(text)).replace(tzinfo=None)
    except ValueError:
        return _microseconds(text, zoned=False)


def _microseconds(text: str, *, zoned: bool) -> int:
    """Microseconds since 1970, of any year. Raises `ValueError` and `OverflowError`."""
    day, _, rest = text.replace(" ", "T", 1).partition("T")
    time = datetime.fromisoformat(_six_digits(f"{_MIDNIGHT.date()}T{rest or '00'}"))
    time = time.replace(tzinfo=None) if not zoned or time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    stored = _days(day) * _DAY + (time - _MIDNIGHT) // timedelta(microseconds=1)
    if not -(1 << 63) <= stored < 1 << 63:
        raise OverflowError(text)
    return stored


def _six_digits(text: str) -> str:
    """Cuts a fraction of a second to microseconds."""
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
