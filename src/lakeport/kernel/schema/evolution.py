"""Schema evolution: each change is a pure function from schema to schema.

Paths follow the protocol (section "Field Path"): `element` for a list, `key` and `value` for a map. An invalid
change raises a `ValueError` with advice; a missing column raises `UnknownColumnError`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from lakeport.errors import UnknownColumnError
from lakeport.kernel.schema.column_mapping import without_mapping
from lakeport.kernel.schema.text import kind_of
from lakeport.kernel.schema.types import (
    DEFAULT,
    GENERATION_EXPRESSION,
    TYPE_CHANGES,
    VOID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_nullable,
    parts_of,
    widens,
    with_parts,
)

_INTEGERS = ("byte", "short", "integer", "long")

_Path = tuple[str, ...]
Uses = Mapping[str, Collection[_Path]]
"""Column paths by user: `the constraint 'positive'` → its paths."""


def add_column(schema: StructType, field: StructField, parent: _Path = ()) -> StructType:
    """Append a column, or a field to the struct at `parent`.

    The field's ids and physical names belong to another table and are dropped."""
    where = ".".join((*parent, field.name))
    if not field.nullable:
        raise ValueError(f"the new column {where!r} must be nullable: existing rows have no value for it")
    for key in (DEFAULT, GENERATION_EXPRESSION):
        if key in field.metadata:
            raise ValueError(f"the new column {where!r} cannot have {key}: existing rows have no value for it")

    def append(struct: DataType) -> DataType:
        if not isinstance(struct, StructType):
            raise ValueError(f"{'.'.join(parent)!r} is not a struct: fields cannot be added to it")
        if struct.find(field.name):
            raise ValueError(f"the column {where!r} already exists")
        return StructType((*struct.fields, *without_mapping(StructType((field,)))))

    return _edit(schema, parent, append)


def rename_column(schema: StructType, path: _Path, name: str, *, mapping_mode: str, uses: Uses) -> StructType:
    """Rename a column; its files keep the physical name."""
    _check_mapped("renamed", path, mapping_mode)
    _check_unused("renamed", path, uses)

    def rename(struct: StructType, old: StructField) -> tuple[StructField, ...]:
        other = struct.find(name)
        if other is not None and other is not old:
            raise ValueError(f"the column {'.'.join((*path[:-1], name))!r} already exists")
        return tuple(replace(f, name=name) if f is old else f for f in struct)

    return _edit_field(schema, path, rename)


def drop_column(
    schema: StructType, path: _Path, *, mapping_mode: str, partition_columns: Collection[str], uses: Uses
) -> StructType:
    """Drop a column; its files keep the values."""
    _check_mapped("dropped", path, mapping_mode)
    if len(path) == 1 and path[0].lower() in {name.lower() for name in partition_columns}:
        raise ValueError(f"the column {path[0]!r} cannot be dropped: the table is partitioned by it")
    _check_unused("dropped", path, uses)

    def drop(struct: StructType, old: StructField) -> tuple[StructField, ...]:
        rest = tuple(f for f in struct if f is not old)
        if not rest:
            raise ValueError(f"the column {'.'.join(path)!r} cannot be dropped: no other column would be left")
        return rest

    return _edit_field(schema, path, drop)


def relax_not_null(schema: StructType, path: _Path) -> StructType:
    """Allow nulls in a column, in the elements of a list or in the values of a map."""

    def relax(container: DataType) -> DataType:
        match container:
            case StructType() if old := container.find(path[-1]):
                return StructType(tuple(replace(f, nullable=True) if f is old else f for f in container))
            case ArrayType() if path[-1] == "element":
                return replace(container, contains_null=True)
            case MapType() if path[-1] == "value":
                return replace(container, value_contains_null=True)
        raise _unknown(path)

    return _edit(schema, path[:-1], relax)


def widen_column(schema: StructType, path: _Path, to: PrimitiveType, *, enabled: bool) -> StructType:
    """Widen the type of a column, element, key or value, and record the change.

    `enabled` is the table's `delta.enableTypeWidening`; a void column may change to any type without it."""

    def widen(before: DataType) -> DataType:
        where = ".".join(path)
        if not isinstance(before, PrimitiveType):
            raise ValueError(f"the column {where!r} does not have a primitive type: change the columns in it")
        if before != VOID and not widens(before.name, to.name):
            raise ValueError(f"the column {where!r} cannot change from {before.name} to {to.name}: it is not wider")
        if before not in (VOID, to) and not enabled:
            raise ValueError(
                f"the column {where!r} cannot change from {before.name} to {to.name}: set delta.enableTypeWidening to "
                "'true' first"
            )
        return to

    return record_type_changes(schema, _edit(schema, path, widen))


def set_metadata(schema: StructType, path: _Path, key: str, value: str | None) -> StructType:
    """Set a text in a column's metadata; None removes it."""

    def changed(field: StructField) -> StructField:
        rest = {name: known for name, known in field.metadata.items() if name != key}
        return replace(field, metadata=rest if value is None else {**rest, key: value})

    return _edit_field(schema, path, lambda struct, old: tuple(changed(f) if f is old else f for f in struct))


def merge_schema(table: StructType, data: StructType, *, widen: bool = False) -> StructType:
    """Append the data's new columns to the table's schema, as nullable, in structs too.

    With `widen` (the table's `delta.enableTypeWidening`), a column takes the data's wider type if it stays a number of
    the same kind; otherwise it keeps its type, and the data must fit. Raises `ValueError` if only one side is a struct,
    list or map. The data's ids and physical names are dropped."""
    return record_type_changes(table, _merge_struct(table, without_mapping(data), widen, ()))


