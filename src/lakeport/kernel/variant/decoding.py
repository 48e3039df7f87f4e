"""Variants: values of any type in one column, each a pair of binary metadata (its keys) and binary value.

VariantEncoding.md of the Parquet format specifies the bytes. They come from files and are untrusted: every offset is
checked, and decoding takes time and memory proportional to the bytes.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from lakeport.errors import CorruptTableError
from lakeport.kernel.values import EXACT

NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = range(11)
DATE, TIMESTAMP, TIMESTAMP_NTZ, FLOAT, BINARY, STRING, TIME, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS, UUID = range(11, 21)
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
MAX_DECIMAL_DIGITS = 38

_VERSION = 1
_MAX_DEPTH = 500
"""Deeper values are rejected: Spark's JSON parser, where variants come from, stops at 1,000, Python's stack before."""

_SIZES = {NULL: 0, TRUE: 0, FALSE: 0, INT8: 1, INT16: 2, INT32: 4, INT64: 8, DOUBLE: 8, FLOAT: 4, DATE: 4, UUID: 16}
_SIZES |= dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ, TIME, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS), 8)
_SIZES |= {DECIMAL4: 5, DECIMAL8: 9, DECIMAL16: 17}
_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400_000_000

T = TypeVar("T")


def decode_variant(metadata: bytes, value: bytes, *, path: str = "") -> Any:
    """Decode to Python objects: dict, list, str, int, float, Decimal, bool, None, bytes, date, time, UUID, and
    datetime, in UTC or without a zone. Nanoseconds are truncated to microseconds.

    Raises `CorruptTableError` for damaged bytes, and for dates outside the years 1 to 9999.
    """
    return _read(metadata, value, _PythonBuilder(), path)


def format_variant_json(metadata: bytes, value: bytes, *, path: str = "") -> str:
    """Format as JSON like Spark's `to_json`, in UTC; NaN and infinities are bare words.

    Raises `CorruptTableError` like `decode_variant`.
    """
    return _read(metadata, value, _JsonBuilder(), path)


class _Builder(Protocol[T]):
    """Builds the decoded value. Scalars are passed raw: times as numbers, decimals as (unscaled, scale)."""

    def scalar(self, type_id: int, raw: Any) -> T: ...
    def array(self, items: list[T]) -> T: ...
    def object(self, items: dict[str, T]) -> T: ...


def _read(metadata: bytes, value: bytes, builder: _Builder[T], path: str) -> T:
    try:
        return _Reader(value, decode_keys(metadata), builder).read(0, len(value), 0)
    except (ValueError, OverflowError) as error:
        raise CorruptTableError(f"a variant is damaged: {error}", path=path) from error


class _Reader(Generic[T]):
    """One pass over a value.

    Offsets may point anywhere, so a few bytes could encode an endless tree; but in a sound value no byte belongs to
    two values. `_unread` counts down the remaining bytes, which bounds the pass.
    """

    def __init__(self, value: bytes, keys: Sequence[str], builder: _Builder[T]) -> None:
        self._value, self._keys, self._builder = value, keys, builder
        self._unread = len(value)

    def read(self, start: int, end: int, depth: int) -> T:
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
        basic_type = first_byte(self._value, start, end) & 3
        if basic_type < OBJECT:
            type_id, raw, size = _scalar(self._value, start, end)
            self._spend(size)
            return self._builder.scalar(type_id, raw)
        children = decode_children(self._value, start, end)
        self._spend(children.header_size)
        items = []
        for child in children.starts:
            items.append(self.read(child, children.end, depth + 1))
        if basic_type == ARRAY:
            return self._builder.array(items)
        return self._builder.object(named(children.ids, items, self._keys))

    def _spend(self, size: int) -> None:
        self._unread -= size
        if self._unread < 0:
            raise ValueError("values in it overlap")


class Children(NamedTuple):
    """Contents of an object or array: field ids (of an object), start of each value, and end of all values."""

    ids: list[int]
    starts: list[int]
    end: int
    header_size: int


def first_byte(value: bytes, start: int, end: int) -> int:
    if not 0 <= start < end <= len(value):
        raise ValueError(f"a value would start at byte {start} of {end}")
    return value[start]


def decode_children(value: bytes, start: int, end: int) -> Children:
    """The children of the object or array at `start`, all before `end`. Raises `ValueError`."""
    header = first_byte(value, start, end) >> 2
    is_object = value[start] & 3 == OBJECT
    offset_size = (header & 3) + 1
    id_size = (header >> 2 & 3) + 1 if is_object else 0
    count_size = 4 if header >> (4 if is_object else 2) & 1 else 1
    ids_at = start + 1 + count_size
    count = int.from_bytes(value[start + 1 : ids_at], "little")
    offsets_at = ids_at + count * id_size
    data_at = offsets_at + (count + 1) * offset_size
    if data_at > end:
        raise ValueError(f"an object or array of {count} values does not fit into {end - start} bytes")
    *offsets, size = _numbers(value, offsets_at, data_at, offset_size)
    if data_at + size > end:
        raise ValueError(f"{size} bytes of values do not fit into {end - data_at} bytes")
    ids = _numbers(value, ids_at, offsets_at, id_size) if is_object else []
    return Children(ids, [data_at + offset for offset in offsets], data_at + size, data_at - start)


def named(ids: list[int], items: Sequence[T], keys: Sequence[str]) -> dict[str, T]:
    """The fields of an object. Raises `ValueError` for an id without a key and for a duplicate key."""
    if ids and max(ids) >= len(keys):
        raise ValueError(f"a field has the id {max(ids)}, the metadata has {len(keys)} keys")
    fields = {keys[field_id]: item for field_id, item in zip(ids, items, strict=True)}
    if len(fields) != len(ids):
        raise ValueError("a key occurs twice in an object")
    return fields


def value_end(value: bytes, start: int, end: int) -> int:
    """Where the value at `start` ends. Raises `ValueError`."""
    if first_byte(value, start, end) & 3 >= OBJECT:
        return decode_children(value, start, end).end
    return start + _scalar(value, start, end)[2]


@lru_cache(maxsize=32)  # most rows of a file share their metadata
def decode_keys(metadata: bytes) -> tuple[str, ...]:
    """The keys in a variant's metadata, by field id. Raises `ValueError`."""
    offset_size, count = _metadata_header(metadata)
    bytes_at = 1 + offset_size * (count + 2)
    offsets = _numbers(metadata, 1 + offset_size, bytes_at, offset_size)
    if any(low > high for low, high in pairwise(offsets)):
        raise ValueError("the offsets of its keys do not ascend")
    if bytes_at + offsets[-1] > len(metadata):
        raise ValueError("its keys exceed its metadata")
    text = metadata[bytes_at:]
    return tuple(text[low:high].decode() for low, high in pairwise(offsets))


