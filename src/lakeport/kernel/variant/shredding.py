"""Build variants from Python objects, and from the shredded columns of a Parquet file.

See VariantEncoding.md and VariantShredding.md of the Parquet format.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.schema import PrimitiveType, arrow_type
from lakeport.kernel.values import array_of, is_any_list, is_text
from lakeport.kernel.variant import decoding as v

VARIANT_TYPE = arrow_type(PrimitiveType("variant"))

_NULL = b"\0"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)

Ids = Mapping[str, int]
"""The field id of each key in a variant's metadata."""


def rebuild_variant(array: pa.StructArray, *, path: str = "") -> pa.StructArray:
    """Unshred the variants of a Parquet column to exactly `VARIANT_TYPE`; null where `array` is null.

    `array` has the field `metadata`, and `value`, `typed_value` or both, in any order. Without `typed_value`, values
    are neither copied nor inspected. A missing variant is a variant null, per the specification. Raises
    `CorruptTableError` naming `path` for columns that contradict each other or the specification.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    try:
        metadata = _column(array, "metadata")
        if metadata is None:
            raise ValueError("it has no metadata")
        metadata = metadata.cast(pa.binary())
        return _assemble(array, metadata, _rebuild_values(array))
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise CorruptTableError(f"a variant column is damaged: {error}", path=path) from error


class _Keys(NamedTuple):
    """The metadata of a row: the key of each field id, and a field id for each key."""

    names: Sequence[str]
    ids: Ids


def _rebuild_values(array: pa.StructArray) -> pa.Array:
    if _column(array, "typed_value") is None:
        values = _column(array, "value")
        return pa.nulls(len(array), pa.binary()) if values is None else values.cast(pa.binary())
    # Flattened, because data under a null variant is not metadata.
    metadata = array.flatten()[array.type.get_field_index("metadata")]
    known: dict[bytes | None, _Keys] = {None: _Keys((), {})}
    rows = []
    for key_bytes in metadata.to_pylist():
        if key_bytes not in known:
            names = v.decode_keys(key_bytes)
            known[key_bytes] = _Keys(names, field_ids(names))
        rows.append(known[key_bytes])
    return array_of(_encode_group(array, rows), pa.binary())


def _assemble(array: pa.StructArray, metadata: pa.Array, values: pa.Array) -> pa.StructArray:
    absent = array.is_null() if array.null_count else None
    if metadata.null_count:
        if absent is None or pc.any(pc.and_not(metadata.is_null(), absent)).as_py():
            raise ValueError("the metadata of a row is null")
        metadata = metadata.fill_null(b"")
    if values.null_count and (absent is None or pc.any(pc.and_not(values.is_null(), absent)).as_py()):
        values = values.fill_null(_NULL)
    return pa.StructArray.from_arrays([metadata, values], fields=list(VARIANT_TYPE), mask=absent)


def _column(group: pa.StructArray, name: str) -> pa.Array | None:
    """A field of a struct, without the struct's nulls."""
    return group.field(name) if group.type.get_field_index(name) >= 0 else None


def _encode_group(group: pa.StructArray, keys: Sequence[_Keys]) -> list[bytes | None]:
    """The value of each row of a group of `value` and `typed_value`; None if missing.

    `keys` is the decoded metadata of each row."""
    if not pa.types.is_struct(group.type):
        raise ValueError(f"a shredded field is a {group.type}, not a group of value and typed_value")
    columns = dict(zip((field.name for field in group.type), group.flatten(), strict=True))
    nothing: list[bytes | None] = [None] * len(group)
    values = columns["value"].cast(pa.binary()).to_pylist() if "value" in columns else nothing
    typed = columns.get("typed_value")
    if typed is None:
        return list(values)
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    if pa.types.is_struct(typed.type):
        return _encode_objects(typed, values, keys)
    encoded = _encode_arrays(typed, keys) if is_any_list(typed.type) else _encode_scalars(typed)
    if any(a is not None and b is not None for a, b in zip(values, encoded, strict=True)):
        raise ValueError("a row has both a value and a typed_value, but is not an object")
    return [b if a is None else a for a, b in zip(values, encoded, strict=True)]


def _encode_objects(typed: pa.StructArray, values: Sequence[bytes | None], keys: Sequence[_Keys]) -> list[bytes | None]:
    columns = {f.name: _encode_group(c, keys) for f, c in zip(typed.type, typed.flatten(), strict=True)}
    shredded = sorted(columns.items())
    encoded: list[bytes | None] = []
    for row, (present, value) in enumerate(zip(typed.is_valid().to_pylist(), values, strict=True)):
        if not present:
            encoded.append(value)
            continue
        fields = [(name, field) for name, column in shredded if (field := column[row]) is not None]
        if value is not None:
            fields = sorted((_split_object(value, keys[row].names) | dict(fields)).items())
        encoded.append(_encode_object(fields, keys[row].ids))
    return encoded


