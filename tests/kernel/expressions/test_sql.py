"""What `parse_filter` and `parse_expression` read, and where they say that something is wrong."""

import logging
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    children,
    col,
    format_expression,
    lit,
    parse_expression,
    parse_filter,
)
from lakeport.kernel.expressions.tree import same
from lakeport.kernel.values import FarDate, FarTime

X, Y = col("x"), col("y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", X == 1),
        ("x == 1", X == 1),
        ("x <> 1", X != 1),
        ("x != 1", X != 1),
        ("x < 1", X < 1),
        ("x <= 1", X <= 1),
        ("x > 1", X > 1),
        ("x >= 1", X >= 1),
        ("x <=> NULL", X.equals_null_safe(None)),
        ("1 < x", Comparison("<", lit(1), X)),
        ("x = y", X == Y),
        ("x IS NULL", IsNull(X)),
        ("x IS NOT NULL", Not(IsNull(X))),
        ("x IS TRUE", X.equals_null_safe(True)),
        ("x IS NOT DISTINCT FROM 1", X.equals_null_safe(1)),
        ("x IS DISTINCT FROM 1", Not(X.equals_null_safe(1))),
        ("x IN (1, 2, NULL)", In(X, (lit(1), lit(2), lit(None)))),
        ("x NOT IN (-1)", Not(X.isin([-1]))),
        ("x BETWEEN 1 AND 2", And(X >= 1, X <= 2)),
        ("x NOT BETWEEN 1 AND 2", Not(And(X >= 1, X <= 2))),
        ("x LIKE 'a%'", X.like("a%")),
        ("x NOT LIKE 'a%'", Not(X.like("a%"))),
        (r"x LIKE 'a\%'", X.like(r"a\%")),
        (r"x LIKE 'a!%!!\\_' ESCAPE '!'", X.like(r"a\%\!\\_")),
        ("x NOT LIKE 'a!_' ESCAPE '!'", Not(X.like(r"a\_"))),
        ("startswith(x, '50%')", X.startswith("50%")),
        ("x", X),
        ("NOT x", Not(X)),
        ("!x", Not(X)),
        ("TRUE", lit(True)),
        ("((x = 1))", X == 1),
        ("NOT x = 1 AND y", And(Not(X == 1), Y)),
        ("x OR y AND x", Or(X, And(Y, X))),
        ("(x OR y) AND x", And(Or(X, Y), X)),
        ("x = 1;", X == 1),
        ("x -- a remark\n = /* and\n another */ 1", X == 1),
    ],
)
def test_conditions_are_read(text: str, expected: Expression) -> None:
    parsed = parse_filter(text)
    assert same(parsed, expected), format_expression(parsed)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a.b.c.d.e.f", ("a", "b", "c", "d", "e", "f")),
        ("`a.b`.`c d`", ("a.b", "c d")),
        ("`a``b`", ("a`b",)),
        ("date", ("date",)),
        ("Größe", ("Größe",)),
        ("_1", ("_1",)),
    ],
)
def test_names_are_read(name: str, path: tuple[str, ...]) -> None:
    assert same(parse_filter(f"{name} = 1"), col(path) == 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-12", -12),
        ("- -1", 1),
        ("+1", 1),
        ("1.50", Decimal("1.50")),
        ("-.5", Decimal("-0.5")),
        ("-0.0", Decimal("0.0")),
        (f"-0.{'1' * 150}", Decimal(f"-0.{'1' * 150}")),
        ("1e3", 1000.0),
        ("12L", 12),
        ("-9223372036854775808L", -(2**63)),
        ("1.5BD", Decimal("1.5")),
        ("1.5D", 1.5),
        ("0.1F", 0.10000000149011612),
        ("'text'", "text"),
        ('"text"', "text"),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("''", ""),
        (r"'it\'s'", "it's"),
        (r"'a\nb'", "a\nb"),
        (r"r'a\nb'", r"a\nb"),
        ("'a -- b'", "a -- b"),
        ("true", True),
        ("NULL", None),
        ("X'41ff'", b"A\xff"),
        ("DATE '2026-01-31'", date(2026, 1, 31)),
        ("DATE '12345-01-01'", FarDate(3789391)),
        ("DATE '+12345-01-01'", FarDate(3789391)),
        ("TIMESTAMP '-0044-03-15'", FarTime(-735525 * 86_400_000_000, UTC)),
        ("CAST('-0044-03-15' AS TIMESTAMP_NTZ)", FarTime(-735525 * 86_400_000_000)),
        ("TIMESTAMP '2026-01-31 12:00:00'", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("TIMESTAMP '2026-01-31T12:00:00+02:00'", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("TIMESTAMP_NTZ '2026-01-31 12:00:00.5'", datetime(2026, 1, 31, 12, 0, 0, 500000)),
        ("CAST('1' AS INT)", 1),
        ("CAST(1 AS BIGINT)", 1),
        ("CAST('1.5' AS DECIMAL(10, 2))", Decimal("1.50")),
        ("CAST(2 AS DECIMAL)", Decimal(2)),
        ("CAST('2026-01-31' AS DATE)", date(2026, 1, 31)),
        ("CAST('yes' AS BOOLEAN)", True),
        ("CAST('a' AS BINARY)", b"a"),
        ("CAST('a' AS STRING)", "a"),
        ("CAST(NULL AS INT)", None),
        ("('a')", "a"),
    ],
)
def test_literals_are_read(text: str, value: Any) -> None:
    parsed = parse_filter(f"x = {text}")
    assert isinstance(parsed, Comparison)
    assert isinstance(parsed.right, Literal)
    assert type(parsed.right.value) is type(value)
    assert parsed.right.value == value
    assert str(parsed.right.value) == str(value)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "empty"),
        ("  -- nothing", 0, "empty"),
        ("x = 1 y", 6, "'y' is not expected"),
        ("x = 1)", 5, "')' is not expected"),
        ("(x = 1", 6, "expected a )"),
        ("x = 1 AND", 6, "something is missing at 'AND'"),
        ("x = 'open", 9, "not closed"),
        ("x = 1; y = 2", 7, "a second condition begins"),
        ("SELECT 1", 0, "'SELECT' is not expected"),
        ("DROP TABLE t", 0, "'DROP' is not expected"),
        ("y = 1 OR f(x) = 1", 9, "the function f is not supported"),
        ("y = 1 AND upper(x, y) = 'A'", 10, "upper does not take 2 arguments"),
        ("y = 1 AND x & 1 = 2", 10, "BITWISEAND is not supported"),
        ("y = 1 AND sum(x) OVER (ORDER BY y) = 2", 10, "WINDOW is not supported"),
        ("TRY_CAST(x AS INT) = 1", 9, "TRY_CAST is not supported"),
        ("CAST(x AS DECIMAL(50,0)) = 1", 18, "unknown type decimal(50,0)"),
        ("x > INTERVAL 1 DAY", 0, "an INTERVAL other than after + or -"),
        ("x + INTERVAL 1 EON > y", 0, "an interval is written like"),
        ("x = CAST(300 AS TINYINT) + 1", 9, "it is not a byte"),
        ("startswith(x, y)", 14, "a column in this place"),
        ("count(*) > 1", 0, "the function count is not supported"),
        ("x IN (SELECT 1)", 0, "a subquery is not supported"),
        ("x = (SELECT 1)", 12, "a subquery is not supported"),
        ("EXISTS(SELECT 1)", 14, "a subquery is not supported"),
        ("x IN ()", 0, "IN needs a list"),
        ("x IN y", 0, "FIELD is not supported"),
        ("x IN (1) AND a[0] = 1", 13, "an element of an array"),
        ("x = 'a' AND s LIKE y", 19, "a column in this place"),
        ("s LIKE 1", 7, "a string in quotes is expected"),
        ("s LIKE 'a' ESCAPE '!!'", 0, "ESCAPE takes one character"),
        ("s ILIKE 'a'", 0, "ILIKE is not supported"),
        ("x BETWEEN SYMMETRIC 1 AND 2", 0, "SYMMETRIC is not supported"),
        ("x IS 1", 5, "IS takes NULL, TRUE or FALSE"),
        ("x = -'a'", 5, "a number is expected after the minus"),
        ("x = X'4'", 4, "does not fit"),
        ("x = DATE 'soon'", 9, "'soon' does not fit"),
        ("x = CAST('1.5' AS INT)", 9, "does not fit"),
        ("x = CAST(300 AS TINYINT)", 9, "it is not a byte"),
        ("x = CAST('a' AS ARRAY<INT>)", 9, "is not supported"),
        ("t.* = 1", 2, "a column name is expected"),
        ("x = :name", 0, "a parameter is not supported"),
        ("x = 1 AND\n  y = )", 16, "')'"),
    ],
)
def test_what_is_not_a_filter_is_refused_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter(text)
    assert reason in str(caught.value)
    assert caught.value.position == position