def _metadata_header(metadata: bytes) -> tuple[int, int]:
    """The offset size and the number of keys."""
    if not metadata or metadata[0] & 15 != _VERSION:
        raise ValueError(f"its metadata starts with {metadata[:1].hex() or 'nothing'}, not with version {_VERSION}")
    offset_size = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + offset_size], "little")
    if 1 + offset_size * (count + 2) > len(metadata):
        raise ValueError(f"{count} keys do not fit into {len(metadata)} bytes of metadata")
    return offset_size, count


def _numbers(data: bytes, start: int, end: int, size: int) -> list[int]:
    if size == 1:
        return list(data[start:end])
    return [int.from_bytes(data[at : at + size], "little") for at in range(start, end, size)]


def _scalar(value: bytes, start: int, end: int) -> tuple[int, Any, int]:
    """The type, raw value and size in bytes of a value that is neither object nor array."""
    header = value[start] >> 2
    data_at = start + 1
    if value[start] & 3 == SHORT_STRING:
        type_id, size = STRING, header
    elif header in (BINARY, STRING):
        type_id, size, data_at = header, int.from_bytes(value[data_at : data_at + 4], "little"), data_at + 4
    elif header in _SIZES:
        type_id, size = header, _SIZES[header]
    else:
        raise ValueError(f"there is no primitive type {header}")
    data = value[data_at : data_at + size]
    if data_at + size > end:
        raise ValueError(f"a value of {size} bytes does not fit into {max(end - data_at, 0)} bytes")
    return type_id, _RAW[type_id](data), data_at + size - start


def _raw_decimal(data: bytes) -> tuple[int, int]:
    if data[0] > MAX_DECIMAL_DIGITS:
        raise ValueError(f"a decimal has the scale {data[0]}")
    return _raw_int(data[1:]), data[0]


def _raw_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _raw_time(data: bytes) -> int:
    if not 0 <= (micros := _raw_int(data)) < _DAY:
        raise ValueError(f"a time of day has {micros} microseconds")
    return micros


