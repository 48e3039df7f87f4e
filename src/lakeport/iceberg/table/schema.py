"""Delta schemas as Iceberg schemas: types, field ids that survive renames, adds and drops, and unsupported features.

Field ids are kept by physical column name, in Iceberg's name mapping. Files without field ids are read by this mapping,
in any snapshot. So a name keeps its id for the life of the mirror, even after the column is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakeport.errors import ConversionError
from lakeport.kernel.definition import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from lakeport.kernel.schema import (
    CHANGE_TYPE,
    COMMENT,
    NESTED_IDS,
    TYPE_CHANGES,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    fields_in,
    find_twice_mapped,
    parts_of,
)

Json = dict[str, Any]

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds the mapping."""

FIRST_NESTED_ID = 1_000_001
"""Delta numbers only struct fields, and keeps counting. List elements, map keys and map values get ids that it never
reaches."""

Path = tuple[str, ...]
"""Physical names on the path to a field; `element`, `key` and `value` lead into lists and maps."""

_PRIMITIVES: Mapping[str, str] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_PROMOTIONS = {("int", "long"), ("float", "double")}


class FieldIdConflict(Exception):  # noqa: N818  # never leaves the conversion: the mirror is rebuilt
    """A column's id in Delta differs from the one the mirror assigned."""


@dataclass(frozen=True)
class ConvertedSchema:
    """An Iceberg schema, and all field ids known with it."""

    fields: tuple[Json, ...]
    """In the JSON of Iceberg's table metadata."""
    ids: FieldIds


def convert_schema(
    schema: StructType,
    mapping_mode: str,
    known: FieldIds,
    format_version: int,
    properties: Mapping[str, str | None] | None = None,
) -> ConvertedSchema:
    """Convert a Delta schema. `known` are the ids that the mirror has assigned so far.

    With column mapping, ids are Delta's, since the files have them; without, they go by column name. Raises
    `ConversionError` if Iceberg cannot express it, and `FieldIdConflict` if an id would have to change."""
    _check_type_changes(schema)
    if mapping_mode != "none":
        for problem in find_twice_mapped(schema):
            raise ConversionError(f"{problem}: Iceberg would read one as the other", reason="columns mapped twice")
    builder = _Builder(mapping_mode, dict(known.by_path), format_version)
    fields = tuple(builder.struct(schema, ()))
    # Some readers reject a file with a column that the name mapping lacks.
    stored_only = (named.of(properties or {}) for named in (ROW_ID_COLUMN, ROW_COMMIT_VERSION_COLUMN))
    for column in (CHANGE_TYPE.name, *stored_only):
        if column and (column,) not in builder.by_path:
            builder.nested((column,), None)
    _check_names(schema)
    return ConvertedSchema(fields, FieldIds(builder.by_path))


class _Builder:
    def __init__(self, mapping_mode: str, by_path: dict[Path, int], format_version: int) -> None:
        self._mode, self.by_path, self._format_version = mapping_mode, by_path, format_version

    def struct(self, struct: StructType, parents: Path) -> list[Json]:
        """The fields, numbered outer ones first, like Delta does when it enables column mapping."""
        return [self._field(field, (*parents, field.physical_name(self._mode))) for field in struct]

    def _field(self, field: StructField, path: Path) -> Json:
        number = self._named(path, field.field_id if self._mode != "none" else None)
        nested = field.metadata.get(NESTED_IDS) or {} if self._mode != "none" else {}
        found: Json = {"id": number, "name": field.name, "required": not field.nullable}
        found["type"] = self._type(field.type, path, _NestedIds(nested, path), field.name)
        if isinstance(comment := field.metadata.get(COMMENT), str):
            found["doc"] = comment
        return found

    def _type(self, data_type: DataType, path: Path, nested: _NestedIds, column: str) -> Any:
        match data_type:
            case PrimitiveType():
                return self._primitive(data_type, column)
            case StructType():
                return {"type": "struct", "fields": self.struct(data_type, path)}
            case ArrayType(element, contains_null):
                inner = (*path, "element")
                return {
                    "type": "list",
                    "element-id": self.nested(inner, nested.of(inner)),
                    "element": self._type(element, inner, nested, f"{column}.element"),
                    "element-required": not contains_null,
                }
            case MapType(key, value, contains_null):
                keys, values = (*path, "key"), (*path, "value")
                return {
                    "type": "map",
                    "key-id": self.nested(keys, nested.of(keys)),
                    "key": self._type(key, keys, nested, f"{column}.key"),
                    "value-id": self.nested(values, nested.of(values)),
                    "value": self._type(value, values, nested, f"{column}.value"),
                    "value-required": not contains_null,
                }

    def _primitive(self, data_type: PrimitiveType, column: str) -> str:
        if data_type.name == "variant" and self._format_version >= 3:
            return "variant"
        converted = iceberg_primitive(data_type)
        if converted is None:
            hint = "; format version 3 does" if data_type.name == "variant" else ""
            raise ConversionError(
                f"the column {column!r} has the type {data_type.name}, which Iceberg's format version "
                f"{self._format_version} does not support{hint}",
                reason=f"type {data_type.name}",
            )
        return converted

    def _named(self, path: Path, delta_id: int | None) -> int:
        known = self.by_path.get(path)
        if delta_id is None:
            return self._give(path, FieldIds(self.by_path).next_named() if known is None else known)
        if known not in (None, delta_id) or (known is None and delta_id in self.by_path.values()):
            raise FieldIdConflict(path)
        return self._give(path, delta_id)

    def nested(self, path: Path, delta_id: int | None) -> int:
        known = self.by_path.get(path)
        if delta_id is None:
            return self._give(path, FieldIds(self.by_path).next_nested() if known is None else known)
        if known not in (None, delta_id):
            raise FieldIdConflict(path)
        return self._give(path, delta_id)

    def _give(self, path: Path, number: int) -> int:
        self.by_path[path] = number
        return number


