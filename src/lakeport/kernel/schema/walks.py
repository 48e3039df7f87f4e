"""Walks over types: `parts_of` and `with_parts` take one level apart and put it together again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from lakeport.kernel.schema.types import ArrayType, DataType, MapType, StructField, StructType

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