def _split_object(value: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """The fields of the object with the unshredded rest, still encoded."""
    if v.first_byte(value, 0, len(value)) & 3 != v.OBJECT:
        raise ValueError("a row has a typed_value that is an object, and a value that is not")
    children = v.decode_children(value, 0, len(value))
    items = [value[start : v.value_end(value, start, children.end)] for start in children.starts]
    if sum(map(len, items)) > len(value):
        raise ValueError("values in it overlap")
    return v.named(children.ids, items, names)


def _encode_arrays(typed: pa.Array, keys: Sequence[_Keys]) -> list[bytes | None]:
    lengths = np.asarray(pc.list_value_length(typed).fill_null(0))
    elements = _encode_group(typed.flatten(), [keys[row] for row in np.repeat(np.arange(len(typed)), lengths).tolist()])
    # The specification has no missing elements; a reader that finds one returns a variant null.
    items = [_NULL if element is None else element for element in elements]
    ends = np.cumsum(lengths).tolist()
    return [
        _encode_array(items[end - length : end]) if present else None
        for present, end, length in zip(typed.is_valid().to_pylist(), ends, lengths.tolist(), strict=True)
    ]


def _encode_scalars(typed: pa.Array) -> list[bytes | None]:
    numbers, encode = _scalar_encoder(typed.type)
    for data_type in numbers:
        typed = typed.cast(data_type)
    return [None if raw is None else encode(raw) for raw in typed.to_pylist()]


def _scalar_encoder(data_type: pa.DataType) -> tuple[list[pa.DataType], Callable[[Any], bytes]]:
    """The types to cast a column to, in sequence, and the encoder for the result."""
    types = pa.types
    if types.is_null(data_type) or types.is_boolean(data_type):
        return [], lambda raw: _primitive(v.TRUE if raw else v.FALSE)
    if types.is_signed_integer(data_type):
        return [], _encode_int
    if types.is_float32(data_type):
        return [], lambda raw: _primitive(v.FLOAT, struct.pack("<f", raw))
    if types.is_float64(data_type):
        return [], lambda raw: _primitive(v.DOUBLE, struct.pack("<d", raw))
    if types.is_decimal(data_type):
        return [], _encode_decimal
    if types.is_date(data_type):
        return [pa.date32(), pa.int32()], lambda raw: _primitive(v.DATE, struct.pack("<i", raw))
    if types.is_time(data_type):
        return [pa.time64("us"), pa.int64()], lambda raw: _primitive(v.TIME, struct.pack("<q", raw))
    if types.is_timestamp(data_type):
        return _timestamp_encoder(data_type)
    if types.is_fixed_size_binary(data_type) and data_type.byte_width == 16:
        return [], lambda raw: _primitive(v.UUID, raw)
    if types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_binary_view(data_type):
        return [], _encode_binary
    if is_text(data_type):
        return [], _encode_string
    raise ValueError(f"it is shredded as {data_type}, which variants do not support")


def _timestamp_encoder(data_type: pa.TimestampType) -> tuple[list[pa.DataType], Callable[[Any], bytes]]:
    if data_type.unit == "ns":
        type_id = v.TIMESTAMP_NANOS if data_type.tz else v.TIMESTAMP_NTZ_NANOS
        casts = [pa.int64()]
    else:
        type_id = v.TIMESTAMP if data_type.tz else v.TIMESTAMP_NTZ
        casts = [pa.timestamp("us", tz=data_type.tz), pa.int64()]
    return casts, lambda raw: _primitive(type_id, struct.pack("<q", raw))


def encode_variant(value: Any) -> tuple[bytes, bytes]:
    """Encode a Python object as metadata and value, the inverse of `decode_variant`. Raises `ValueError`."""
    keys = sorted(_keys_in(value))
    return encode_metadata(keys), encode_variant_value(value, field_ids(keys))


def field_ids(keys: Iterable[str]) -> Ids:
    return {key: field_id for field_id, key in enumerate(keys)}


def _keys_in(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set(value).union(*map(_keys_in, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_keys_in, value))
    return set()


def encode_metadata(keys: Sequence[str]) -> bytes:
    """The metadata with these keys; a key's position is its field id."""
    encoded = [key.encode() for key in keys]
    offsets = [0, *np.cumsum([len(key) for key in encoded]).tolist()]
    size = _width(max(offsets[-1], len(keys)))
    is_sorted = all(low < high for low, high in pairwise(encoded))
    header = 1 | is_sorted << 4 | (size - 1) << 6
    return bytes([header]) + _pack([len(keys), *offsets], size) + b"".join(encoded)


def encode_variant_value(value: Any, ids: Ids) -> bytes:
    """Encode a Python object with the field ids of its metadata.

    An aware datetime is a timestamp, a naive one a timestamp without a zone. Integers take the smallest type that fits.
    Raises `ValueError` for a value that no variant can hold, and for a key missing from the metadata.
    """
    match value:
        case None:
            return _NULL
        case bool():
            return _primitive(v.TRUE if value else v.FALSE)
        case int():
            return _encode_int(value)
        case float():
            return _primitive(v.DOUBLE, struct.pack("<d", value))
        case Decimal():
            return _encode_decimal(value)
        case str():
            return _encode_string(value)
        case bytes():
            return _encode_binary(value)
        case uuid.UUID():
            return _primitive(v.UUID, value.bytes)
        case datetime() | date() | time():
            return _encode_moment(value)
        case list() | tuple():
            return _encode_array([encode_variant_value(item, ids) for item in value])
        case Mapping():
            return _encode_object([(key, encode_variant_value(value[key], ids)) for key in sorted(value)], ids)
    raise ValueError(f"a variant cannot hold a {type(value).__name__}")


def _encode_moment(value: datetime | date | time) -> bytes:
    if isinstance(value, datetime):
        type_id = v.TIMESTAMP_NTZ if value.tzinfo is None else v.TIMESTAMP
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return _primitive(type_id, struct.pack("<q", (moment - _EPOCH) // _MICROSECOND))
    if isinstance(value, date):
        return _primitive(v.DATE, struct.pack("<i", value.toordinal() - _EPOCH.toordinal()))
    since_midnight = datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH
    return _primitive(v.TIME, struct.pack("<q", since_midnight // _MICROSECOND))


def _primitive(type_id: int, data: bytes = b"") -> bytes:
    return bytes([type_id << 2]) + data


def _encode_int(value: int) -> bytes:
    for type_id, size in ((v.INT8, 1), (v.INT16, 2), (v.INT32, 4), (v.INT64, 8)):
        if -1 << 8 * size - 1 <= value < 1 << 8 * size - 1:
            return _primitive(type_id, value.to_bytes(size, "little", signed=True))
    return _encode_decimal(Decimal(value))


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"a variant cannot hold the decimal {value}")
    scale = max(-exponent, 0)
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0) * (-1 if sign else 1)
    precision = max(len(str(abs(unscaled))), scale)
    for type_id, most, size in ((v.DECIMAL4, 9, 4), (v.DECIMAL8, 18, 8), (v.DECIMAL16, v.MAX_DECIMAL_DIGITS, 16)):
        if precision <= most:
            return _primitive(type_id, bytes([scale]) + unscaled.to_bytes(size, "little", signed=True))
    raise ValueError(f"a variant holds decimals of {v.MAX_DECIMAL_DIGITS} digits, {value} has more")


def _encode_string(value: str) -> bytes:
    data = value.encode()
    if len(data) < 64:
        return bytes([len(data) << 2 | v.SHORT_STRING]) + data
    return _primitive(v.STRING, len(data).to_bytes(4, "little") + data)


def _encode_binary(value: bytes) -> bytes:
    return _primitive(v.BINARY, len(value).to_bytes(4, "little") + value)


def _encode_array(items: Sequence[bytes]) -> bytes:
    count, offsets, offset_size = _layout(items)
    header = v.ARRAY | (offset_size - 1) << 2 | (len(count) > 1) << 4
    return b"".join((bytes([header]), count, offsets, *items))


def _encode_object(fields: Sequence[tuple[str, bytes]], ids: Ids) -> bytes:
    """`fields` are sorted by key: by code points, which is the order of their UTF-8 bytes."""
    try:
        numbers = [ids[key] for key, _ in fields]
    except KeyError as error:
        raise ValueError(f"the metadata lacks the key {error}") from error
    items = [item for _, item in fields]
    count, offsets, offset_size = _layout(items)
    id_size = _width(max(numbers, default=0))
    header = v.OBJECT | (offset_size - 1) << 2 | (id_size - 1) << 4 | (len(count) > 1) << 6
    return b"".join((bytes([header]), count, _pack(numbers, id_size), offsets, *items))


def _layout(items: Sequence[bytes]) -> tuple[bytes, bytes, int]:
    """The encoded number of items, their encoded offsets, and the offset size."""
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + len(item))
    size = _width(offsets[-1])
    return len(items).to_bytes(1 if len(items) < 256 else 4, "little"), _pack(offsets, size), size


def _width(largest: int) -> int:
    return max((largest.bit_length() + 7) // 8, 1)


def _pack(numbers: Sequence[int], size: int) -> bytes:
    if size == 1:
        return bytes(numbers)
    return b"".join(number.to_bytes(size, "little") for number in numbers)