def _merge_struct(table: StructType, data: StructType, widen: bool, path: _Path) -> StructType:
    merged = {f.name: f for f in table}
    for new in data:
        where = (*path, new.name)
        if (old := table.find(new.name)) is None:
            merged[new.name] = replace(new, type=all_nullable(new.type), nullable=True)
        else:
            merged[old.name] = replace(old, type=_merge_type(old.type, new.type, widen, where))
    return StructType(tuple(merged.values()))


def _merge_type(table: DataType, data: DataType, widen: bool, path: _Path) -> DataType:
    match table, data:
        case PrimitiveType("void"), _:
            return all_nullable(data)
        case _, PrimitiveType("void"):
            return table
        case StructType(), StructType():
            return _merge_struct(table, data, widen, path)
        case (ArrayType(), ArrayType()) | (MapType(), MapType()):
            pairs = zip(parts_of(table), parts_of(data), strict=True)
            merged = (replace(a, type=_merge_type(a.type, b.type, widen, (*path, a.name))) for a, b in pairs)
            return with_parts(table, merged)
        case PrimitiveType(before), PrimitiveType(after):
            return data if widen and _widens_in_kind(before, after) else table
    raise ValueError(
        f"the column {'.'.join(path)!r} is {kind_of(table)} in the table and {kind_of(data)} in the data: rename it, "
        "or convert it"
    )


def _widens_in_kind(before: str, after: str) -> bool:
    """Integers stay integers: only an explicit change turns them into decimals or doubles, as in Spark."""
    return widens(before, after) and (before in _INTEGERS) == (after in _INTEGERS)


def record_type_changes(before: StructType, after: StructType) -> StructType:
    """Record in `after` each primitive type that differs from `before` (section "Type Change Metadata").

    Both have the same columns, except for new ones; a former void column has no history."""
    old = {f.name: f for f in before}
    return StructType(tuple(_record(old[f.name], f) if f.name in old else f for f in after))


def _record(before: StructField, after: StructField) -> StructField:
    changes: list[dict[str, str]] = []
    data_type = _record_in_type(before.type, after.type, (), changes)
    metadata: dict[str, Any] = dict(after.metadata)
    if changes:
        metadata[TYPE_CHANGES] = [*(metadata.get(TYPE_CHANGES) or ()), *changes]
    return replace(after, type=data_type, metadata=metadata)


def _record_in_type(before: DataType, after: DataType, path: _Path, changes: list[dict[str, str]]) -> DataType:
    match before, after:
        case StructType(), StructType():
            return record_type_changes(before, after)
        case (ArrayType(), ArrayType()) | (MapType(), MapType()):
            pairs = zip(parts_of(before), parts_of(after), strict=True)
            recorded = (replace(b, type=_record_in_type(a.type, b.type, (*path, b.name), changes)) for a, b in pairs)
            return with_parts(after, recorded)
        case PrimitiveType(old_name), PrimitiveType(new_name) if before not in (VOID, after):
            change = {"fromType": old_name, "toType": new_name}
            changes.append({**change, "fieldPath": ".".join(path)} if path else change)
    return after


def _edit(schema: StructType, path: _Path, edit: Callable[[DataType], DataType]) -> StructType:
    """Replace the type at a path."""
    edited = _edit_type(schema, path, 0, edit)
    assert isinstance(edited, StructType)
    return edited


def _edit_type(data_type: DataType, path: _Path, depth: int, edit: Callable[[DataType], DataType]) -> DataType:
    if depth == len(path):
        return edit(data_type)
    parts = parts_of(data_type)
    if (old := StructType(parts).find(path[depth])) is None:
        raise _unknown(path)
    edited = replace(old, type=_edit_type(old.type, path, depth + 1, edit))
    return with_parts(data_type, (edited if part is old else part for part in parts))


def _edit_field(
    schema: StructType, path: _Path, edit: Callable[[StructType, StructField], tuple[StructField, ...]]
) -> StructType:
    """Replace the fields of the struct that holds the field at a path."""

    def in_struct(struct: DataType) -> DataType:
        old = struct.find(path[-1]) if isinstance(struct, StructType) else None
        if old is None or not isinstance(struct, StructType):
            raise _unknown(path)
        return StructType(edit(struct, old))

    return _edit(schema, path[:-1], in_struct)


def _unknown(path: _Path) -> UnknownColumnError:
    return UnknownColumnError(f"unknown column {'.'.join(path)!r}", column=".".join(path))


def _check_mapped(what: str, path: _Path, mapping_mode: str) -> None:
    if mapping_mode == "none":
        raise ValueError(
            f"the column {'.'.join(path)!r} cannot be {what} without column mapping: the data files use its name. "
            "Set delta.columnMapping.mode to 'name' first"
        )


def _check_unused(what: str, path: _Path, uses: Uses) -> None:
    lowered = tuple(part.lower() for part in path)
    for user, columns in uses.items():
        for column in (tuple(part.lower() for part in used) for used in columns):
            if lowered[: len(column)] == column or column[: len(lowered)] == lowered:
                raise ValueError(f"the column {'.'.join(path)!r} cannot be {what}: {user} uses it; drop that first")
