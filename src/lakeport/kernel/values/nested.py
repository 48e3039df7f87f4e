"""Kinds of Arrow types; nested types and arrays, taken apart and put together one level at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import lib, types

from lakeport.kernel.values.arrays import to_integers, to_mask

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
