"""Schemas: what their JSON may hold, and how names are looked up."""

import json
import pickle
import time
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import CorruptTableError
from lakeport.kernel.definition import check_type_changes
from lakeport.kernel.expressions import col, format_expression
from lakeport.kernel.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    arrow_schema,
    fields_in,
    leaves_of,
    parse_path,
    parse_schema,
    schema_from_arrow,
    types_in,
)
from lakeport.testing.builder import struct


def one_column(metadata: dict[str, Any]) -> str:
    field = {"name": "id", "type": "long", "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.columnMapping.physicalName": 5},
        {"delta.columnMapping.id": "x"},
        {"delta.typeChanges": 5},
        {"delta.typeChanges": ["long"]},
    ],
)
def test_metadata_of_another_kind_is_an_error(metadata: dict[str, Any]) -> None:
    with pytest.raises(CorruptTableError, match="'id'"):
        check_type_changes(parse_schema(one_column(metadata), path="/t"), "/t")


def test_metadata_that_is_null_is_not_there() -> None:
    nothing = dict.fromkeys(["delta.columnMapping.physicalName", "delta.columnMapping.id", "delta.typeChanges"])
    field = parse_schema(one_column(nothing)).fields[0]
    assert (field.physical_name("name"), field.field_id) == ("id", None)


def test_names_are_found_regardless_of_case_but_not_of_spelling() -> None:
    schema = struct(**{"straße": "long", "STRASSE": "string", "É": "double"})
    assert [schema.resolve((name,))[0].name for name in ("STRAßE", "strasse", "é")] == ["straße", "STRASSE", "É"]
    assert schema.find("ss") is None


def test_a_schema_that_has_looked_up_names_is_pickled_like_any_other() -> None:
    schema = struct(a="long", B="string")
    before = pickle.dumps(schema)
    assert schema.find("b") == schema.fields[1]
    assert pickle.dumps(schema) == before
    assert pickle.loads(before) == schema


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("`a``b`", ("a`b",)),
        ("`a```.b", ("a`", "b")),
        ("`` ``", (" ",)),
        ("", ("",)),
    ],
)
def test_backticks_keep_dots_and_two_of_them_are_one(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


def test_a_long_name_takes_a_time_in_proportion_to_its_length() -> None:
    began = time.process_time()
    assert parse_path("x" * 1_000_000) == ("x" * 1_000_000,)
    assert time.process_time() - began < 5  # with the square of it, 20 s and more


@pytest.mark.parametrize("path", [("a",), ("a", "b"), ("a.b", "c"), ("a`b",), ("x y", "é")])
def test_a_column_is_written_as_it_is_read(path: tuple[str, ...]) -> None:
    assert parse_path(format_expression(col(path))) == path


# From Arrow


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "byte"),
        (pa.uint8(), "short"),
        (pa.int16(), "short"),
        (pa.uint16(), "integer"),
        (pa.int32(), "integer"),
        (pa.uint32(), "long"),
        (pa.int64(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int32(), pa.large_string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "binary"),
        (pa.uuid(), "binary"),
        (pa.date32(), "date"),
        (pa.date64(), "date"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("ns", "UTC"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.null(), "void"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.decimal256(38, 10), "decimal(38,10)"),
        (pa.decimal128(5, -3), "decimal(8,0)"),
        (pa.decimal128(3, 5), "decimal(5,5)"),
    ],
    ids=str,
)
def test_every_value_of_an_arrow_type_has_a_place(arrow: pa.DataType, delta: str) -> None:
    assert schema_from_arrow(pa.schema([("c", arrow)])) == struct(c=delta)


def test_nested_types_keep_their_nullability() -> None:
    required = pa.field("x", pa.int64(), nullable=False)
    arrow = pa.schema(
        [
            required,
            pa.field("s", pa.struct([required])),
            pa.field("l", pa.large_list(pa.field("item", pa.struct([required]), nullable=False))),
            pa.field("f", pa.list_(pa.int32(), 3)),
            pa.field("v", pa.list_view(pa.int32())),
            pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False))),
        ]
    )
    x = StructField("x", PrimitiveType("long"), nullable=False)
    integers = ArrayType(PrimitiveType("integer"))
    assert schema_from_arrow(arrow) == struct(
        x,
        s=struct(x),
        l=ArrayType(struct(x), contains_null=False),
        f=integers,
        v=integers,
        m=MapType(PrimitiveType("string"), PrimitiveType("byte"), value_contains_null=False),
    )


def test_a_schema_comes_back_from_arrow_as_it_was() -> None:
    schema = struct(
        v="variant",
        l=ArrayType(PrimitiveType("variant")),
        m=MapType(PrimitiveType("string"), struct(v="variant", at="timestamp", d="decimal(5,2)")),
    )
    assert schema_from_arrow(arrow_schema(schema)) == schema


@pytest.mark.parametrize(
    ("arrow", "advice"),
    [
        (pa.time64("us"), "cast it to a string"),
        (pa.duration("s"), "cast it to int64"),
        (pa.month_day_nano_interval(), "as separate columns"),
        (pa.dense_union([pa.field("a", pa.int64())]), "a separate column"),
        (pa.decimal256(76, 0), "up to 38 digits"),
        (pa.decimal256(30, -10), "up to 38 digits"),
    ],
    ids=str,
)
def test_types_without_a_place_are_refused_by_name_with_advice(arrow: pa.DataType, advice: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)'s\.element' has the type .*{advice}"):
        schema_from_arrow(pa.schema([("s", pa.list_(arrow))]))


# Looking into types


def test_types_and_fields_are_found_in_lists_and_maps() -> None:
    schema = struct(l=ArrayType(struct(x="long")), m=MapType(struct(k="date"), ArrayType(PrimitiveType("variant"))))
    assert [f.name for f in fields_in(schema)] == ["l", "m", "x", "k"]
    assert {t.name for t in types_in(schema) if isinstance(t, PrimitiveType)} == {"long", "date", "variant"}


def test_leaves_are_what_is_no_struct() -> None:
    schema = struct(a="long", s=struct(x=struct(y="long"), l=ArrayType(struct(z="long"))), v="variant")
    assert [tuple(f.name for f in way) for way in leaves_of(schema)] == [("a",), ("s", "x", "y"), ("s", "l"), ("v",)]
