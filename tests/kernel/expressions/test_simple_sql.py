"""Simple conditions are read without sqlglot, and become the same tree."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions import (
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    format_expression,
)
from lakeport.kernel.expressions.simple_sql import RESERVED, parse_simple
from lakeport.kernel.expressions.sql import parse_with_sqlglot
from lakeport.kernel.expressions.sql_text import SqlText

SIMPLE = [
    "x = 1",
    "`odd name` <> 'it''s' AND NOT (a.b <=> NULL OR `a.b`.c >= -1.50)",
    'x IN (1, -2.5, 1e3, \'a\', NULL, TRUE) OR y NOT IN ("a", "it""s")',
    "day BETWEEN DATE '2026-01-01' AND DATE '2026-01-31' AND NOT date NOT BETWEEN 1 AND 2",
    "at < TIMESTAMP '2026-01-01 12:00:00.5+01:00' and at>timestamp'2026-01-01'",
    "s LIKE 'a%' OR s NOT LIKE '_b'",
    "x IS NULL AND y is not null AND flag",
    "1 = 1",
    "((((x == 2))))AND(y!=3)",
    "-0.0 <= x AND x>=-0 AND x<-1e-5",
    "`é 😀` = 'é 😀 --no comment; /* */'",
    "true",
    "x\t=\r\n1\nOR y  IS\nNULL ",
]
NOT_SIMPLE = [
    "",
    "x + 1 = 2",
    "upper(x) = 'A'",
    "x = 1 -- comment",
    "x = 1 /* comment */ AND y = 2",
    "x = 'a\\n'",
    "x = 'a' 'b'",
    "x = r'a'",
    "x LIKE 'a' ESCAPE '!'",
    "x = 1 = 2",
    "x = 1L",
    "x = 1.",
    "x IN ()",
    "x IN (1,)",
    "x IN (SELECT 1)",
    "(x, y) = (1, 2)",
    "x = DATE '2026-02-30'",
    "x = DATE '2026-01-01 01:00:00'",
    "x IS TRUE",
    "x IS DISTINCT FROM y",
    "else = 1",
    "case = 1",
    "`a``b` = 1",
    "é = 1",
    "x = 1; y = 2",
    "x =",
    "x AND",
    "(x = 1",
    "x BETWEEN y AND z AND",
    "NOT " * 5000 + "x",
    "(" * 5000 + "x" + ")" * 5000,
]


def in_detail(expression: Expression) -> Any:
    """The tree with the types and the digits of its literals."""
    parts = [getattr(expression, name) for name in type(expression).__dataclass_fields__]  # type: ignore[attr-defined]
    return type(expression).__name__, [_part_in_detail(part) for part in parts]


def _part_in_detail(part: Any) -> Any:
    if isinstance(part, Expression):
        return in_detail(part)
    return [_part_in_detail(item) for item in part] if isinstance(part, tuple) else repr(part)


def check_same_as_sqlglot(text: str) -> Expression | None:
    """What is read without sqlglot is what sqlglot's way gives; nothing is read that it rejects."""
    simple = parse_simple(text)
    if simple is not None:
        assert in_detail(simple) == in_detail(parse_with_sqlglot(SqlText(text, "filter")))
    return simple


@pytest.mark.parametrize("text", SIMPLE)
def test_a_simple_condition_is_read_without_sqlglot(text: str) -> None:
    assert check_same_as_sqlglot(text) is not None


@pytest.mark.parametrize("text", NOT_SIMPLE)
def test_anything_else_is_left_to_sqlglot(text: str) -> None:
    assert parse_simple(text) is None


