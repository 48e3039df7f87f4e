"""Arrow arrays: from Python and numpy values and back; nested ones taken apart and put together, level by level.

Nothing here uses `pa.array`, `pa.scalar` and `to_numpy`: they import pandas if it is installed, only to inspect the
values, which takes 0.2 s and 40 MB before the first row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib, types

from lakeport.kernel.values.moments import FarDate, FarTime, day_at, days_of, microseconds_of, moment_at


def array_of(values: Sequence[Any], data_type: pa.DataType, *, trusted: bool = False) -> pa.Array:
    """Convert Python values to an array, None to null: dicts for structs and maps, lists for lists.

    Raises `TypeError` and `OverflowError` for a value that does not fit the type; never rounds or parses.
    `trusted` values are known to have the right type."""
    length = len(values)
    if types.is_null(data_type):
        return pa.nulls(length)
    if not trusted:
        _check(values, data_type)
    validity = None if None not in values else _validity(values)
    if types.is_struct(data_type):
        children = [array_of([None if v is None else v.get(f.name) for v in values], f.type) for f in data_type]
        return pa.Array.from_buffers(data_type, length, [validity], children=children)
    if types.is_list(data_type) or types.is_map(data_type):
        rows = [list(value.items()) if isinstance(value, dict) else value or [] for value in values]
        flat = [item for row in rows for item in row]
        offsets = _offsets(_lengths(rows))
        return pa.Array.from_buffers(data_type, length, [validity, offsets], children=[_inner(flat, data_type)])
    if _is_plain_text(data_type) or _is_plain_bytes(data_type):
        wide = types.is_large_string(data_type) or types.is_large_binary(data_type)
        lengths, data = _text(values, data_type)
        offsets = _offsets(lengths, np.int64 if wide else np.int32)
        return pa.Array.from_buffers(data_type, length, [validity, offsets, pa.py_buffer(data)])
    return pa.Array.from_buffers(data_type, length, [validity, _numbers(values, data_type)])


def scalar_of(value: Any, data_type: pa.DataType) -> pa.Scalar:
    return array_of([value], data_type)[0]


def null_of(data_type: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, data_type)[0]


def own_scalar(value: Any) -> pa.Scalar:
    """A Python value in its natural Arrow type. Raises `TypeError` if there is none."""
    return null_of(pa.null()) if value is None else scalar_of(value, _own_type(value))


def python_value(scalar: pa.Scalar) -> Any:
    """Convert a scalar to a Python value; from `moments` if its year is outside Python's range."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        if types.is_date32(scalar.type):
            return day_at(scalar.value)
        return moment_at(scalar.value, UTC if scalar.type.tz else None)


def _own_type(value: Any) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int() if value.bit_length() < 64:
            return pa.int64()
        case float():
            return pa.float64()
        case int():
            return _own_decimal(Decimal(value))
        case Decimal() if value.is_finite():
            return _own_decimal(value)
        case str():
            return pa.string()
        case bytes():
            return pa.binary()
        case datetime() | FarTime():
            return pa.timestamp("us", None if value.tzinfo is None else "UTC")
        case date() | FarDate():
            return pa.date32()
    raise TypeError(f"{value!r} has no Arrow type")


def _own_decimal(value: Decimal) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > 76:
        raise TypeError(f"a number of {precision} digits is too long")
    return decimal_type(precision, scale)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """Arrow's narrowest decimal type with enough digits."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def from_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """An array of booleans or of 64-bit integers."""
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def own_copy(array: pa.Array) -> pa.Array:
    """A copy in its own memory, which does not keep the original batch alive."""
    return pa.concat_arrays([array.slice(0, 0), array], memory_pool=pa.system_memory_pool())


def repeat_all(texts: pa.StringArray, times: int) -> pa.StringArray:
    """The whole sequence of texts, repeated."""
    encoded = [text.encode() for text in texts.to_pylist()]
    lengths = np.tile(np.fromiter(map(len, encoded), np.int64, len(encoded)), times)
    buffers = [None, _offsets(lengths), pa.py_buffer(b"".join(encoded) * times)]
    return pa.Array.from_buffers(texts.type, len(lengths), buffers)


def take_or_null(array: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """The items at the positions; null for negative ones."""
    present = positions >= 0
    if present.all():
        return array.take(from_numpy(positions))
    validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return array.take(pa.Array.from_buffers(pa.int64(), len(positions), [validity, pa.py_buffer(positions)]))


def to_mask(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Where an array is true; false for null."""
    mask = _bits(array.buffers()[1], array)
    if array.null_count:
        mask &= _bits(array.buffers()[0], array)
    return mask