S = col("s")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + 1 - y", (X + 1) - Y),
        ("1 + x * y", lit(1) + X * Y),
        ("(1 + x) * y", (lit(1) + X) * Y),
        ("x / y % 2", (X / Y) % 2),
        ("x DIV 2", Arithmetic("div", X, lit(2))),
        ("mod(x, 2)", X % 2),
        ("-x", -X),
        ("-(x + 1)", -(X + 1)),
        ("-1", lit(-1)),
        ("1L", Cast(lit(1), "long")),
        ("-1L", Cast(lit(-1), "long")),
        ("3000000000", lit(3000000000)),
        ("0.1F", Cast(lit(0.10000000149011612), "float")),
        ("2.0D", lit(2.0)),
        ("CAST(x AS BIGINT)", Cast(X, "long")),
        ("CAST(x AS DECIMAL(10, 2))", Cast(X, "decimal(10,2)")),
        ("CAST(x AS DECIMAL)", Cast(X, "decimal(10,0)")),
        ("x::STRING", Cast(X, "string")),
        ("CAST(1.5 AS INT)", Cast(lit(Decimal("1.5")), "integer")),
        ("CAST(NULL AS DATE)", Cast(lit(None), "date")),
        ("CAST('2026-01-01' AS DATE)", lit(date(2026, 1, 1))),
        ("bigint(x)", Cast(X, "long")),
        ("date(x)", Cast(X, "date")),
        ("to_date(x)", Cast(X, "date")),
        ("to_timestamp(x)", Cast(X, "timestamp")),
        ("CASE WHEN x > 1 THEN 'a' WHEN y THEN 'b' ELSE s END", Case(((X > 1, lit("a")), (Y, lit("b"))), S)),
        ("CASE x WHEN 1 THEN 2 END", Case(((X == 1, lit(2)),), lit(None))),
        ("IF(x > 1, y, 2)", Case(((X > 1, Y),), lit(2))),
        ("nullif(x, 1)", Case(((X == 1, lit(None)),), X)),
        ("x || 'a' || y", Call("concat", (Call("concat", (X, lit("a"))), Y))),
        ("UPPER(s)", Call("upper", (S,))),
        ("nvl(x, 0)", Call("coalesce", (X, lit(0)))),
        ("substr(s, 2)", Call("substring", (S, lit(2)))),
        ("substring(s FROM 2 FOR 3)", Call("substring", (S, lit(2), lit(3)))),
        ("char_length(s)", Call("length", (S,))),
        ("trim(s)", Call("trim", (S,))),
        ("TRIM(LEADING 'x' FROM s)", Call("ltrim", (S, lit("x")))),
        ("TRIM(BOTH FROM s)", Call("trim", (S,))),
        ("ceiling(x)", Call("ceil", (X,))),
        ("floor(x)", Call("floor", (X,))),
        ("dayofmonth(x)", Call("day", (X,))),
        ("EXTRACT(YEAR FROM x)", Call("year", (X,))),
        ("current_timestamp()", Call("current_timestamp", ())),
        ("CURRENT_TIMESTAMP", Call("current_timestamp", ())),
        ("now()", Call("current_timestamp", ())),
        ("current_date", Call("current_date", ())),
        ("x + INTERVAL 2 HOURS", Call("add_time", (X, lit(7_200_000_000)))),
        ("x - INTERVAL '7' DAY", Call("add_time", (X, lit(-7 * 86_400_000_000)))),
        ("x - INTERVAL 1 YEAR", Call("add_months", (X, lit(-12)))),
        ("endswith(s, 'a%')", S.like(r"%a\%")),
        ("contains(s, 'a')", S.like("%a%")),
        ("target.id = source.id", col(("target", "id")) == col(("source", "id"))),
        ("x * 2 > 10", (X * 2) > 10),
        ("CAST(1 AS BIGINT) + y < x", Cast(lit(1), "long") + Y < X),
        ("upper(s) IN ('A', 'B')", Call("upper", (S,)).isin(["A", "B"])),
        ("upper(s) LIKE 'A%'", Call("upper", (S,)).like("A%")),
        ("x + 1 IS NULL", IsNull(X + 1)),
        ("x + 1 BETWEEN y AND 2", And(X + 1 >= Y, X + 1 <= 2)),
    ],
)
def test_values_are_read(text: str, expected: Expression) -> None:
    parsed = parse_expression(text)
    assert same(parsed, expected), format_expression(parsed)


