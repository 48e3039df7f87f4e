"""JSON lines as batches: by msgspec through typed objects, or by pyarrow if all lines are alike.

pyarrow's reader is fast and releases the GIL, but it has no maps and cannot report unrequested keys. So it gets exactly
the keys of the first line and rejects any others: its result is then complete. Lines that it rejects are read by
msgspec, which alone decides what is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from pyarrow import types

from lakeport.kernel.values import array_of, from_numpy, repeat_all, take_or_null


class ArrowLines:
    """Reads lines that have only keys of the first one."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def parse(self, text: bytes) -> pa.RecordBatch | None:
        """The lines with the keys they have; None for lines that are not alike or not valid."""
        try:
            first = msgspec.json.decode(text[: text.find(b"\n")])
            if not isinstance(first, dict):
                return None
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema(_keys_of(first, self._schema)), unexpected_field_behavior="error"
                ),
                memory_pool=pa.system_memory_pool(),  # packs small, long-lived data tighter than Arrow's own pool
            )
            table.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, _UnlikelyError):
            return None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        return table.to_batches()[0]  # one block is one batch

    def shape(self, parsed: pa.RecordBatch) -> pa.RecordBatch:
        """The result of `parse` as a batch of the schema."""
        rows = parsed.to_struct_array()
        columns = [_shape(_child(rows, field.name), field, len(rows)) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _UnlikelyError(Exception):
    """The first line has something that cannot be described to pyarrow's reader."""


def _keys_of(sample: dict[str, Any], wanted: Iterable[pa.Field]) -> list[pa.Field]:
    """The keys of an object as fields: in the wanted types, or those of their values."""
    by_name = {field.name: field.type for field in wanted}
    return [pa.field(key, _type_for(value, by_name.get(key))) for key, value in sample.items()]


def _type_for(value: Any, wanted: pa.DataType | None) -> pa.DataType:
    if isinstance(value, dict):
        if wanted is not None and types.is_map(wanted):
            return pa.struct([pa.field(key, wanted.item_type) for key in value])
        if wanted is not None and not types.is_struct(wanted):
            raise _UnlikelyError
        return pa.struct(_keys_of(value, wanted or ()))
    if wanted is not None:
        return wanted
    for kind, data_type in _TYPES.items():
        if isinstance(value, kind):
            return data_type
    raise _UnlikelyError


_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), type(None): pa.null()}


def _child(array: pa.StructArray, name: str) -> pa.Array | None:
    index = array.type.get_field_index(name)
    return array.field(index) if index >= 0 else None


def _shape(array: pa.Array | None, field: pa.Field, length: int) -> pa.Array:
    """A column in its wanted form: null children for keys that no line has, objects as maps."""
    if array is None or types.is_null(array.type):
        return pa.nulls(length, field.type)
    if types.is_map(field.type):
        return _as_maps(array, field.type)
    if not types.is_struct(field.type):
        return array
    children = [_shape(_child(array, inner.name), inner, length) for inner in field.type]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(field.type), mask=mask)


def _as_maps(objects: pa.StructArray, data_type: pa.DataType) -> pa.MapArray:
    """Objects with the same keys as maps; a key that an object lacks gets a null value."""
    keys = array_of([field.name for field in objects.type], data_type.key_type)
    width, length = len(keys), len(objects)
    values = [objects.field(i) for i in range(width)]
    if width == 1:
        items = values[0]
    else:
        by_object = np.arange(width * length).reshape(width, length).T.ravel()
        items = pa.concat_arrays([pa.nulls(0, data_type.item_type), *values]).take(from_numpy(by_object))
    entries = pa.StructArray.from_arrays(
        [repeat_all(keys, length), items], fields=[data_type.key_field, data_type.item_field]
    )
    offsets = pa.py_buffer((np.arange(length + 1) * width).astype(np.int32))
    validity = objects.is_valid().buffers()[1] if objects.null_count else None
    return pa.Array.from_buffers(data_type, length, [validity, offsets], children=[entries])


READING_ERRORS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
"""What `MsgspecLines.read` raises for invalid lines."""


class MsgspecLines:
    """msgspec's decoder, through objects with exactly the schema's fields."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.decoder = _decoder(schema)

    def read(self, text: bytes) -> pa.RecordBatch:
        """A batch of the schema. Raises `READING_ERRORS`."""
        return self._batch(self.decoder.decode_lines(text))

    def read_exactly(self, text: bytes) -> pa.RecordBatch | None:
        """A batch with a row for each line; None if a line is not exactly one object."""
        try:
            return self._batch(list(map(self.decoder.decode, text.split(b"\n")[:-1])))
        except READING_ERRORS:
            return None

    def _batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(_columns(rows, self._schema), schema=self._schema)


@lru_cache(maxsize=32)
def _decoder(schema: pa.Schema) -> msgspec.json.Decoder[Any]:
    """Cached: building a decoder takes longer than reading a small commit."""
    return msgspec.json.Decoder(_object_type(schema))


def _object_type(fields: Iterable[pa.Field]) -> Any:
    """A msgspec type with an attribute per field, numbered because keys can be any text."""
    described, names = [], {}
    for i, field in enumerate(fields):
        described.append((f"f{i}", _value_type(field.type) | None, None))
        names[f"f{i}"] = field.name
    return msgspec.defstruct("Object", described, rename=names, gc=False)


def _value_type(data_type: pa.DataType) -> Any:
    if types.is_struct(data_type):
        return _object_type(data_type)
    if types.is_list(data_type):
        return list[_value_type(data_type.value_type) | None]  # type: ignore[misc]  # made at run time
    if types.is_map(data_type):
        return dict[str, _value_type(data_type.item_type) | None]  # type: ignore[misc]  # made at run time
    if types.is_integer(data_type):
        return int
    if types.is_boolean(data_type):
        return bool
    if types.is_floating(data_type):
        return float
    return str


def _columns(objects: Sequence[Any], fields: Iterable[pa.Field]) -> list[pa.Array]:
    return [_column(list(map(attrgetter(f"f{i}"), objects)), field) for i, field in enumerate(fields)]


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    missing = values.count(None)
    if missing == len(values):
        return pa.nulls(len(values), field.type)
    if not types.is_struct(field.type):
        return array_of(values, field.type, trusted=True)
    present = values if not missing else [value for value in values if value is not None]
    dense = _struct(_columns(present, field.type), field.type, len(present))
    if not missing:
        return dense
    is_present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return take_or_null(dense, np.where(is_present, np.cumsum(is_present) - 1, -1))


def _struct(children: list[pa.Array], data_type: pa.DataType, length: int) -> pa.StructArray:
    return pa.Array.from_buffers(data_type, length, [None], children=children)
