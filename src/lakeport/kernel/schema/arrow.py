"""Schemas in Arrow, and back."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types

from lakeport.kernel.schema.types import (
    COMMENT,
    DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    MAPPING_PREFIX,
    PRIMITIVES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parts_of,
)
from lakeport.kernel.values import is_any_list, is_bytes, is_text

VARIANT_METADATA = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}
"""Metadata of a variant's Arrow field: Arrow's extension type over a struct. Consumers that know the type, such as
DuckDB, see a variant; others see the struct."""


def arrow_type(data_type: DataType, field_of: Callable[[StructField], pa.Field] | None = None) -> pa.DataType:
    """The Arrow type; `field_of` determines the names and metadata of struct fields."""
    if isinstance(data_type, PrimitiveType):
        return _primitive_type(data_type)
    parts = map(field_of or arrow_field, parts_of(data_type))
    match data_type:
        case ArrayType():
            return pa.list_(*parts)
        case MapType():
            return pa.map_(*parts)
        case StructType():
            return pa.struct(list(parts))


def _primitive_type(data_type: PrimitiveType) -> pa.DataType:
    if data_type.name not in PRIMITIVES and (decimal := data_type.decimal):
        return pa.decimal128(*decimal)
    return PRIMITIVES[data_type.name]


def is_variant(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name == "variant"


def is_variant_field(field: pa.Field) -> bool:
    """Whether an Arrow field is marked as a variant."""
    return (field.metadata or {}).get(b"ARROW:extension:name") == b"arrow.parquet.variant"


def arrow_field(struct_field: StructField) -> pa.Field:
    """The logical Arrow field of a column."""
    metadata = VARIANT_METADATA if is_variant(struct_field.type) else None
    return pa.field(struct_field.name, arrow_type(struct_field.type), struct_field.nullable, metadata)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The logical Arrow schema of a table."""
    return pa.schema([arrow_field(f) for f in schema])


def nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, all nullable."""
    return pa.schema([f.with_nullable(True) for f in schema])


_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (types.is_boolean, "boolean"),
    (types.is_int8, "byte"),
    (types.is_int16, "short"),
    (types.is_uint8, "short"),
    (types.is_int32, "integer"),
    (types.is_uint16, "integer"),
    (types.is_int64, "long"),
    (types.is_uint32, "long"),
    (types.is_uint64, "decimal(20,0)"),
    (types.is_float16, "float"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (is_text, "string"),
    (is_bytes, "binary"),
    (types.is_date, "date"),
    (types.is_null, "void"),
)
_INSTEAD = (
    (types.is_time, "cast it to a string, or to int64 of the units since midnight"),
    (types.is_duration, "cast it to int64"),
    (types.is_interval, "pass its months, days and nanoseconds as separate columns"),
    (types.is_union, "give each of its types a separate column"),
)


_HONOURED = (COMMENT, DEFAULT, GENERATION_EXPRESSION, INVARIANTS)


def schema_from_arrow(schema: pa.Schema, *, with_metadata: bool = False) -> StructType:
    """The Delta schema for an Arrow schema, including nullability. `with_metadata` also takes comments, defaults,
    generation expressions and invariants from the field metadata, by Delta's keys.

    Unsigned integers become the next wider type. Raises `ValueError` for a type without a Delta counterpart, and for
    Delta metadata that cannot be adopted."""
    return StructType(tuple(_field_from_arrow(f, f.name, with_metadata) for f in schema))


def _field_from_arrow(field: pa.Field, where: str, with_metadata: bool) -> StructField:
    metadata = _metadata_from_arrow(field, where) if with_metadata else {}
    return StructField(field.name, _type_in_field(field, where, with_metadata), field.nullable, metadata)


def _metadata_from_arrow(field: pa.Field, where: str) -> dict[str, str]:
    given = {key.decode(): value.decode(errors="replace") for key, value in (field.metadata or {}).items()}
    for key in given:
        if key.startswith("delta.") and key not in _HONOURED and not key.startswith(MAPPING_PREFIX):
            raise ValueError(
                f"the column {where!r} has the metadata {key}, which a new column cannot have: remove it from the "
                "Arrow field"
            )
    return {key: given[key] for key in _HONOURED if key in given}


def _type_in_field(field: pa.Field, where: str, with_metadata: bool) -> DataType:
    return PrimitiveType("variant") if is_variant_field(field) else _type_from_arrow(field.type, where, with_metadata)


def _type_from_arrow(arrow: pa.DataType, where: str, with_metadata: bool) -> DataType:
    if isinstance(arrow, pa.BaseExtensionType):
        is_known = arrow.extension_name == "arrow.parquet.variant"
        return PrimitiveType("variant") if is_known else _type_from_arrow(arrow.storage_type, where, with_metadata)
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return _type_from_arrow(arrow.value_type, where, with_metadata)
    if types.is_struct(arrow):
        return StructType(tuple(_field_from_arrow(f, f"{where}.{f.name}", with_metadata) for f in arrow))
    if types.is_map(arrow):
        key = _type_in_field(arrow.key_field, f"{where}.key", with_metadata)
        value = _type_in_field(arrow.item_field, f"{where}.value", with_metadata)
        return MapType(key, value, arrow.item_field.nullable)
    if is_any_list(arrow):
        element = _type_in_field(arrow.value_field, f"{where}.element", with_metadata)
        return ArrayType(element, arrow.value_field.nullable)
    return _primitive_from_arrow(arrow, where)


def _primitive_from_arrow(arrow: pa.DataType, where: str) -> PrimitiveType:
    if types.is_timestamp(arrow):
        return PrimitiveType("timestamp" if arrow.tz is not None else "timestamp_ntz")
    if types.is_decimal(arrow):
        return _decimal_from_arrow(arrow, where)
    for is_a, name in _FROM_ARROW:
        if is_a(arrow):
            return PrimitiveType(name)
    instead = next((what for is_a, what in _INSTEAD if is_a(arrow)), "cast it to a type that Delta supports")
    raise ValueError(f"the column {where!r} has the type {arrow}, which Delta does not support: {instead}")


def _decimal_from_arrow(arrow: pa.DataType, where: str) -> PrimitiveType:
    scale = max(arrow.scale, 0)
    precision = max(arrow.precision - min(arrow.scale, 0), scale)
    if precision > 38:
        raise ValueError(
            f"the column {where!r} has the type {arrow}, but Delta's decimals have up to 38 digits: cast it to fewer, "
            "or to a string or a double"
        )
    return PrimitiveType(f"decimal({precision},{scale})")