@pytest.mark.parametrize("text", ["x = 1L", "1L = x", "x IN (1L)", "x BETWEEN 1L AND 1L", "CASE x WHEN 1L THEN y END"])
def test_a_literal_that_is_compared_has_no_type_of_its_own(text: str) -> None:
    assert same(parse_expression(text), parse_expression(text.replace("L", "")))


def test_an_error_calls_an_expression_an_expression() -> None:
    with pytest.raises(
        InvalidFilterError, match="the expression cannot be read: the function f is not supported in an"
    ):
        parse_expression("f(x)")
    with pytest.raises(InvalidFilterError, match="the expression is empty"):
        parse_expression("")


LITERALS = [1, -2, 2**40, None, True, 1.5, -1e300, Decimal("1.50"), Decimal(7), "it's", r"a\n", b"A"]
MOMENTS = [date(2026, 1, 1), datetime(2026, 1, 1, 12, 0, 0, 5), datetime(2026, 1, 1, 12, tzinfo=UTC)]
MOMENTS += [FarDate(3789391), FarDate(-(2**31)), FarTime(-(2**63)), FarTime(2**63 - 1, UTC)]
LEAVES = st.sampled_from([X, Y, Cast(X, "decimal(10,2)"), Call("current_date", ()), *map(lit, [*LITERALS, *MOMENTS])])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/", "%", "div"]), inner, inner)
        | st.builds(lambda a, b: Call("coalesce", (a, b)), inner, inner)
        | st.builds(lambda a, b: Call("trim", (a, b)), inner, inner)
        | st.builds(lambda a: Cast(a + 1, "byte"), inner)
        | st.builds(lambda a: -(a * 2), inner)
        | st.builds(lambda a, b: Case(((a + 1 < X, a), (IsNull(b + 1), b)), a), inner, inner)
    ),
    max_leaves=6,
)


