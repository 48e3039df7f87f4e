"""Column mapping: ids and physical names for every field, and nothing that a field already has is lost."""

from __future__ import annotations

import re

import pytest

from lakeport.kernel.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    assign_mapping,
    check_mode_change,
    fields_in,
    find_twice_mapped,
    without_mapping,
)
from lakeport.testing.builder import mapped, struct

NESTED = struct(
    a="long",
    s=struct(x="long", y=struct(z="string")),
    l=ArrayType(ArrayType(struct(e="long"))),
    m=MapType(struct(k="long"), struct(v="long")),
)


def test_every_field_gets_an_id_and_a_name_of_its_own() -> None:
    schema, greatest = assign_mapping(NESTED, "name", 0, keep_names=False)
    fields = fields_in(schema)
    assert sorted(f.field_id or 0 for f in fields) == list(range(1, 11))
    assert greatest == 10
    names = {f.physical_name("name") for f in fields}
    assert len(names) == 10
    assert all(re.fullmatch(r"col-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", name) for name in names)
    assert [f.name for f in fields] == [f.name for f in fields_in(NESTED)]


def test_a_table_that_already_has_files_keeps_their_names() -> None:
    schema, _ = assign_mapping(NESTED, "name", 0, keep_names=True)
    assert all(f.physical_name("name") == f.name for f in fields_in(schema))


def test_a_table_that_already_has_files_keeps_their_names_whatever_its_columns_say() -> None:
    schema, greatest = assign_mapping(mapped(NESTED), "name", 0, keep_names=True)
    assert all(f.physical_name("name") == f.name for f in fields_in(schema))
    given = {f.field_id for f in fields_in(mapped(NESTED))}
    assert not given & {f.field_id for f in fields_in(schema)}
    assert greatest == max(f.field_id or 0 for f in fields_in(schema))


def test_a_schema_without_its_mapping_is_as_it_was_before() -> None:
    described = StructField("d", PrimitiveType("long"), metadata={"comment": "x"})
    schema = struct(described, *NESTED.fields)
    assert without_mapping(assign_mapping(schema, "id", 0, keep_names=False)[0]) == schema


def test_ids_and_physical_names_that_are_given_twice_are_found() -> None:
    def field(name: str, number: int, physical: str) -> StructField:
        metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
        return StructField(name, PrimitiveType("long"), metadata=metadata)

    assert not list(find_twice_mapped(struct(field("a", 1, "x"), field("b", 2, "y"))))
    assert not list(find_twice_mapped(assign_mapping(NESTED, "name", 0, keep_names=True)[0]))
    [same_id] = find_twice_mapped(struct(field("a", 1, "x"), s=ArrayType(struct(field("b", 1, "x")))))
    assert "'a' and 'b' have the same delta.columnMapping.id 1" in same_id
    [same_name] = find_twice_mapped(struct(s=struct(field("a", 1, "x"), field("b", 2, "x"))))
    assert "'a' and 'b' have the same delta.columnMapping.physicalName 'x'" in same_name


def test_what_fields_have_stays_and_ids_go_on_from_the_greatest_ever() -> None:
    before = mapped(struct(a="long", s=struct(x="long")))
    grown = StructType((*before.fields, StructField("b", PrimitiveType("long"))))
    schema, greatest = assign_mapping(grown, "id", 7, keep_names=False)
    assert schema.fields[:2] == before.fields
    assert (schema.fields[2].field_id, greatest) == (8, 8)
    assert assign_mapping(schema, "id", 8, keep_names=False) == (schema, 8)


def test_ids_are_never_below_those_in_the_schema() -> None:
    taken = StructField("a", PrimitiveType("long"), metadata={"delta.columnMapping.nested.ids": {"a.element": 40}})
    schema, greatest = assign_mapping(struct(taken, b="long"), "name", 0, keep_names=True)
    assert ([f.field_id for f in schema], greatest) == ([41, 42], 42)


def test_without_column_mapping_nothing_is_assigned() -> None:
    assert assign_mapping(NESTED, "none", 3, keep_names=False) == (NESTED, 3)


@pytest.mark.parametrize(("before", "after"), [("none", "none"), ("none", "name"), ("name", "name"), ("id", "id")])
def test_a_table_may_begin_to_map_by_name(before: str, after: str) -> None:
    check_mode_change(before, after)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("none", "id", "no field ids"),
        ("name", "none", "physical names"),
        ("id", "none", "physical names"),
        ("name", "id", "keeps its mode"),
        ("id", "name", "keeps its mode"),
    ],
)
def test_other_changes_of_the_mode_are_refused_with_the_reason(before: str, after: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_mode_change(before, after)