@dataclass(frozen=True)
class _NestedIds:
    """Delta's ids for the elements, keys and values in one column, if any."""

    ids: Mapping[str, int]
    column: Path

    def of(self, path: Path) -> int | None:
        return self.ids.get(".".join(path[len(self.column) - 1 :]))


def iceberg_primitive(data_type: PrimitiveType) -> str | None:
    """The Iceberg type; None if some format version lacks it."""
    if decimal := data_type.decimal:
        return f"decimal({decimal[0]}, {decimal[1]})"
    return _PRIMITIVES.get(data_type.name)


def _check_type_changes(schema: StructType) -> None:
    """Older files have the old type: Iceberg must be able to promote it to the new one."""
    for column in fields_in(schema):
        for change in column.metadata.get(TYPE_CHANGES) or ():
            before, after = str(change.get("fromType")), str(change.get("toType"))
            if not _promotes(PrimitiveType(before), PrimitiveType(after)):
                raise ConversionError(
                    f"the column {column.name!r} was widened from {before} to {after}, which Iceberg cannot read in "
                    "its older files; rewrite the table and drop the feature typeWidening, then convert it",
                    reason=f"widening {before} to {after}",
                )


def _promotes(before: PrimitiveType, after: PrimitiveType) -> bool:
    """See "Schema Evolution" in Iceberg's specification."""
    if before.decimal and after.decimal:
        return before.decimal[1] == after.decimal[1] and before.decimal[0] <= after.decimal[0]
    pair = (iceberg_primitive(before), iceberg_primitive(after))
    return pair[0] is not None and (pair[0] == pair[1] or pair in _PROMOTIONS)


def _check_names(schema: StructType) -> None:
    """Iceberg's libraries look up columns by dotted name, which must be unambiguous."""
    for name, times in Counter(_full_names(schema, "")).items():
        if times > 1:
            raise ConversionError(
                f"two columns are called {name!r} in Iceberg, which joins nested names with dots; rename one of them",
                reason="ambiguous names",
            )


def _full_names(data_type: DataType, prefix: str) -> Iterator[str]:
    for part in parts_of(data_type):
        yield f"{prefix}{part.name}"
        yield from _full_names(part.type, f"{prefix}{part.name}.")


# Field ids by name


@dataclass(frozen=True)
class FieldIds:
    """All ids ever assigned, by path."""

    by_path: Mapping[Path, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.by_path.values(), default=0)

    def next_named(self) -> int:
        return max((n for n in self.by_path.values() if n < FIRST_NESTED_ID), default=0) + 1

    def next_nested(self) -> int:
        return max((n for n in self.by_path.values() if n >= FIRST_NESTED_ID), default=FIRST_NESTED_ID - 1) + 1


def parse_name_mapping(text: str | None) -> FieldIds:
    """The ids in a name mapping. Raises `ValueError` for invalid text."""
    by_path: dict[Path, int] = {}

    def collect(items: Any, parents: Path) -> None:
        for item in items:
            for name in item["names"]:
                by_path[(*parents, name)] = int(item["field-id"])
                collect(item.get("fields") or (), (*parents, name))

    try:
        collect(msgspec.json.decode(text) if text else (), ())
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{NAME_MAPPING} is not a name mapping: {error!r}") from error
    return FieldIds(by_path)


def format_name_mapping(ids: FieldIds) -> str:
    """The mapping as JSON."""
    top: dict[str, Any] = {}
    items: dict[Path, dict[str, Any]] = {(): top}
    for path, number in sorted(ids.by_path.items(), key=lambda item: (len(item[0]), item[1])):
        item: dict[str, Any] = {"field-id": number, "names": [path[-1]]}
        items[path[:-1]].setdefault("fields", []).append(item)
        items[path] = item
    return msgspec.json.encode(top.get("fields", [])).decode()
