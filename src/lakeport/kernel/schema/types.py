"""Delta's types and schemas: name lookup, type widening, keys in column metadata, columns outside a schema, walks, and
the JSON of the log.

`parts_of` and `with_parts` take one level of a type apart and put it together again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

import msgspec
import pyarrow as pa

from lakeport.errors import CorruptTableError, UnknownColumnError, UnsupportedFeatureError
from lakeport.kernel.schema.names import parse_path

COMMENT = "comment"
DEFAULT = "CURRENT_DEFAULT"
"""The SQL text of the default value."""
GENERATION_EXPRESSION = "delta.generationExpression"
"""The SQL text of the generated value."""
INVARIANTS = "delta.invariants"
"""JSON with the SQL text of a condition."""
TYPE_CHANGES = "delta.typeChanges"
MAPPING_PREFIX = "delta.columnMapping."
"""Prefix of all keys about column mapping."""
COLUMN_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"
"""The ids of list elements, map keys and map values, by path."""


DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without children, by its protocol name: `long`, `string`, `decimal(10,2)`, `variant` …"""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal; None for any other type."""
        match = DECIMAL.fullmatch(self.name)
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
        mapped: str | None = self.metadata.get(PHYSICAL_NAME)
        return mapped if mapped and mapping_mode != "none" else self.name

    @property
    def field_id(self) -> int | None:
        return self.metadata.get(COLUMN_ID)


@dataclass(frozen=True)
class StructType:
    fields: tuple[StructField, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return StructType, (self.fields,)

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> StructField | None:
        """The field with this name; Delta's column names are case-insensitive."""
        exact = self._by_name.get(name)
        return self._by_lowered_name.get(name.lower()) if exact is None else exact

    @cached_property
    def _by_name(self) -> dict[str, StructField]:
        return {f.name: f for f in reversed(self.fields)}  # the first of several stays

    @cached_property
    def _by_lowered_name(self) -> dict[str, StructField]:
        return {f.name.lower(): f for f in reversed(self.fields)}

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
            raise ValueError(f"a column name must be text, not {column!r}")
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

VOID = PrimitiveType("void")
_WIDER_INTEGERS = {"byte": 0, "short": 1, "integer": 2, "long": 3}


def _cut(whole: StructField, inner: list[tuple[str, ...]] | None) -> StructField:
    if inner is None or not isinstance(whole.type, StructType):
        return whole
    return replace(whole, type=whole.type.select(inner))


def widens(before: str, after: str) -> bool:
    """Whether type widening allows this change of a primitive type."""
    if before == after:
        return True
    if before in _WIDER_INTEGERS and after in _WIDER_INTEGERS:
        return _WIDER_INTEGERS[before] < _WIDER_INTEGERS[after]
    if after == "double":
        return before in ("float", "byte", "short", "integer")
    if after == "timestamp_ntz":
        return before == "date"
    if target := PrimitiveType(after).decimal:
        integers = {"byte": (10, 0), "short": (10, 0), "integer": (10, 0), "long": (20, 0)}
        source = integers.get(before) or PrimitiveType(before).decimal
        return source is not None and target[0] - source[0] >= target[1] - source[1] >= 0
    return False


ROW_ID = StructField("_row_id", PrimitiveType("long"))
ROW_COMMIT_VERSION = StructField("_row_commit_version", PrimitiveType("long"))
"""Columns that a scan can request in tables with row tracking."""
ROW_POSITION = StructField("__lakeport_row_index", PrimitiveType("long"), nullable=False)
"""A column that a scan can request: the position of each row in its file."""

CHANGE_TYPE = StructField("_change_type", PrimitiveType("string"))
COMMIT_VERSION = StructField("_commit_version", PrimitiveType("long"))
COMMIT_TIMESTAMP = StructField("_commit_timestamp", PrimitiveType("timestamp"))
CHANGE_COLUMNS = StructType((CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP))
"""The columns of a change besides the table's."""


_Type = TypeVar("_Type", bound=DataType)
_Path = tuple[str, ...]


def parts_of(data_type: DataType) -> tuple[StructField, ...]:
    """The fields directly in a type; those of lists and maps are called `element`, `key` and `value`, as in the
    protocol's field paths."""
    match data_type:
        case StructType(fields):
            return fields
        case ArrayType(element, contains_null):
            return (StructField("element", element, contains_null),)
        case MapType(key, value, contains_null):
            return StructField("key", key, nullable=False), StructField("value", value, contains_null)
    return ()


