"""Walks over types."""

from dataclasses import replace

from lakeport.kernel.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_nullable,
    logical_path,
    map_fields,
    parts_of,
    places_in,
    same_shape,
    types_in,
)
from lakeport.kernel.schema.types import with_parts

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
POINT = StructType((StructField("x", LONG, nullable=False, metadata={"comment": "c", "delta.invariants": "{}"}),))
NESTED = StructType(
    (
        StructField("points", ArrayType(POINT, contains_null=False), nullable=False),
        StructField("by_point", MapType(POINT, ArrayType(STRING, contains_null=False), value_contains_null=False)),
    )
)


def test_every_type_is_its_parts_put_together() -> None:
    for data_type in types_in(NESTED):
        assert with_parts(data_type, parts_of(data_type)) == data_type


def test_places_have_paths_through_lists_and_maps() -> None:
    assert [(".".join(place.path), place.is_repeated) for place in places_in(NESTED)] == [
        ("points", False),
        ("points.element.x", True),
        ("by_point", False),
        ("by_point.key.x", True),
    ]


def test_fields_are_changed_before_those_in_them() -> None:
    seen: list[str] = []

    def rename(field: StructField) -> StructField:
        seen.append(field.name)
        return replace(field, name=f"{len(seen)}")

    renamed = map_fields(NESTED, rename)
    assert seen == ["points", "x", "by_point", "x"]
    assert [place.path for place in places_in(renamed)] == [("1",), ("1", "element", "2"), ("3",), ("3", "key", "4")]


def test_nulls_are_allowed_everywhere_keys_included() -> None:
    relaxed = all_nullable(NESTED, keep=("comment",))
    point = StructType((StructField("x", LONG, metadata={"comment": "c"}),))
    assert relaxed == StructType(
        (StructField("points", ArrayType(point)), StructField("by_point", MapType(point, ArrayType(STRING))))
    )
    assert same_shape(relaxed, NESTED)
    assert not same_shape(ArrayType(LONG), ArrayType(STRING))
    assert all_nullable(POINT).fields[0].metadata == POINT.fields[0].metadata


def test_physical_names_lead_to_logical_ones() -> None:
    inner = StructField("b", LONG, metadata={"delta.columnMapping.physicalName": "col-2"})
    schema = StructType(
        (StructField("a", StructType((inner,)), metadata={"delta.columnMapping.physicalName": "col-1"}),)
    )
    assert logical_path(schema, ("col-1", "col-2"), "name") == ("a", "b")
    assert logical_path(schema, ("col-1", "b"), "name") is None
    assert logical_path(schema, ("a", "b"), "none") == ("a", "b")
