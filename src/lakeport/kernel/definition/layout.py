"""Decide whether rows written under one schema can be read correctly under a later one.

Columns are identified by physical name (by field id under the column mapping mode `id`). Nullable columns may have been
added, and types widened. Under column mapping, columns may also have been renamed and dropped, because the table
itself reads its older files this way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.definition.features import check_type_changes, column_mapping_mode
from lakeport.kernel.schema import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    kind_of,
    parse_schema,
    parts_of,
    widens,
)


@dataclass(frozen=True)
class Layout:
    """How a version's rows are stored in its files."""

    schema: StructType
    mapping_mode: str
    partition_columns: frozenset[str]
    """Physical names."""


def layout_of(protocol: Protocol, metadata: Metadata, root: str) -> Layout:
    """The layout of a version, from its log. Raises `CorruptTableError` and `UnsupportedFeatureError`."""
    schema = parse_schema(metadata.schema_string, path=root)
    check_type_changes(schema, root)
    mode = column_mapping_mode(protocol, metadata, root)
    names = {name.lower() for name in metadata.partition_columns}
    return Layout(schema, mode, frozenset(f.physical_name(mode) for f in schema if f.name.lower() in names))


def find_incompatibility(older: Layout, newer: Layout) -> tuple[str, str] | None:
    """A column of either layout, and why rows of the older layout cannot be read in the newer one; None if they can."""
    if odd := older.partition_columns ^ newer.partition_columns:
        name = min(odd)
        return name, f"it is {'no longer' if name in older.partition_columns else 'now'} a partition column"
    return next(_Comparison(older.mapping_mode, newer.mapping_mode).of_structs(older.schema, newer.schema), None)


_Findings = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class _Comparison:
    older_mode: str
    newer_mode: str

    def of_structs(self, older: StructType, newer: StructType, parents: str = "") -> _Findings:
        before = {self._key(f, self.older_mode): f for f in older}
        after = {self._key(f, self.newer_mode): f for f in newer}
        lost = {f.name.lower() for key, f in before.items() if key not in after}
        for key, field in after.items():
            name = f"{parents}{field.name}"
            if key in before:
                yield from self._of_fields(before[key], field, name)
            elif field.name.lower() in lost:
                yield name, "it was dropped, and another column with its name was added"
            elif not field.nullable:
                yield name, "it was added later, and must not be null"
        if self.newer_mode == "none":
            yield from ((f"{parents}{f.name}", "it was dropped") for key, f in before.items() if key not in after)

    def _key(self, field: StructField, mode: str) -> str | int | None:
        return field.field_id if self.newer_mode == "id" else field.physical_name(mode)

    def _of_fields(self, older: StructField, newer: StructField, name: str) -> _Findings:
        if older.nullable and not newer.nullable:
            yield name, "it was nullable, and no longer is"
        yield from self._of_types(older.type, newer.type, name)

    def _of_types(self, older: DataType, newer: DataType, name: str) -> _Findings:
        match older, newer:
            case StructType(), StructType():
                yield from self.of_structs(older, newer, f"{name}.")
            case (ArrayType(), ArrayType()) | (MapType(), MapType()):
                for before, after in zip(parts_of(older), parts_of(newer), strict=True):
                    yield from self._of_fields(before, after, f"{name}.{after.name}")
            case PrimitiveType(), PrimitiveType():
                if older != VOID and not widens(older.name, newer.name):
                    yield name, f"it changed from {older.name} to {newer.name}"
            case _ if older != VOID:
                yield name, f"it changed from {kind_of(older)} to {kind_of(newer)}"
