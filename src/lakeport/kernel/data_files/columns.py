"""Map between a file's columns and a table's: names, ids, missing fields, widened types.

A physical schema is an Arrow schema that says how to find each column in a file: by the `FIELD_ID` in its metadata,
or else by name. Any engine that reads Parquet can use `conform` to meet its obligations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.errors import CorruptTableError
from lakeport.kernel.engine import AS_STORED, FIELD_ID
from lakeport.kernel.schema import (
    VARIANT_METADATA,
    StructField,
    arrow_type,
    is_variant,
    is_variant_field,
)
from lakeport.kernel.values import (
    child_arrays,
    child_fields,
    child_names,
    is_any_list,
    is_bytes,
    is_text,
    with_children,
)
from lakeport.kernel.variant import rebuild_variant

_Key = TypeVar("_Key")


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


class FieldIndex:
    """Finds the columns of a file, in constant time; the first of several."""

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self.fields = list(fields)

    def find(self, target: pa.Field) -> int | None:
        """The index of column `target`: by its field id if it has one, otherwise by name."""
        if (field_id := (target.metadata or {}).get(FIELD_ID)) is not None:
            return self._by_id.get(field_id)
        exact = self._by_name.get(target.name)
        return self._by_lowered_name.get(target.name.lower()) if exact is None else exact

    @cached_property
    def _by_id(self) -> dict[bytes | None, int]:
        return _places((field.metadata or {}).get(FIELD_ID) for field in self.fields)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return _places(field.name for field in self.fields)

    @cached_property
    def _by_lowered_name(self) -> dict[str, int]:
        return _places(field.name.lower() for field in self.fields)


def _places(keys: Iterable[_Key]) -> dict[_Key, int]:
    """The first place of each key."""
    places: dict[_Key, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    return places


def columns_to_read(fields: Iterable[pa.Field], targets: Iterable[pa.Field], parents: str = "") -> list[str]:
    """The dotted paths of the Parquet columns that `conform` needs; prunes struct fields."""
    paths: list[str] = []
    sources = FieldIndex(fields)
    for target in targets:
        if (index := sources.find(target)) is None:
            continue
        source = sources.fields[index]
        path = f"{parents}{source.name}"
        if pa.types.is_struct(target.type) and pa.types.is_struct(source.type) and not is_variant_field(target):
            # Read at least one leaf of a struct, to know which rows are null.
            inner = columns_to_read(source.type, target.type, f"{path}.")
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
    sources = FieldIndex(batch.schema)
    arrays, fields = [], []
    for target in schema:
        index = sources.find(target)
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
        indices = map(FieldIndex(source).find, target)
        sources = [None if index is None else array.field(index) for index in indices]
        return with_children(array, target, _conform_all(sources, target, len(array), name, path))
    if pa.types.is_list(target) and is_any_list(source):
        array = array if pa.types.is_list(source) else array.cast(pa.list_(source.value_field))
        return with_children(array, target, _conform_all([array.values], target, len(array.values), name, path))
    if pa.types.is_map(target) and pa.types.is_map(source):
        parts = [array.keys, array.items]
        return with_children(array, target, _conform_all(parts, target, len(array.keys), name, path))
    try:
        return cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise CorruptTableError(
            f"the column {name!r} has the type {source} in the data file, which cannot be read as {target}: {error}",
            path=path,
        ) from error


def _conform_all(
    sources: Sequence[pa.Array | None], target: pa.DataType, length: int, name: str, path: str
) -> list[pa.Array]:
    inner = zip(sources, child_fields(target), child_names(target), strict=True)
    return [_conform(source, field, length, f"{name}.{label}", path) for source, field, label in inner]


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
        raise TypeError(f"Delta cannot widen {source} to {target}")
    return array.cast(target)


def _cast_timestamp(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_date(array.type):
        if target.tz is not None:
            raise TypeError("Delta cannot widen a date to a timestamp with a zone")
        return array.cast(pa.date32()).cast(target)
    if not pa.types.is_timestamp(array.type):
        raise TypeError("not a timestamp")
    return cast_moments(array, target, safe=False)


def cast_moments(array: pa.Array, target: pa.DataType, *, safe: bool) -> pa.Array:
    """Cast timestamps with or without a zone: both count from the epoch in UTC. Nanoseconds are rounded down."""
    moments, in_nanoseconds = array.view(pa.timestamp(array.type.unit)), array.type.unit == "ns"
    if in_nanoseconds:  # a cast would round towards the epoch, but statistics are rounded down
        moments = pc.floor_temporal(moments, unit="microsecond")
    return moments.cast(pa.timestamp(target.unit), safe=safe and not in_nanoseconds).view(target)


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
    if is_text(source) or is_bytes(source):
        return is_text(target) or is_bytes(target)
    return bool(types.is_date(source) and types.is_date(target))


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
    if array.type == target.type or not pa.types.is_nested(target.type):
        return array
    children = zip(child_arrays(array), child_fields(source.type), child_fields(target.type), strict=True)
    return with_children(array, target.type, [convert(*child) for child in children])


def map_leaves(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply `change`, which keeps types and nulls, to every primitive column in the array."""
    children = [map_leaves(child, change) for child in child_arrays(array)]
    return with_children(array, array.type, children) if children else change(array)


def without_hidden_nulls(array: pa.Array) -> pa.Array:
    """Replace nulls of required fields inside null structs. Arrow's Parquet writer rejects such a null, although no
    reader could see it. Visible required fields must not have nulls."""
    if not _has_required(array.type):
        return array
    children = list(map(without_hidden_nulls, child_arrays(array)))
    if pa.types.is_struct(array.type):
        children = [_filled(child, field) for child, field in zip(children, array.type, strict=True)]
    return with_children(array, array.type, children)


def _has_required(data_type: pa.DataType) -> bool:
    """Whether any struct in the type has a required field."""
    inner = child_fields(data_type)
    is_required = pa.types.is_struct(data_type) and not all(field.nullable for field in inner)
    return is_required or any(_has_required(field.type) for field in inner)


def _filled(array: pa.Array, field: pa.Field) -> pa.Array:
    """A required field without its null mask: exposes the stored values."""
    if field.nullable or not array.null_count:
        return array
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(child_arrays(array), fields=list(array.type))
    nested = pa.types.is_nested(array.type)
    buffers = [None, *array.buffers()[1 : 2 if nested else None]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset, [array.values] if nested else None)
