"""Map between a file's columns and a table's: names, ids, missing fields, widened types.

A physical schema is an Arrow schema that says how to find each column in a file: by the `FIELD_ID` in its metadata,
or else by name. Any engine that reads Parquet can use `conform` to meet its obligations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import AS_STORED, FIELD_ID
from lakeport.kernel.schema import (
    VARIANT_METADATA,
    StructField,
    arrow_type,
    is_any_list,
    is_variant,
    is_variant_field,
)
from lakeport.kernel.variant import rebuild_variant


def physical_field(field: StructField, mapping_mode: str) -> pa.Field:
    """The Arrow field that identifies a column in data files under a column mapping mode (`none`, `name`, `id`)."""
    metadata: dict[bytes, bytes] = {}
    if mapping_mode == "id" and field.field_id is not None:
        metadata[FIELD_ID] = str(field.field_id).encode()
    if is_variant(field.type):
        metadata |= VARIANT_METADATA
    name = field.physical_name(mapping_mode)
    data_type = arrow_type(field.type, lambda inner: physical_field(inner, mapping_mode))
    return pa.field(name, data_type, field.nullable, metadata or None)


def find_field(fields: Sequence[pa.Field], target: pa.Field) -> int | None:
    """The index of column `target` in a file's `fields`."""
    if (field_id := (target.metadata or {}).get(FIELD_ID)) is not None:
        return next((i for i, f in enumerate(fields) if (f.metadata or {}).get(FIELD_ID) == field_id), None)
    for index, field in enumerate(fields):
        if field.name == target.name:
            return index
    lowered = target.name.lower()
    return next((i for i, f in enumerate(fields) if f.name.lower() == lowered), None)


def columns_to_read(fields: Sequence[pa.Field], targets: Iterable[pa.Field], parents: str = "") -> list[str]:
    """The dotted paths of the Parquet columns that `conform` needs; prunes struct fields."""
    paths: list[str] = []
    for target in targets:
        if (index := find_field(fields, target)) is None:
            continue
        source, path = fields[index], f"{parents}{fields[index].name}"
        if pa.types.is_struct(target.type) and pa.types.is_struct(source.type) and not is_variant_field(target):
            # Read at least one leaf of a struct, to know which rows are null.
            inner = columns_to_read(list(source.type), target.type, f"{path}.")
            paths += inner or [_first_leaf(source, path)]
        else:
            paths.append(path)
    return paths


def _first_leaf(field: pa.Field, path: str) -> str:
    while pa.types.is_struct(field.type) and field.type.num_fields:
        field = field.type.field(0)
        path = f"{path}.{field.name}"
    return path


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, path: str) -> pa.RecordBatch:
    """Convert `batch`, read from the file at `path`, to exactly the columns and types of `schema`.

    Nullable columns missing from the file are null. Raises `CorruptTableError` for required ones, and for types that
    Delta cannot widen to the schema's."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    sources = list(batch.schema)
    arrays, fields = [], []
    for target in schema:
        index = find_field(sources, target)
        array = _conform(None if index is None else batch.column(index), target, batch.num_rows, target.name, path)
        arrays.append(array)
        fields.append(target if array.type == target.type else target.with_type(array.type))
    return make_batch(arrays, pa.schema(fields), batch.num_rows)


def make_batch(arrays: list[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even without columns."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.nulls(num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _conform(array: pa.Array | None, target: pa.Field, length: int, name: str, path: str) -> pa.Array:
    if array is None:
        if not target.nullable:
            raise CorruptTableError(f"the required column {name!r} is missing from the data file", path=path)
        return pa.nulls(length, target.type)
    if is_variant_field(target) or AS_STORED in (target.metadata or {}) or array.type == target.type:
        return array
    if isinstance(array, pa.ExtensionArray):  # JSON, UUIDs and others: the table knows their storage type
        return _conform(array.storage, target, length, name, path)
    return _conform_type(array, target.type, name, path)


def _conform_type(array: pa.Array, target: pa.DataType, name: str, path: str) -> pa.Array:
    source = array.type
    if pa.types.is_struct(target) and pa.types.is_struct(source):
        fields = list(source)
        children = []
        for inner in target:
            index = find_field(fields, inner)
            child = None if index is None else array.field(index)
            children.append(_conform(child, inner, len(array), f"{name}.{inner.name}", path))
        return _struct(children, target, array)
    if pa.types.is_list(target) and is_any_list(source):
        array = array if pa.types.is_list(source) else array.cast(pa.list_(source.value_field))
        values = _conform(array.values, target.value_field, len(array.values), f"{name}.element", path)
        return _with_children(array, pa.list_(target.value_field.with_type(values.type)), [values])
    if pa.types.is_map(target) and pa.types.is_map(source):
        keys = _conform(array.keys, target.key_field, len(array.keys), f"{name}.key", path)
        items = _conform(array.items, target.item_field, len(array.items), f"{name}.value", path)
        return _map(array, target, keys, items)
    try:
        return cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise CorruptTableError(
            f"the column {name!r} has the type {source} in the data file, which cannot be read as {target}: {error}",
            path=path,
        ) from error


def cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast a primitive column to an equal or wider type, by Delta's type widening and other writers' encodings.

    Raises `TypeError` for types that Delta does not widen, `ArrowInvalid` for a value that does not fit."""
    source = array.type
    if source == target:
        return array
    if pa.types.is_dictionary(source):
        return cast(array.cast(source.value_type), target)
    if pa.types.is_null(source) or pa.types.is_null(target):
        return pa.nulls(len(array), target)
    if pa.types.is_timestamp(target):
        return _cast_timestamp(array, target)
    if not _widens(source, target):
        raise TypeError("Delta does not widen this type into that one")
    return array.cast(target)