def with_parts(data_type: _Type, parts: Iterable[StructField]) -> _Type:
    """The same kind of type over other parts."""
    whole: DataType = data_type
    match whole:
        case StructType():
            whole = StructType(tuple(parts))
        case ArrayType():
            (element,) = parts
            whole = ArrayType(element.type, element.nullable)
        case MapType():
            key, value = parts
            whole = MapType(key.type, value.type, value.nullable)
    return cast("_Type", whole)


def types_in(data_type: DataType) -> Iterator[DataType]:
    """A type and all types nested in it, outer ones first."""
    yield data_type
    for part in parts_of(data_type):
        yield from types_in(part.type)


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


@dataclass(frozen=True)
class Place:
    """A struct field and its path; through lists and maps by `element`, `key` and `value`."""

    path: _Path
    field: StructField
    is_repeated: bool
    """Whether it is in a list or map, so that a row has any number of values for it."""


def places_in(data_type: DataType, parents: _Path = (), is_repeated: bool = False) -> Iterator[Place]:
    """All struct fields in a type, each followed by those in it."""
    is_struct = isinstance(data_type, StructType)
    for part in parts_of(data_type):
        path = (*parents, part.name)
        if is_struct:
            yield Place(path, part, is_repeated)
        yield from places_in(part.type, path, is_repeated or not is_struct)


def map_fields(data_type: _Type, change: Callable[[StructField], StructField]) -> _Type:
    """Change each struct field in a type, then those in it."""
    parts: Iterable[StructField] = parts_of(data_type)
    changed = map(change, parts) if isinstance(data_type, StructType) else parts
    return with_parts(data_type, (replace(part, type=map_fields(part.type, change)) for part in changed))


def all_nullable(data_type: _Type, keep: Collection[str] | None = None) -> _Type:
    """The type with nulls allowed everywhere. `keep` lists the metadata to keep; None keeps all."""

    def relaxed(part: StructField) -> StructField:
        metadata = {key: value for key, value in part.metadata.items() if keep is None or key in keep}
        return StructField(part.name, all_nullable(part.type, keep), metadata=metadata)

    return with_parts(data_type, map(relaxed, parts_of(data_type)))


def same_shape(left: DataType, right: DataType) -> bool:
    """Whether two types are equal, ignoring nullability and metadata of fields."""
    return all_nullable(left, keep=()) == all_nullable(right, keep=())


def logical_path(schema: StructType, physical: _Path, mapping_mode: str) -> _Path | None:
    """The names on a path given by physical names; None if there is no such column."""
    names: list[str] = []
    struct: DataType = schema
    for part in physical:
        fields = struct.fields if isinstance(struct, StructType) else ()
        found = next((f for f in fields if f.physical_name(mapping_mode) == part), None)
        if found is None:
            return None
        names.append(found.name)
        struct = found.type
    return tuple(names)


PRIMITIVES: dict[str, pa.DataType] = {
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
"""The names of all primitive types but decimals, and their Arrow types."""
_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "null": "void"}
_METADATA_KINDS = {PHYSICAL_NAME: str | None, COLUMN_ID: int | None, TYPE_CHANGES: list | None}
"""The column metadata that this kernel reads."""


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
        return parse_primitive(raw)
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
            return parse_primitive(name)
    raise ValueError(f"unknown type {raw!r}")


def _parse_field(raw: Any) -> StructField:
    name, nullable, metadata = raw["name"], raw.get("nullable", True), raw.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(nullable, bool) or not isinstance(metadata, dict):
        raise ValueError(f"bad field {raw!r}")
    for key in _METADATA_KINDS.keys() & metadata:
        if not isinstance(metadata[key], _METADATA_KINDS[key]):
            raise ValueError(f"bad {key} of field {name!r}")
    return StructField(name, _parse_type(raw["type"]), nullable, metadata)


@lru_cache(maxsize=256)
def parse_primitive(name: str) -> PrimitiveType:
    """Raises `ValueError` and `UnsupportedFeatureError`."""
    name = _ALIASES.get(name, name)
    if name == "decimal":
        name = "decimal(10,0)"
    if name in PRIMITIVES:
        return PrimitiveType(name)
    if match := DECIMAL.fullmatch(name):
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
