"""The SQL in the definition of a table: where it is found, what it uses, and when it fits."""

import json

import pytest

from lakeport.engine import memory_engine
from lakeport.errors import ConstraintError, CorruptTableError, UnsupportedFeatureError
from lakeport.kernel.definition import TableExpression, constraints_of, expressions_in, uses_of_columns
from lakeport.kernel.definition.constraints import parse_invariant
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.kernel.transaction import update_table
from lakeport.testing.builder import TableBuilder, struct
from tests.kernel.writing import add, latest, values

ROOT = "memory://table"
LONG = PrimitiveType("long")


def invariant(name: str, sql: str) -> StructField:
    text = json.dumps({"expression": {"expression": sql}})
    return StructField(name, LONG, metadata={"delta.invariants": text})


def generated(name: str, sql: str) -> StructField:
    return StructField(name, LONG, metadata={"delta.generationExpression": sql})


def test_constraints_invariants_and_generated_columns_are_found_wherever_they_are() -> None:
    schema = struct(generated("g", "a + 1"), a="long", s=struct(invariant("v", "s.v > a")))
    found = expressions_in({"delta.constraints.positive": "a > 0", "other": "b"}, schema)
    assert found == [
        TableExpression("the constraint 'positive'", "a > 0"),
        TableExpression("the generated column 'g'", "a + 1", ("g",), LONG),
        TableExpression("the invariant of 's.v'", "s.v > a", ("s", "v")),
    ]
    assert uses_of_columns(found, schema) == {
        "the constraint 'positive'": (("a",),),
        "the generated column 'g'": (("a",),),
        "the invariant of 's.v'": (("s", "v"), ("a",)),
    }


def test_sql_that_is_not_understood_uses_all_columns_that_it_names() -> None:
    schema = struct(a="long", b="long", odd=struct(**{"B`c": "long"}), l=ArrayType(struct(deep="long")))
    theirs = TableExpression("the constraint 'odd'", "theirs(A, `b``C`, x -> x.deep)")
    assert theirs.columns(schema) == (("a",), ("b",), ("odd", "B`c"), ("l", "element", "deep"))


def test_an_invariant_is_the_sql_in_its_json() -> None:
    assert parse_invariant('{"expression": {"expression": "x > 3"} }') == "x > 3"
    for text in ("x > 3", "{}", '{"expression": "x > 3"}', 5):
        with pytest.raises(ValueError, match="is not an invariant"):
            parse_invariant(text)  # type: ignore[arg-type]  # metadata may hold anything


def test_an_invariant_that_is_damaged_is_told_with_its_column() -> None:
    damaged = StructField("n", LONG, True, {"delta.invariants": '{"expression":1}'})
    with pytest.raises(CorruptTableError, match=r"delta\.invariants of 's.n' is not valid"):
        constraints_of({}, struct(s=struct(damaged)), ROOT)


def test_constraints_are_told_apart_by_their_columns() -> None:
    schema = struct(invariant("a.b", "`a.b` > 1"), a=struct(invariant("b", "a.b > 2")))
    assert constraints_of({"delta.constraints.c": "a.b < 9"}, schema, ROOT) == {
        "c": "a.b < 9",
        "invariant of `a.b`": "`a.b` > 1",
        "invariant of a.b": "a.b > 2",
    }


@pytest.mark.parametrize("row", [{"x": {"v": 1}}, {"x": {"v": None}}, {"x": None}, None], ids=str)
def test_an_invariant_in_a_struct_is_held(row: object) -> None:
    schema = struct(id="long", s=struct(x=struct(invariant("v", "s.x.v > 10"))))
    engine = memory_engine()
    table = TableBuilder(engine, ROOT, schema).create()
    add(update_table(table.snapshot(), "WRITE"), {"id": [1], "s": [{"x": {"v": 11}}]}).commit()
    with pytest.raises(ConstraintError, match=r"'invariant of s\.x\.v' \(s\.x\.v > 10\)"):
        add(update_table(latest(engine, ROOT), "WRITE"), {"id": [2], "s": [row]})
    assert values(latest(engine, ROOT)) == [1]


@pytest.mark.parametrize(
    "schema",
    [
        struct(id="long", l=ArrayType(struct(invariant("v", "v > 10")))),
        struct(id="long", m=MapType(struct(invariant("v", "v > 10")), LONG)),
        struct(id="long", m=MapType(LONG, struct(s=struct(invariant("v", "v > 10"))))),
    ],
    ids=["list", "key", "value"],
)
def test_an_invariant_in_a_list_or_a_map_is_refused_by_name(schema: StructType) -> None:
    table = TableBuilder(memory_engine(), ROOT, schema).create()
    with pytest.raises(UnsupportedFeatureError, match=r"the invariant of '[lm]\..*v' \(v > 10\)") as caught:
        update_table(table.snapshot(), "WRITE").write_context()
    assert caught.value.features == ("invariants",)