def to_integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """The non-null values of a 64-bit integer array."""
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)


def _bits(buffer: pa.Buffer, array: pa.Array) -> npt.NDArray[np.bool_]:
    end = array.offset + len(array)
    return np.unpackbits(np.frombuffer(buffer, np.uint8), count=end, bitorder="little")[array.offset :].view(np.bool_)


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _offsets(lengths: npt.NDArray[np.int64], kind: type[np.int32 | np.int64] = np.int32) -> pa.Buffer:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if kind is np.int32 and offsets[-1] >= 2**31:
        raise OverflowError("more than 2 GiB in one column of a batch")
    return pa.py_buffer(offsets.astype(kind))


def _lengths(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, values), np.int64, len(values))


def _is_plain_text(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_large_string(data_type))


def _is_plain_bytes(data_type: pa.DataType) -> bool:
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type))


def _inner(flat: list[Any], data_type: pa.DataType) -> pa.Array:
    if types.is_list(data_type):
        return array_of(flat, data_type.value_type)
    keys = array_of([key for key, _ in flat], data_type.key_type)
    items = array_of([item for _, item in flat], data_type.item_type)
    return pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])


def _text(values: Sequence[Any], data_type: pa.DataType) -> tuple[npt.NDArray[np.int64], bytes]:
    """The lengths and the bytes of strings."""
    if not _is_plain_text(data_type):
        chunks = [value or b"" for value in values]
        return _lengths(chunks), b"".join(chunks)
    texts = [value or "" for value in values] if None in values else values
    joined = "".join(texts)
    if joined.isascii():  # as most paths are: characters are bytes
        return _lengths(texts), joined.encode()
    return _lengths([text.encode() for text in texts]), joined.encode()


def _numbers(values: Sequence[Any], data_type: pa.DataType) -> pa.Buffer:
    if types.is_boolean(data_type):
        return pa.py_buffer(
            np.packbits(np.fromiter((bool(v) for v in values), np.bool_, len(values)), bitorder="little")
        )
    if types.is_decimal(data_type):
        return _decimals(values, data_type)
    if types.is_floating(data_type):
        floats = [0.0 if v is None else float(v) for v in values]
        if types.is_float64(data_type):
            return pa.py_buffer(np.array(floats, np.float64))
        return pa.py_buffer(struct.pack(f"={len(floats)}f", *floats))
    if types.is_date32(data_type):
        days = [0 if v is None else days_of(v) for v in values]
        return pa.py_buffer(np.array(days, np.int32))
    if types.is_timestamp(data_type) and data_type.unit == "us":
        return pa.py_buffer(np.array([0 if v is None else microseconds_of(v) for v in values], np.int64))
    if types.is_signed_integer(data_type):
        known = [0 if v is None else v for v in values] if None in values else values
        return pa.py_buffer(np.array(known, f"int{data_type.bit_width}"))
    raise TypeError(f"no values of type {data_type} can be made")


def _kind_of(data_type: pa.DataType) -> tuple[type, ...]:
    if types.is_boolean(data_type):
        return (bool,)
    if types.is_signed_integer(data_type):
        return (int,)
    if types.is_floating(data_type):
        return (float, int)
    if types.is_decimal(data_type):
        return (Decimal, int)
    if types.is_date32(data_type):
        return (date, FarDate)
    if types.is_timestamp(data_type):
        return (datetime, FarTime)
    if _is_plain_text(data_type):
        return (str,)
    if _is_plain_bytes(data_type):
        return (bytes,)
    return (dict,) if types.is_struct(data_type) or types.is_map(data_type) else (list,)


def _check(values: Sequence[Any], data_type: pa.DataType) -> None:
    kinds = _kind_of(data_type)
    for other in set(map(type, values)) - {*kinds, type(None)}:
        if not issubclass(other, kinds) or other is bool:
            example = next(value for value in values if type(value) is other)
            raise TypeError(f"expected {data_type}, got {example!r:.80}")


def _decimals(values: Sequence[Any], data_type: pa.DataType) -> pa.Buffer:
    width = data_type.bit_width // 8
    unscaled = []
    for value in values:
        number = Decimal(0 if value is None else value).scaleb(data_type.scale, EXACT)
        if number != number.to_integral_value() or number.copy_abs() >= 10**data_type.precision:
            raise OverflowError(f"{value} does not fit {data_type}")
        unscaled.append(int(number).to_bytes(width, "little", signed=True))
    return pa.py_buffer(b"".join(unscaled))


TRUE, FALSE = scalar_of(True, pa.bool_()), scalar_of(False, pa.bool_())