@given(VALUES)
def test_the_text_of_a_value_is_read_as_the_same_value(value: Expression) -> None:
    text = format_expression(Call("coalesce", (value,)))
    assert same(parse_expression(text), Call("coalesce", (value,))), text


def test_an_error_marks_the_place_under_the_line() -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter("a = 1 AND\n  y = 1 z")
    assert str(caught.value).endswith("\n    y = 1 z\n          ^")


def test_an_error_quotes_only_a_part_of_a_long_line() -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter("x = 1 AND " * 500 + "f(x) = 1" + " AND x = 1" * 500)
    _, line, mark = str(caught.value).split("\n")
    assert len(line) < 120
    assert line[mark.index("^") :].startswith("f(x) = 1")


def depth(expression: Expression) -> int:
    return 1 + max(map(depth, children(expression)), default=0)


def test_a_long_chain_is_not_a_deep_tree() -> None:
    parsed = parse_filter(" OR ".join(f"x = {i}" for i in range(3000)))
    assert depth(parsed) < 20
    assert format_expression(parse_filter("a AND b AND c AND d")) == "a AND b AND c AND d"


@pytest.mark.parametrize("text", ["(" * 5000 + "x" + ")" * 5000, "NOT " * 5000 + "x", "x = " + "- " * 5000 + "1"])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilterError, match="nested too deeply"):
        parse_filter(text)


WORDS = r"""x y . , ; ( ) = < <=> [ ] { : @ ? -- /* \ ' 'a' "b" `c` 1 -1 1.5 SELECT SHOW ALTER
    IN NOT AND OR LIKE NULL DATE TIMESTAMP IS BETWEEN CAST AS INT
    + - * / % || 1L CASE WHEN THEN ELSE END IF upper( trim( FROM INTERVAL DAY current_date"""


def outcome(text: str) -> Expression | InvalidFilterError:
    try:
        return parse_filter(text)
    except InvalidFilterError as error:
        return error


@given(st.lists(st.sampled_from([*WORDS.split(), "\n"]), max_size=8).map(" ".join))
def test_any_text_is_read_or_refused_without_a_word_in_the_log(text: str) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]  # a handler that only collects
    logging.getLogger("sqlglot").addHandler(handler)
    try:
        found = outcome(text)
    finally:
        logging.getLogger("sqlglot").removeHandler(handler)
    assert records == []
    if isinstance(found, InvalidFilterError):
        assert found.position is not None
        assert 0 <= found.position <= len(text)


def test_the_parser_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, lakeport.kernel.expressions.sql; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
