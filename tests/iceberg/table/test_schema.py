"""Schemas: types, ids that stay, names by which files without ids are read, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, parse_mapping_from_json

from lakeport.errors import ConversionError
from lakeport.iceberg.table.schema import (
    FIRST_NESTED_ID,
    ConvertedSchema,
    FieldIdConflict,
    FieldIds,
    convert_schema,
    format_name_mapping,
    parse_name_mapping,
)
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.testing.builder import mapped, struct

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")
NESTED = struct(id="long", point=struct(x="long", tags=ArrayType(TEXT)), counts=MapType(TEXT, struct(n="long")))


def converted(
    schema: StructType, mode: str = "none", known: FieldIds | None = None, version: int = 2
) -> ConvertedSchema:
    return convert_schema(schema, mode, known or FieldIds(), version)


def ids(schema: ConvertedSchema) -> dict[str, int]:
    found = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": list(schema.fields)})
    return {name: found.find_field(name).field_id for name in found.column_names}


TYPES = {
    **{"boolean": "boolean", "byte": "int", "short": "int", "integer": "int", "long": "long", "float": "float"},
    **{"double": "double", "string": "string", "binary": "binary", "date": "date", "decimal(12,2)": "decimal(12, 2)"},
    **{"timestamp": "timestamptz", "timestamp_ntz": "timestamp"},
}


@pytest.mark.parametrize(("delta", "iceberg"), TYPES.items())
def test_primitive_types_have_their_counterparts(delta: str, iceberg: str) -> None:
    assert converted(struct(a=delta)).fields[0]["type"] == iceberg


def test_requirement_and_comment_come_along() -> None:
    field = StructField("a", ArrayType(LONG, contains_null=False), nullable=False, metadata={"comment": "what"})
    (found,) = converted(StructType((field,))).fields
    assert (found["required"], found["doc"], found["type"]["element-required"]) == (True, "what", True)


def test_fields_of_structs_are_numbered_as_delta_would_and_the_rest_far_above() -> None:
    found = ids(converted(NESTED))
    assert {name: number for name, number in found.items() if number < FIRST_NESTED_ID} == {
        **{"id": 1, "point": 2, "point.x": 3, "point.tags": 4, "counts": 5, "counts.value.n": 6}
    }
    assert len(set(found.values())) == len(found)


def test_ids_stay_with_names_when_columns_come_and_go() -> None:
    first = converted(struct(a="long", b="long"))
    second = converted(struct(c="long", b="long"), known=first.ids)
    third = converted(struct(a="string", c="long"), known=second.ids)
    assert (ids(second), ids(third)) == ({"c": 3, "b": 2}, {"a": 1, "c": 3})


def test_with_column_mapping_ids_are_those_of_delta() -> None:
    schema = mapped(struct(a="long", s=struct(x="long")))
    first = converted(schema, "name")
    assert ids(first) == {"a": 1, "s": 2, "s.x": 3}
    renamed = StructType((replace(schema.fields[0], name="z"), schema.fields[1]))
    assert ids(converted(renamed, "id", first.ids)) == {"z": 1, "s": 2, "s.x": 3}


def test_nested_ids_of_delta_are_used_where_it_has_them() -> None:
    metadata = {
        "delta.columnMapping.id": 1,
        "delta.columnMapping.physicalName": "p",
        "delta.columnMapping.nested.ids": {"p.key": 7, "p.value": 8, "p.value.element": 9},
    }
    field = StructField("m", MapType(TEXT, ArrayType(LONG)), metadata=metadata)
    found = ids(converted(StructType((field,)), "name"))
    assert found == {"m": 1, "m.key": 7, "m.value": 8, "m.value.element": 9}


def test_an_id_that_would_change_is_a_conflict() -> None:
    known = converted(struct(b="long", a="long")).ids
    schema = mapped(struct(a="long"))
    kept = StructField("a", LONG, metadata=schema.fields[0].metadata | {"delta.columnMapping.physicalName": "a"})
    with pytest.raises(FieldIdConflict):
        converted(StructType((kept,)), "name", known)


def test_an_id_that_another_column_has_is_a_conflict() -> None:
    known = converted(struct(a="long")).ids
    with pytest.raises(FieldIdConflict):
        converted(mapped(struct(b="long")), "name", known)


@pytest.mark.parametrize(("name", "version"), [("void", 2), ("void", 3), ("variant", 2)])
def test_types_that_iceberg_lacks_are_refused(name: str, version: int) -> None:
    with pytest.raises(ConversionError, match=f"'s.element' has the type {name}") as caught:
        converted(struct(s=ArrayType(PrimitiveType(name))), version=version)
    assert caught.value.reason == f"type {name}"


def test_a_variant_is_one_in_version_three() -> None:
    assert converted(struct(v="variant"), version=3).fields[0]["type"] == "variant"


def change(before: str, after: str) -> dict[str, Any]:
    return {"delta.typeChanges": [{"fromType": before, "toType": after}]}


ALLOWED = [("integer", "long"), ("byte", "integer"), ("short", "long"), ("float", "double")]


@pytest.mark.parametrize(("before", "after"), [*ALLOWED, ("decimal(5,2)", "decimal(9,2)")])
def test_promotions_of_iceberg_are_allowed(before: str, after: str) -> None:
    field = StructField("a", PrimitiveType(after), metadata=change(before, after))
    assert len(converted(StructType((field,))).fields) == 1


REFUSED = [
    ("integer", "double"),
    ("date", "timestamp_ntz"),
    ("long", "decimal(20,0)"),
    ("decimal(5,2)", "decimal(9,4)"),
]


@pytest.mark.parametrize(("before", "after"), REFUSED)
def test_other_changes_of_types_are_refused(before: str, after: str) -> None:
    field = StructField("a", PrimitiveType(after), metadata=change(before, after))
    with pytest.raises(ConversionError) as caught:
        converted(struct(s=StructType((field,))))
    assert caught.value.reason == f"widening {before} to {after}"


def test_names_that_are_one_with_dots_are_refused() -> None:
    field = StructField("a.b", LONG)
    with pytest.raises(ConversionError, match=r"'a\.b'") as caught:
        converted(StructType((StructField("a", struct(b="long")), field)))
    assert caught.value.reason == "ambiguous names"


# Name mappings


def test_the_name_mapping_has_all_names_and_comes_back() -> None:
    schema = converted(NESTED)
    text = format_name_mapping(schema.ids)
    assert parse_name_mapping(text) == schema.ids
    assert names_in(parse_mapping_from_json(text).root, "") == ids(schema) | {"_change_type": FIRST_NESTED_ID + 3}


def names_in(fields: list[MappedField], prefix: str) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for field in fields:
        name = prefix + field.names[0]
        found |= {name: field.field_id} | names_in(field.fields, f"{name}.")
    return found


def test_columns_that_only_files_have_are_in_the_name_mapping() -> None:
    properties = {"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
    schema = convert_schema(struct(a="long"), "none", FieldIds(), 2, properties)
    assert set(schema.ids.by_path) == {("a",), ("_change_type",), ("_row-id-col-1",)}


@pytest.mark.parametrize("text", ["{", "[1]", '[{"names": ["a"]}]'])
def test_what_is_no_name_mapping_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a name mapping"):
        parse_name_mapping(text)


def test_no_name_mapping_knows_no_ids() -> None:
    assert parse_name_mapping(None) == FieldIds()
    assert msgspec.json.decode(format_name_mapping(FieldIds())) == []
