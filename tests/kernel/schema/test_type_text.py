"""Types as people write them."""

import pytest

from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType, parse_type

INTEGER, STRING = PrimitiveType("integer"), PrimitiveType("string")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", INTEGER),
        (" BIGINT ", PrimitiveType("long")),
        ("decimal(10, 2)", PrimitiveType("decimal(10,2)")),
        ("Decimal", PrimitiveType("decimal(10,0)")),
        ("timestamp_ntz", PrimitiveType("timestamp_ntz")),
        ("array<int>", ArrayType(INTEGER)),
        ("MAP< string , array<int> >", MapType(STRING, ArrayType(INTEGER))),
        (
            "struct<a: int, `b,``c`:struct<d:string>>",
            StructType((StructField("a", INTEGER), StructField("b,`c", StructType((StructField("d", STRING),))))),
        ),
    ],
)
def test_a_type_is_read(text: str, expected: object) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "integr", "array", "array<>", "array<int", "array<int>>", "map<int>", "struct<>", "struct<a int>"),
        *("int int", "decimal(99,2)", "int(3)", "struct<a:int,>", "a-b", "<int>"),
        "array<" * 5000 + "int" + ">" * 5000,
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a type"):
        parse_type(text)
