"""Delta's types and schemas: their JSON and Arrow forms, and name lookup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from lakeport.errors import CorruptTableError, UnknownColumnError, UnsupportedFeatureError
from lakeport.kernel.schema.keys import COMMENT, DEFAULT, GENERATION_EXPRESSION, INVARIANTS
from lakeport.kernel.schema.names import parse_path

VARIANT_METADATA = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}
"""Metadata of a variant's Arrow field: Arrow's extension type over a struct. Consumers that know the type, such as
DuckDB, see a variant; others see the struct."""

_ARROW_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "variant": pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]),
}
_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "null": "void"}
_METADATA_KINDS = {
    "delta.columnMapping.physicalName": str,
    "delta.columnMapping.id": int,
    "delta.typeChanges": list,
}
"""The column metadata that this kernel reads."""

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without children, by its protocol name: `long`, `string`, `decimal(10,2)`, `variant` …"""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal; None for any other type."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class StructField:
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def physical_name(self, mapping_mode: str) -> str:
        """The name in data files, partition values and statistics, by column mapping mode (`none`, `name`, `id`)."""
        mapped: str | None = self.metadata.get("delta.columnMapping.physicalName")
        return mapped if mapped and mapping_mode != "none" else self.name

    @property
    def field_id(self) -> int | None:
        return self.metadata.get("delta.columnMapping.id")


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[StructField, ...]

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> StructField | None:
        """The field with this name; Delta's column names are case-insensitive."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        lowered = name.lower()
        return next((f for f in self.fields if f.name.lower() == lowered), None)

    def resolve(self, path: tuple[str, ...]) -> tuple[StructField, ...]:
        """The fields along the path to a (nested) column. Raises `UnknownColumnError`."""
        found: list[StructField] = []
        struct: DataType = self
        for depth, name in enumerate(path):
            match = struct.find(name) if isinstance(struct, StructType) else None
            if match is None:
                known = ", ".join(struct.names) if isinstance(struct, StructType) else "no fields"
                where = f" in {'.'.join(path[:depth])}" if depth else ""
                raise UnknownColumnError(
                    f"unknown column {'.'.join(path)!r}: there is no {name!r}{where}; it has {known}",
                    column=".".join(path),
                )
            found.append(match)
            struct = match.type
        return tuple(found)

    def path_of(self, column: str) -> tuple[str, ...]:
        """Resolve a user's column name: a column with exactly this name, or dots that lead into structs.

        Raises `ValueError` if it is not text."""
        if not isinstance(column, str):
            raise ValueError(f"a column is named by text, not by {column!r}")
        return (column,) if self.find(column) else parse_path(column)

    def select(self, paths: Iterable[tuple[str, ...]]) -> StructType:
        """Project the schema to some columns, in the order of first mention; ("a", "b") keeps one field of a struct.
        Raises `UnknownColumnError`."""
        wanted: dict[str, list[tuple[str, ...]] | None] = {}
        for path in paths:
            name = self.resolve(path)[0].name
            inner = wanted.get(name, [])
            wanted[name] = None if len(path) == 1 or inner is None else [*inner, path[1:]]
        return StructType(tuple(_cut(self.resolve((name,))[0], inner) for name, inner in wanted.items()))


DataType = PrimitiveType | ArrayType | MapType | StructType


def _cut(whole: StructField, inner: list[tuple[str, ...]] | None) -> StructField:
    if inner is None or not isinstance(whole.type, StructType):
        return whole
    return replace(whole, type=whole.type.select(inner))


def types_in(data_type: DataType) -> Iterator[DataType]:
    """A type and all types nested in it, outer ones first."""
    yield data_type
    match data_type:
        case StructType(fields):
            for inner in fields:
                yield from types_in(inner.type)
        case ArrayType(element):
            yield from types_in(element)
        case MapType(key, value):
            yield from types_in(key)
            yield from types_in(value)


def fields_in(data_type: DataType) -> list[StructField]:
    """All fields in a type, including those of structs in lists and maps, outer ones first."""
    return [f for inner in types_in(data_type) if isinstance(inner, StructType) for f in inner]


def leaves_of(struct: StructType, parents: tuple[StructField, ...] = ()) -> Iterator[tuple[StructField, ...]]:
    """The fields along the path to each non-struct column; lists, maps and variants are leaves."""
    for child in struct:
        way = (*parents, child)
        if isinstance(child.type, StructType):
            yield from leaves_of(child.type, way)
        else:
            yield way


def parse_schema(text: str, *, path: str = "") -> StructType:
    """Parse the schema JSON of a `metaData` action. Raises `CorruptTableError` naming `path`."""
    try:
        parsed = _parse_type(msgspec.json.decode(text))
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CorruptTableError(f"the table's schema cannot be read: {error!r}", path=path) from error
    if not isinstance(parsed, StructType):
        raise CorruptTableError("the table's schema is not a struct", path=path)
    return parsed


def _parse_type(raw: Any) -> DataType:
    if isinstance(raw, str):
        return _parse_primitive(raw)
    match raw["type"]:
        case "struct":
            return StructType(tuple(_parse_field(item) for item in raw["fields"]))
        case "array":
            return ArrayType(_parse_type(raw["elementType"]), bool(raw.get("containsNull", True)))
        case "map":
            return MapType(
                _parse_type(raw["keyType"]), _parse_type(raw["valueType"]), bool(raw.get("valueContainsNull", True))
            )
        case str(name):
            return _parse_primitive(name)
    raise ValueError(f"unknown type {raw!r}")


def _parse_field(raw: Any) -> StructField:
    name, nullable, metadata = raw["name"], raw.get("nullable", True), raw.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(nullable, bool) or not isinstance(metadata, dict):
        raise ValueError(f"bad field {raw!r}")
    for key, kind in _METADATA_KINDS.items():
        if not isinstance(metadata.get(key), kind | None):
            raise ValueError(f"bad {key} of field {name!r}")
    return StructField(name, _parse_type(raw["type"]), nullable, metadata)


def _parse_primitive(name: str) -> PrimitiveType:
    name = _ALIASES.get(name, name)
    if name == "decimal":
        name = "decimal(10,0)"
    if name in _ARROW_PRIMITIVES:
        return PrimitiveType(name)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ValueError(f"bad type {name!r}")
        return PrimitiveType(f"decimal({precision},{scale})")
    raise UnsupportedFeatureError(
        f"a column has the type {name!r}, which this version of Lakeport does not read; upgrade Lakeport",
        features=[f"type {name}"],
    )


def format_schema(schema: StructType) -> str:
    """The JSON of a schema, as stored in a `metaData` action."""
    return msgspec.json.encode(_format_type(schema)).decode()


def _format_type(data_type: DataType) -> Any:
    match data_type:
        case PrimitiveType(name):
            return name
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _format_type(element), "containsNull": contains_null}
        case MapType(key, value, contains_null):
            return {
                "type": "map",
                "keyType": _format_type(key),
                "valueType": _format_type(value),
                "valueContainsNull": contains_null,
            }
        case StructType(fields):
            return {
                "type": "struct",
                "fields": [
                    {"name": f.name, "type": _format_type(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
                    for f in fields
                ],
            }


def arrow_type(data_type: DataType, field_of: Callable[[StructField], pa.Field] | None = None) -> pa.DataType:
    """The Arrow type; `field_of` determines the names and metadata of struct fields."""
    make = field_of or arrow_field
    match data_type:
        case PrimitiveType(name):
            if decimal := data_type.decimal:
                return pa.decimal128(*decimal)
            return _ARROW_PRIMITIVES[name]
        case ArrayType(element, contains_null):
            return pa.list_(make(StructField("element", element, contains_null)))
        case MapType(key, value, contains_null):
            return pa.map_(
                make(StructField("key", key, nullable=False)), make(StructField("value", value, contains_null))
            )
        case StructType(fields):
            return pa.struct([make(f) for f in fields])


def is_variant(data_type: DataType) -> bool:
    return data_type == PrimitiveType("variant")


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
    (types.is_string, "string"),
    (types.is_large_string, "string"),
    (types.is_string_view, "string"),
    (types.is_binary, "binary"),
    (types.is_large_binary, "binary"),
    (types.is_binary_view, "binary"),
    (types.is_fixed_size_binary, "binary"),
    (types.is_date, "date"),
    (types.is_null, "void"),
)
_LISTS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)
_INSTEAD = (
    (types.is_time, "cast it to a string, or to int64 of the units since midnight"),
    (types.is_duration, "cast it to int64"),
    (types.is_interval, "give its months, days and nanoseconds as columns of their own"),
    (types.is_union, "give each of its types a column of its own"),
)


_HONOURED = (COMMENT, DEFAULT, GENERATION_EXPRESSION, INVARIANTS)
_IGNORED = "delta.columnMapping."
"""Ids and physical names belong to another table."""


def is_any_list(arrow: pa.DataType) -> bool:
    """Whether an Arrow type maps to Delta's array."""
    return any(is_a(arrow) for is_a in _LISTS)


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
        if key.startswith("delta.") and key not in _HONOURED and not key.startswith(_IGNORED):
            raise ValueError(
                f"the column {where!r} has the metadata {key}, which a new column cannot take over: remove it from the "
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
    instead = next((what for is_a, what in _INSTEAD if is_a(arrow)), "cast it to a type that Delta has")
    raise ValueError(f"the column {where!r} has the type {arrow}, which Delta does not have: {instead}")


def _decimal_from_arrow(arrow: pa.DataType, where: str) -> PrimitiveType:
    scale = max(arrow.scale, 0)
    precision = max(arrow.precision - min(arrow.scale, 0), scale)
    if precision > 38:
        raise ValueError(
            f"the column {where!r} has the type {arrow}, but Delta's decimals have up to 38 digits: cast it to fewer, "
            "or to a string or a double"
        )
    return PrimitiveType(f"decimal({precision},{scale})")