names = st.sampled_from(
    ["x", "_y1", "Date", "at", "end", "timestamp", "a.b", "a.b.c.d.e", "day", "e5", "x.e1", "`a b`.c", "`end`", "`é.1`"]
)
digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.builds("{}{}{}{}".format, digits, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 400)),
)
texts = st.one_of(
    st.text("ab'\"\\%_ -\n\té😀/*;`", max_size=6),
    st.sampled_from(
        ["2026-01-01", "2026-1-1 1:2:3.4Z", "0000-01-01", "99999-12-31", "2026-13-01", "1970-01-01 00:00:00"]
    ),
).map(lambda text: "'" + text.replace("'", "''") + "'")
literals = st.one_of(
    numbers,
    st.builds("{}{}".format, st.sampled_from(["-", "- ", "--"]), numbers),
    texts,
    st.text("ab'%é", max_size=5).map(json.dumps),
    st.builds("{}{}".format, st.sampled_from(["DATE ", "date", "TIMESTAMP ", "Timestamp\n", "TIMESTAMP_NTZ "]), texts),
    st.sampled_from(["NULL", "true", "False"]),
)
OPERATORS = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"]
operands = st.one_of(names, literals)
spaces = st.sampled_from([" ", " ", "  ", "\n", ""])
predicates = st.one_of(
    st.builds("{}{}{}{}{}".format, operands, spaces, st.sampled_from(OPERATORS), spaces, operands),
    st.builds("{} IS {}NULL".format, operands, st.sampled_from(["", "NOT "])),
    st.builds(
        "{} {}IN ({})".format, operands, st.sampled_from(["", "NOT "]), st.lists(literals, max_size=4).map(", ".join)
    ),
    st.builds("{} {}BETWEEN {} AND {}".format, operands, st.sampled_from(["", "not "]), literals, literals),
    st.builds("{} {}LIKE {}".format, operands, st.sampled_from(["", "NOT "]), texts),
    names,
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "or"]), inner),
        st.builds("{}({})".format, st.sampled_from(["", "NOT ", "not"]), inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=6,
)


@given(conditions)
@settings(max_examples=200, deadline=None)
def test_generated_conditions_become_the_same_tree(text: str) -> None:
    check_same_as_sqlglot(text)


_PIECES = """
x y. `a b` a.b 1 2.5 -1 1e5 . 'a' "b" '' ( ) , = == < <= <=> > <> != ! - -- + * / % & | ^ ~ : :: ; ? @ # $ { } [ ] ->
=> <- << || NOT AND OR IN IS NULL BETWEEN LIKE RLIKE ESCAPE TRUE DATE TIMESTAMP INTERVAL CASE END ANY ALL SOME EXISTS
ARRAY MAP STRUCT LIST SELECT CAST AS INT ROW ORDER KEY N X b r R'a' X'41' 1L 1D _ é e1 1a /* */ \\ ` ' "
"""
PIECES = [*_PIECES.split(), "\n", "\t", "\0", "IS NOT NULL", "IN (1)", "BETWEEN 1 AND 2"]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9), st.sampled_from(["", " "]))
@settings(max_examples=200, deadline=None)
def test_garbage_is_left_to_sqlglot_or_becomes_the_same_tree(pieces: list[str], between: str) -> None:
    check_same_as_sqlglot(between.join(pieces))


@given(st.sampled_from(SIMPLE), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
@example("x = 1", random.Random(0))
def test_damaged_conditions_are_left_to_sqlglot_or_become_the_same_tree(text: str, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(text) + 1)
        removed = chance.randrange(3)
        text = text[:place] + chance.choice(["", *PIECES]) + text[place + removed :]
    check_same_as_sqlglot(text)


KEYWORDS = sorted(
    word for word in Spark.Tokenizer.KEYWORDS if word.isidentifier() and word not in ("NULL", "TRUE", "FALSE")
)


def places_of(word: str) -> dict[str, Expression]:
    """Conditions with a word as a name, and the trees expected."""
    name, one = Column((word,)), Literal(1)
    return {
        f"{word}": name,
        f"{word}=1": Comparison("=", name, one),
        f"1 < {word}": Comparison("<", one, name),
        f"NOT {word}": Not(name),
        f"NOT ({word} < 1)": Not(Comparison("<", name, one)),
        f"(({word}<1))": Comparison("<", name, one),
        f"{word} IS NULL": IsNull(name),
        f"{word} NOT IN (1)": Not(In(name, (one,))),
        f"{word} LIKE 'a'": Like(name, "a"),
        f"{word}.{word}.x = {word}": Comparison("=", Column((word, word, "x")), name),
    }


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_of_sqlglot_is_reserved_or_a_name_everywhere(keyword: str) -> None:
    for word in (keyword, keyword.lower()):
        for text, expected in places_of(word).items():
            assert (check_same_as_sqlglot(text) is None) == (keyword in RESERVED), text
            if keyword not in RESERVED:
                assert in_detail(parse_with_sqlglot(SqlText(text, "filter"))) == in_detail(expected)


def test_an_invalid_condition_is_explained_as_before() -> None:
    with pytest.raises(InvalidFilterError, match="nested too deeply"):
        parse_with_sqlglot(SqlText("(" * 5000 + "x" + ")" * 5000, "filter"))


def test_a_long_chain_is_not_deep() -> None:
    found = parse_simple(" OR ".join(f"x = {number}" for number in range(20_000)))
    assert found is not None
    assert format_expression(found).count(" = ") == 20_000