def _cast_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_date(array.type):
        if target.tz is not None:
            raise TypeError("Delta does not widen a date into a timestamp with a zone")
        return array.cast(pa.date32()).cast(target)
    if not pa.types.is_timestamp(array.type):
        raise TypeError("not a timestamp")
    # Both kinds count from the epoch in UTC, so only the type changes.
    moments = array.view(pa.timestamp(array.type.unit))
    if array.type.unit == "ns":  # a cast would round towards the epoch, but statistics are rounded down
        moments = pc.floor_temporal(moments, unit="microsecond")
    return moments.cast(pa.timestamp(target.unit), safe=False).view(target)


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if types.is_integer(source):
        exact_in_double = types.is_float64(target) and source.bit_width <= 32
        return bool(types.is_integer(target) or types.is_decimal(target) or exact_in_double)
    if types.is_floating(source):
        return bool(types.is_floating(target) and source.bit_width < target.bit_width)
    if types.is_duration(source) or types.is_time(source):  # Delta has neither: tables hold them as numbers
        return bool(types.is_integer(target) and source.bit_width <= target.bit_width)
    if types.is_decimal(source):
        return bool(types.is_decimal(target))
    if _is_bytes(source):
        return _is_bytes(target)
    return bool(types.is_date(source) and types.is_date(target))


def _is_bytes(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def to_logical(array: pa.Array, physical: pa.Field, logical: pa.Field) -> pa.Array:
    """Give a conformed physical column its logical names and rebuild variants as plain structs."""
    return rebuild_variant(array) if is_variant_field(physical) else _relabelled(array, physical, logical, to_logical)


def to_physical(array: pa.Array, logical: pa.Field, physical: pa.Field) -> pa.Array:
    """Give a logical column its physical names; a variant stays a plain struct."""
    return array if is_variant_field(logical) else _relabelled(array, logical, physical, to_physical)


def _relabelled(
    array: pa.Array, source: pa.Field, target: pa.Field, convert: Callable[[pa.Array, pa.Field, pa.Field], pa.Array]
) -> pa.Array:
    """Rename a column to match `target`; `convert` does the same for its children."""
    if array.type == target.type:
        return array
    if pa.types.is_struct(target.type):
        pairs = zip(range(array.type.num_fields), source.type, target.type, strict=True)
        return _struct([convert(array.field(i), inner, out) for i, inner, out in pairs], target.type, array)
    if pa.types.is_list(target.type):
        values = convert(array.values, source.type.value_field, target.type.value_field)
        return _with_children(array, target.type, [values])
    if pa.types.is_map(target.type):
        keys = convert(array.keys, source.type.key_field, target.type.key_field)
        items = convert(array.items, source.type.item_field, target.type.item_field)
        return _map(array, target.type, keys, items)
    return array


def map_leaves(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `change`, which keeps types and nulls, to every primitive column in the array."""
    if pa.types.is_struct(array.type):
        children = [map_leaves(array.field(i), change) for i in range(array.type.num_fields)]
        return _struct(children, array.type, array)
    if pa.types.is_list(array.type):
        return _with_children(array, array.type, [map_leaves(array.values, change)])
    if pa.types.is_map(array.type):
        return _map(array, array.type, map_leaves(array.keys, change), map_leaves(array.items, change))
    return change(array)


def without_hidden_nulls(array: pa.Array) -> pa.Array:
    """Replace nulls of required fields inside null structs. Arrow's Parquet writer rejects such a null, although no
    reader could see it. Visible required fields must not have nulls."""
    if not _has_required(array.type):
        return array
    if pa.types.is_struct(array.type):
        pairs = zip(map(array.field, range(array.type.num_fields)), array.type, strict=True)
        return _struct([_filled(without_hidden_nulls(child), field) for child, field in pairs], array.type, array)
    if pa.types.is_list(array.type):
        return _with_children(array, array.type, [without_hidden_nulls(array.values)])
    return _map(array, array.type, without_hidden_nulls(array.keys), without_hidden_nulls(array.items))


def _has_required(data_type: pa.DataType) -> bool:
    """Whether any struct in the type has a required field."""
    inner = [data_type.field(i) for i in range(data_type.num_fields)]
    if pa.types.is_map(data_type):
        inner = [data_type.key_field, data_type.item_field]
    is_required = pa.types.is_struct(data_type) and not all(field.nullable for field in inner)
    return is_required or any(_has_required(field.type) for field in inner)


def _filled(array: pa.Array, field: pa.Field) -> pa.Array:
    """A required field without its null mask: exposes the stored values."""
    if field.nullable or not array.null_count:
        return array
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(
            [array.field(i) for i in range(array.type.num_fields)], fields=list(array.type)
        )
    nested = pa.types.is_nested(array.type)
    buffers = [None, *array.buffers()[1 : 2 if nested else None]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset, [array.values] if nested else None)


def _struct(children: list[pa.Array], target: pa.DataType, parent: pa.StructArray) -> pa.StructArray:
    fields = [f.with_type(child.type) for f, child in zip(target, children, strict=True)]
    if not fields:
        return pa.Array.from_buffers(
            pa.struct([]), len(parent), [None if not parent.null_count else parent.is_valid().buffers()[1]]
        )
    mask = pc.is_null(parent) if parent.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _map(array: pa.MapArray, target: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.MapArray:
    data_type = pa.map_(target.key_field.with_type(keys.type), target.item_field.with_type(items.type))
    entries = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
    return _with_children(array, data_type, [entries])


def _with_children(array: pa.Array, target: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """A list or map with the same offsets and nulls over other children."""
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, children)
