"""The tree of expressions: how it is built, walked, changed, compared and shown."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakeport.kernel.expressions import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    children,
    col,
    columns_in,
    format_expression,
    lit,
    replace_now,
    rewrite,
)
from lakeport.kernel.expressions.tree import same

A, B, C = col("a"), col("b"), col("c")


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (A + 1, Arithmetic("+", A, lit(1))),
        (1 + A, Arithmetic("+", lit(1), A)),
        (A - B, Arithmetic("-", A, B)),
        (1 - A, Arithmetic("-", lit(1), A)),
        (A * 2.5, Arithmetic("*", A, lit(2.5))),
        (2 * A, Arithmetic("*", lit(2), A)),
        (A / B, Arithmetic("/", A, B)),
        (1 / A, Arithmetic("/", lit(1), A)),
        (A % 2, Arithmetic("%", A, lit(2))),
        (7 % A, Arithmetic("%", lit(7), A)),
        (-A, Call("negative", (A,))),
        (A.cast("long"), Cast(A, "long")),
    ],
)
def test_operators_build_values(built: Expression, expected: Expression) -> None:
    assert same(built, expected)


CASE = Case(((A > 1, B + 1), (B.is_null(), Cast(C, "long"))), Call("abs", (A,)))


def test_a_walk_sees_every_part() -> None:
    assert [c.path[0] for c in columns_in(CASE)] == ["a", "b", "b", "c", "a"]
    assert len(children(CASE)) == 5
    assert [c.path[0] for c in columns_in(And(A.isin([B]), Call("concat", (C, A)) == B))] == ["a", "b", "c", "a", "b"]


def test_a_rewrite_reaches_every_part() -> None:
    def shout(node: Expression) -> Expression:
        return Column((node.path[0].upper(),)) if isinstance(node, Column) else node

    changed = rewrite(And(CASE == 1, A.like("x")), shout)
    assert format_expression(changed) == (
        "CASE WHEN A > 1 THEN B + 1 WHEN B IS NULL THEN CAST(C AS BIGINT) ELSE abs(A) END = 1 AND A LIKE 'x'"
    )


def test_a_rewrite_reaches_any_depth() -> None:
    deep: Expression = A
    for _ in range(10_000):
        deep = -deep
    renamed = rewrite(deep, lambda node: B if isinstance(node, Column) else node)
    assert [c.path for c in columns_in(renamed)] == [("b",)]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (A + 1, A - 1),
        (A + 1, A + 2),
        (A.cast("long"), A.cast("integer")),
        (Call("upper", (A,)), Call("lower", (A,))),
        (Call("coalesce", (A,)), Call("coalesce", (A, B))),
        (Case(((A > 1, B),)), Case(((A > 1, B),), C)),
        (Case(((A > 1, B),)), Case(((A > 1, B), (A > 2, C)))),
        (lit(1), lit(1.0)),
    ],
)
def test_different_values_are_not_the_same(left: Expression, right: Expression) -> None:
    assert same(left, left)
    assert not same(left, right)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((A + 1) * B, "(a + 1) * b"),
        (A + B * 2, "a + (b * 2)"),
        (A - -1, "a - (-1)"),
        (-(A + B), "-(a + b)"),
        (A + Decimal("1.50"), "a + 1.50"),
        (A + 1.5, "a + 1.5D"),
        (Call("date_add", (lit(date(2026, 1, 1)), A)), "date_add(DATE '2026-01-01', a)"),
        (Call("coalesce", (A, lit("it's"))), "coalesce(a, 'it''s')"),
        (Call("ltrim", (A, lit("x"))), "TRIM(LEADING 'x' FROM a)"),
        (A.cast("integer"), "CAST(a AS INT)"),
        (A.cast("decimal(5,2)"), "CAST(a AS DECIMAL(5,2))"),
        (Case(((A > 1, lit("x")),)), "CASE WHEN a > 1 THEN 'x' ELSE NULL END"),
        ((A + 1) > 2, "a + 1 > 2"),
    ],
)
def test_values_are_shown_as_sql(expression: Expression, text: str) -> None:
    assert format_expression(expression) == text


def test_one_time_stands_for_now_in_the_whole_expression() -> None:
    now, today = Call("current_timestamp", ()), Call("current_date", ())
    replaced = replace_now(And(now > A, Call("year", (today,)) == 2023), 1_700_000_000_123)
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert same(replaced, And(lit(moment) > A, Call("year", (lit(date(2023, 11, 14)),)) == 2023))
    before = replace_now(today, -1)
    assert isinstance(before, Literal)
    assert before.value == date(1969, 12, 31)
