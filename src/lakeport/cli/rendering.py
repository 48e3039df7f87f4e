"""Lossless conversion of Arrow columns into values for JSON and text files.

Dates and times are ISO 8601. Decimals are numbers with all their digits. Floats are the shortest text that reads back
as the same float; NaN and infinities are null. Binary is base64, maps are objects, variants their JSON.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.schema import is_variant_field
from lakeport.kernel.values import child_arrays, child_fields, with_child_fields, with_children
from lakeport.kernel.variant import decode_variant, format_variant_json

ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
"""Encodes the output of `json_values`; what JSON cannot represent (a time of day in a variant) becomes text."""


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Convert rows into objects for `ENCODER`."""
    columns = [json_values(array, field) for array, field in zip(batch.columns, batch.schema, strict=True)]
    names = batch.schema.names
    if not names:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_values(array: pa.Array, field: pa.Field) -> list[Any]:
    """Convert a column into values for `ENCODER`."""
    data_type, types = field.type, pa.types  # not the array's type, which may not mark variants
    if is_variant_field(field):
        return [None if v is None else decode_variant(v["metadata"], v["value"]) for v in array.to_pylist()]
    if types.is_struct(data_type):
        return _objects(array, data_type)
    if types.is_list(data_type):
        return _parts(array, json_values(array.values, data_type.value_field))
    if types.is_map(data_type):
        keys = map(_key, json_values(array.keys, data_type.key_field))
        pairs = list(zip(keys, json_values(array.items, data_type.item_field), strict=True))
        return [None if part is None else dict(part) for part in _parts(array, pairs)]
    if types.is_date(data_type) or types.is_timestamp(data_type):
        return list(_times(array).to_pylist())
    if types.is_float32(data_type):
        # Via text, so that 0.1 does not become 0.10000000149011612.
        return list(array.cast(pa.string()).cast(pa.float64()).to_pylist())
    if types.is_binary(data_type):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    return list(array.to_pylist())


def text_column(array: pa.Array, field: pa.Field) -> pa.Array:
    """Convert a column for CSV: nested values and variants to JSON text, times to ISO 8601; keep the rest."""
    types = pa.types
    if types.is_nested(array.type):
        return pa.array(
            [None if v is None else ENCODER.encode(v).decode() for v in json_values(array, field)], pa.string()
        )
    if types.is_timestamp(array.type):
        return _times(array)
    if types.is_binary(array.type):
        return pa.array(json_values(array, field), pa.string())
    return array


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to a schema from `plain_schema`."""
    pairs = zip(batch.columns, batch.schema, strict=True)
    return pa.RecordBatch.from_arrays([_plain(array, field) for array, field in pairs], schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with variants as JSON text, and without Lakeport's own metadata."""
    return pa.schema([_plain_field(field) for field in schema])


def _objects(array: pa.StructArray, data_type: pa.StructType) -> list[Any]:
    fields = list(data_type)
    columns = [json_values(child, field) for child, field in zip(array.flatten(), fields, strict=True)]
    names = [field.name for field in fields]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    valid = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]


def _parts(array: pa.Array, values: list[Any]) -> list[Any]:
    """Split the flat values into one list per row."""
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [values[ends[i] : ends[i + 1]] if there else None for i, there in enumerate(valid)]


def _key(value: Any) -> str:
    return value if isinstance(value, str) else ENCODER.encode(value).decode()


def _times(array: pa.Array) -> pa.Array:
    """ISO 8601: `2026-01-31`, `2026-01-31T12:00:00Z`, `2026-01-31T12:00:00.000001`; any year that Arrow can hold."""
    if pa.types.is_date(array.type):
        return array.cast(pa.string())
    # Arrow formats timestamps without a zone twenty times faster; the zone is always UTC.
    text = array.view(pa.timestamp(array.type.unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    text = pc.replace_substring(text, ".000000", "", max_replacements=1)
    return text if array.type.tz is None else pc.binary_join_element_wise(text, "Z", "")


def _plain_field(field: pa.Field) -> pa.Field:
    data_type = field.type
    if is_variant_field(field):
        data_type = pa.string()
    elif children := child_fields(data_type):
        data_type = with_child_fields(data_type, list(map(_plain_field, children)))
    return pa.field(field.name, data_type, field.nullable)


def _plain(array: pa.Array, field: pa.Field) -> pa.Array:
    target = _plain_field(field).type
    if is_variant_field(field):
        texts = (None if v is None else format_variant_json(v["metadata"], v["value"]) for v in array.to_pylist())
        return pa.array(texts, pa.string())
    if array.type == target:
        return array
    children = zip(child_arrays(array), child_fields(field.type), strict=True)
    return with_children(array, target, [_plain(*child) for child in children])