EXACT = Context(prec=100)
"""Keeps every digit of any decimal in a table, at most 38. Python's default context rounds to 28 digits, or to the
program's setting: `-x`, `abs(x)` and `x.normalize()` all use it."""


_LISTS = {lib.Type_LIST, lib.Type_LARGE_LIST, lib.Type_FIXED_SIZE_LIST, lib.Type_LIST_VIEW, lib.Type_LARGE_LIST_VIEW}
_TEXTS = {lib.Type_STRING, lib.Type_LARGE_STRING, lib.Type_STRING_VIEW}
_BYTES = {lib.Type_BINARY, lib.Type_LARGE_BINARY, lib.Type_BINARY_VIEW, lib.Type_FIXED_SIZE_BINARY}


def is_any_list(data_type: pa.DataType) -> bool:
    return data_type.id in _LISTS


def is_text(data_type: pa.DataType) -> bool:
    return data_type.id in _TEXTS


def is_bytes(data_type: pa.DataType) -> bool:
    return data_type.id in _BYTES


def is_number(data_type: pa.DataType) -> bool:
    return bool(types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type))


def child_fields(data_type: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, the element of a list, key and value of a map; none of other types."""
    kind = data_type.id
    if kind == lib.Type_STRUCT:
        return list(data_type)
    if kind == lib.Type_MAP:
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field] if kind in _LISTS else []


def child_names(data_type: pa.DataType) -> list[str]:
    """The names of the `child_fields`; in lists and maps, `element`, `key` and `value`, whatever Arrow calls them."""
    kind = data_type.id
    if kind == lib.Type_STRUCT:
        return [field.name for field in data_type]
    if kind == lib.Type_MAP:
        return ["key", "value"]
    return ["element"] if kind in _LISTS else []


def with_child_fields(data_type: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """A struct, list or map of other fields."""
    if types.is_struct(data_type):
        return pa.struct(fields)
    return pa.map_(*fields) if types.is_map(data_type) else pa.list_(*fields)


def child_arrays(array: pa.Array) -> list[pa.Array]:
    """The arrays for `with_children`: stored values, even below nulls and outside the slice of lists and maps.

    None of other types, which include lists other than Delta's."""
    kind = array.type.id
    if kind == lib.Type_STRUCT:
        return [array.field(index) for index in range(array.type.num_fields)]
    if kind == lib.Type_MAP:
        return [array.keys, array.items]
    return [array.values] if kind == lib.Type_LIST else []


def with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The same nulls and lengths over other children. Fields are those of `target`, with the types of the children."""
    fields = [field.with_type(child.type) for field, child in zip(child_fields(target), children, strict=True)]
    if not types.is_struct(target):
        return _lists(array, with_child_fields(target, fields), array.buffers()[:2], array.offset, children)
    if not fields:
        valid = array.is_valid().buffers()[1] if array.null_count else None
        return pa.Array.from_buffers(pa.struct([]), len(array), [valid])
    return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array) if array.null_count else None)


def visible_children(array: pa.Array) -> list[pa.Array]:
    """The children as the rows have them: null where a struct is, and without the items of null lists and maps."""
    if types.is_struct(array.type):
        return list(array.flatten())
    items = _as_lists(array).flatten()
    return [items.field(0), items.field(1)] if types.is_map(array.type) else [items]


def item_offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Offsets of each list or map into its visible items; and the end."""
    lengths = to_integers(pc.list_value_length(_as_lists(array)).cast(pa.int64()))
    if array.null_count:
        lengths = np.where(to_mask(array.is_valid()), lengths, 0)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def with_items(
    array: pa.Array, target: pa.DataType, offsets: npt.NDArray[np.int64], children: list[pa.Array]
) -> pa.Array:
    """The same lists or maps with other visible children, in exactly the type `target`."""
    valid = None if not array.null_count else pa.py_buffer(np.packbits(to_mask(array.is_valid()), bitorder="little"))
    return _lists(array, target, [valid, pa.py_buffer(offsets.astype(np.int32))], 0, children)


def _as_lists(array: pa.Array) -> pa.Array:
    """Maps as lists of entries. No cast: Arrow's rejects nulls in required fields even below a null parent."""
    if not types.is_map(array.type):
        return array
    entries = pa.list_(pa.struct(child_fields(array.type)))
    return pa.Array.from_buffers(
        entries, len(array), array.buffers()[:2], array.null_count, array.offset, [array.values]
    )


def _lists(
    array: pa.Array, target: pa.DataType, buffers: list[pa.Buffer | None], offset: int, children: list[pa.Array]
) -> pa.Array:
    if types.is_map(target):
        children = [pa.StructArray.from_arrays(children, fields=child_fields(target))]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, offset, children)