_RAW: dict[int, Callable[[bytes], Any]] = {
    NULL: lambda _: None,
    TRUE: lambda _: True,
    FALSE: lambda _: False,
    DOUBLE: lambda data: struct.unpack("<d", data)[0],
    FLOAT: lambda data: struct.unpack("<f", data)[0],
    BINARY: bytes,
    STRING: bytes.decode,
    TIME: _raw_time,
    UUID: lambda data: uuid.UUID(bytes=data),
}
_RAW |= dict.fromkeys((DECIMAL4, DECIMAL8, DECIMAL16), _raw_decimal)
_RAW |= dict.fromkeys((INT8, INT16, INT32, INT64, DATE), _raw_int)
_RAW |= dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS), _raw_int)


class _PythonBuilder:
    def scalar(self, type_id: int, raw: Any) -> Any:
        if type_id in (DECIMAL4, DECIMAL8, DECIMAL16):
            return _decimal(*raw)
        if type_id == DATE:
            return (_EPOCH + timedelta(days=raw)).date()
        if type_id in (TIMESTAMP, TIMESTAMP_NANOS):
            return _datetime(raw, type_id).replace(tzinfo=UTC)
        if type_id in (TIMESTAMP_NTZ, TIMESTAMP_NTZ_NANOS):
            return _datetime(raw, type_id)
        if type_id == TIME:
            return (_EPOCH + timedelta(microseconds=raw)).time()
        return raw

    def array(self, items: list[Any]) -> Any:
        return items

    def object(self, items: dict[str, Any]) -> Any:
        return items


def _decimal(unscaled: int, scale: int) -> Decimal:
    return EXACT.scaleb(Decimal(unscaled), -scale)


def _datetime(raw: int, type_id: int) -> datetime:
    nanos = type_id in (TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS)
    return _EPOCH + timedelta(microseconds=raw // 1000 if nanos else raw)


class _JsonBuilder:
    def scalar(self, type_id: int, raw: Any) -> str:
        if type_id in (NULL, TRUE, FALSE):
            return ("null", "true", "false")[type_id]
        if type_id == STRING:
            return _quote(raw)
        if type_id == DOUBLE:
            return _format_float(repr(raw))
        if type_id == FLOAT:
            return _format_float(str(np.float32(raw)))
        if type_id in (DECIMAL4, DECIMAL8, DECIMAL16):
            return format(_decimal(*raw).normalize(EXACT), "f")
        if type_id == BINARY:
            return f'"{base64.b64encode(raw).decode()}"'
        if type_id >= DATE:
            return f'"{_format_text(type_id, raw)}"'
        return str(raw)

    def array(self, items: list[str]) -> str:
        return f"[{','.join(items)}]"

    def object(self, items: dict[str, str]) -> str:
        return "{" + ",".join(f"{_quote(key)}:{item}" for key, item in items.items()) + "}"


def _format_text(type_id: int, raw: Any) -> str:
    if type_id == UUID:
        return str(raw)
    if type_id == DATE:
        return date.isoformat((_EPOCH + timedelta(days=raw)).date())
    digits = 9 if type_id in (TIMESTAMP_NANOS, TIMESTAMP_NTZ_NANOS) else 6
    seconds, rest = divmod(raw, 10**digits)
    moment = _EPOCH + timedelta(seconds=seconds)
    whole = time.isoformat(moment.time()) if type_id == TIME else moment.isoformat(" ")
    fraction = f".{rest:0{digits}}".rstrip("0").rstrip(".")
    return whole + fraction + ("+00:00" if type_id in (TIMESTAMP, TIMESTAMP_NANOS) else "")


# Escape like Jackson: upper-case digits, and non-ASCII unchanged.
_ESCAPES = {code: f"\\u{code:04X}" for code in range(32)}
_ESCAPES |= str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"})


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _format_float(shortest: str) -> str:
    """Format a float's shortest decimal text like Java's `Double.toString`: `1.0`, `1.0E10`, `1.5E-5`."""
    if shortest.lstrip("-") in ("nan", "inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest]
    number = Decimal(shortest)
    exponent = number.adjusted() if number else 0
    if -3 <= exponent < 7:
        plain = format(number.normalize(EXACT), "f")
        return plain if "." in plain else plain + ".0"
    sign, digits, _ = number.normalize(EXACT).as_tuple()
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent}"
