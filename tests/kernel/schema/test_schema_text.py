"""Columns as people write them."""

import pytest

from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType, parse_schema_text

LONG, STRING, INTEGER = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("integer")


def test_columns_are_written_as_in_sql() -> None:
    text = "id BIGINT NOT NULL, `a, b` decimal(10, 2), t: array<map<string, int>>, s struct<x: double, `y``,` : string>"
    point = StructType((StructField("x", PrimitiveType("double")), StructField("y`,", STRING)))
    assert parse_schema_text(text) == StructType(
        (
            StructField("id", LONG, nullable=False),
            StructField("a, b", PrimitiveType("decimal(10,2)")),
            StructField("t", ArrayType(MapType(STRING, INTEGER))),
            StructField("s", point),
        )
    )


@pytest.mark.parametrize(
    ("clauses", "nullable", "metadata"),
    [
        ("comment 'it''s, (\\\\ not null'", True, {"comment": "it's, (\\ not null"}),
        ("COMMENT '' NOT NULL", False, {"comment": ""}),
        ("default 5", True, {"CURRENT_DEFAULT": "5"}),
        ("default length('a, not null') not null", False, {"CURRENT_DEFAULT": "length('a, not null')"}),
        ("DEFAULT if(1 > 0, 2, 3) COMMENT 'c'", True, {"CURRENT_DEFAULT": "if(1 > 0, 2, 3)", "comment": "c"}),
        ("comment 'c' default `x`", True, {"comment": "c", "CURRENT_DEFAULT": "`x`"}),
        (
            "generated always as (if(a, ')', \"(\"))",
            True,
            {"delta.generationExpression": "if(a, ')', \"(\")"},
        ),
        ("Generated Always As(id) comment 'c'", True, {"delta.generationExpression": "id", "comment": "c"}),
    ],
)
def test_what_follows_a_type_is_part_of_the_column(clauses: str, nullable: bool, metadata: dict[str, str]) -> None:
    column = StructField("v", INTEGER, nullable, metadata)
    assert parse_schema_text(f"v int {clauses} , w int").fields == (column, StructField("w", INTEGER))
    assert parse_schema_text(f"v int {clauses}").fields == (column,)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "'' is not a column"),
        ("id", "'id' is not a column"),
        ("id long,", "'' is not a column"),
        ("id nonsense", "'nonsense' is not a type"),
        ("id long name string", "'id long name string' is not a column.*NOT NULL, DEFAULT sql"),
        ("id long, v int null", "'v int null' is not a column"),
        ("id array<long", "'array<long' is not a type"),
        ("id decimal(50,2)", r"'decimal\(50,2\)' is not a type"),
        ("a-b long", "backticks"),
        ("id long comment 'a", 'the quotes of "\'a" are not closed'),
        ("id long comment name", "is not a column"),
        ("id long generated always as identity", "is not a column"),
        ("id long generated always as (a", r"the parenthesis of '\(a' is not closed"),
        ("id long not null comment 'a' not null", "the column id has NOT NULL twice"),
    ],
)
def test_what_is_no_column_is_refused_with_what_can_be_written(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_schema_text(text)
