"""What `bind` and `normalize` make of filters."""

import operator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pytest

from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.expressions import (
    And,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    bind,
    col,
    columns_in,
    format_expression,
    lit,
    normalize,
)
from lakeport.kernel.expressions.tree import same
from lakeport.kernel.schema import StructType
from lakeport.kernel.values import FarDate, FarTime
from tests.kernel.expressions.every_type import SCHEMA

NEVER_N, ALWAYS_N = And(IsNull(col("n")), lit(None)), Or(Not(IsNull(col("n"))), lit(None))
NAN, INFINITY = float("nan"), float("inf")
NOON = datetime(2026, 1, 1, 12)
DAY, HOUR = 86_400_000_000, 3_600_000_000


def assert_bound(expression: Expression, expected: Expression) -> None:
    bound = bind(expression, SCHEMA)
    assert same(bound, expected), format_expression(bound)


def test_names_are_resolved_regardless_of_case() -> None:
    assert_bound(col("POINT.x") == 1, col("Point.X") == 1)
    assert_bound(col("N").is_null(), col("n").is_null())


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UnknownColumnError) as caught:
        bind(col("Point.z") == 1, SCHEMA)
    assert caught.value.column == "Point.z"


@pytest.mark.parametrize(
    ("column", "value", "canonical"),
    [
        ("tiny", 1, 1),
        ("n", 2.0, 2),
        ("n", Decimal("3.00"), 3),
        ("n", " 12 ", 12),
        ("big", np.int64(7), 7),
        ("f", 1, 1.0),
        ("f", 1.1, 1.1),
        ("f", "1.1", float(np.float32(1.1))),
        ("f", "1e300", INFINITY),
        ("d", Decimal("1.5"), 1.5),
        ("d", "-1e3", -1000.0),
        ("d", "Infinity", INFINITY),
        ("m", 1, Decimal("1.00")),
        ("m", 0.1, Decimal("0.10")),
        ("m", "1.5", Decimal("1.50")),
        ("s", "x", "x"),
        ("s", b"x", "x"),
        ("raw", "é", b"\xc3\xa9"),
        ("raw", b"x", b"x"),
        ("day", "2026-1-2", date(2026, 1, 2)),
        ("day", "2026-01-02 00:00:00", date(2026, 1, 2)),
        ("day", datetime(2026, 1, 2), date(2026, 1, 2)),
        ("at", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("at", "2026-01-01T12:00", NOON.replace(tzinfo=UTC)),
        ("at", "2026-01-01 14:00:00.123456789+02:00", datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)),
        ("at", "2026-01-01 12:00:00Z", NOON.replace(tzinfo=UTC)),
        ("at", NOON, NOON.replace(tzinfo=UTC)),
        ("at", NOON.replace(tzinfo=timezone(timedelta(hours=1))), datetime(2026, 1, 1, 11, tzinfo=UTC)),
        ("at", date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
        ("local", "2026-01-01 12:00:00.5", datetime(2026, 1, 1, 12, 0, 0, 500000)),
        ("local", NOON.replace(tzinfo=UTC), NOON),
        ("at", np.datetime64("2026-01-01T12", "ns"), NOON.replace(tzinfo=UTC)),
        ("day", np.datetime64("2026-01-01"), date(2026, 1, 1)),
        ("day", "12345-1-1", FarDate(3789391)),
        ("day", "+12345-01-01", FarDate(3789391)),
        ("day", "+2026-01-01", date(2026, 1, 1)),
        ("day", "-0044-03-15", FarDate(-735525)),
        ("day", "0000-02-29", FarDate(-719469)),
        ("day", "-5877641-06-23", FarDate(-(2**31))),
        ("day", "5881580-07-11", FarDate(2**31 - 1)),
        ("day", np.datetime64("12345-01-01"), FarDate(3789391)),
        ("at", "0001-01-01 00:00:00+10:00", FarTime(-719162 * DAY - 10 * HOUR, UTC)),
        ("at", "-0044-03-15 12:00:00", FarTime(-735525 * DAY + 12 * HOUR, UTC)),
        ("at", "+294247-01-10 04:00:54.775807", FarTime(2**63 - 1, UTC)),
        ("at", np.datetime64("12345-01-01", "us"), FarTime(3789391 * DAY, UTC)),
        ("local", "12345-01-01", FarTime(3789391 * DAY)),
        ("local", FarDate(3789391), FarTime(3789391 * DAY)),
        ("flag", "Yes", True),
        ("flag", "f", False),
    ],
)
def test_a_literal_takes_the_type_of_the_column(column: str, value: Any, canonical: Any) -> None:
    assert_bound(col(column) < value, col(column) < canonical)
    assert_bound(col(column).isin([value]), col(column).isin([canonical]))


def test_the_scale_of_a_decimal_is_that_of_the_column() -> None:
    bound = bind(col("m") == 1, SCHEMA)
    assert format_expression(bound) == "m = '1.00'"


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("n", "1.5", "'1.5' does not fit the column n of type integer"),
        ("n", "1_000", "not written like 123"),
        ("n", True, "a number is needed"),
        ("n", "one", "does not fit"),
        ("d", "abc", "does not fit the column d of type double"),
        ("d", 10**400, "does not fit"),
        ("m", "abc", "decimal(5,2)"),
        ("s", 1, "1 does not fit the column s of type string: a string is needed, in quotes"),
        ("s", b"\xff", "does not fit"),
        ("raw", 1, "a binary is needed"),
        ("day", "tomorrow", "'tomorrow' does not fit the column day of type date"),
        ("day", "2026-02-30", "does not fit"),
        ("day", "2026-01-01 12:00:00", "it has a time of day"),
        ("day", 1, "a date or a time is needed"),
        ("at", "2026-01-01 25:00:00", "does not fit"),
        ("at", "294247-01-10 04:00:54.775808", "it is out of the range of timestamps"),
        ("day", "5881580-07-12", "it is out of the range of dates"),
        ("day", "99999-02-29", "day is out of range for month"),
        ("day", "-44-03-15", "it is not written like"),
        ("at", np.datetime64(1, "ns"), "it is finer than a microsecond"),
        ("local", "2026-01-01 12:00:00+01:00", "it has a time zone"),
        ("flag", 1, "a boolean is needed"),
        ("flag", "maybe", "neither true nor false"),
        ("n", object(), "does not fit"),
    ],
)
def test_a_literal_that_does_not_fit_is_refused(column: str, value: Any, reason: str) -> None:
    for expression in (col(column) == value, col(column).isin([value])):
        with pytest.raises(InvalidFilterError) as caught:
            bind(expression, SCHEMA)
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("n") > 1.5, col("n") > 1),
        (col("n") >= 1.5, col("n") > 1),
        (col("n") < 1.5, col("n") <= 1),
        (col("n") <= Decimal("-1.5"), col("n") <= -2),
        (col("n") == 1.5, NEVER_N),
        (col("n") != 1.5, ALWAYS_N),
        (col("n").equals_null_safe(1.5), lit(False)),
        (col("tiny") < 128, col("tiny") <= 127),
        (col("tiny") > 128, col("tiny") > 127),
        (col("tiny") >= -129, col("tiny") >= -128),
        (col("tiny") <= -129, col("tiny") < -128),
        (col("n") < INFINITY, col("n") <= 2**31 - 1),
        (col("n") > -INFINITY, col("n") >= -(2**31)),
        (col("n") < NAN, NEVER_N),
        (col("n") != NAN, ALWAYS_N),
        (col("n") > Decimal("1e999999"), col("n") > 2**31 - 1),
        (col("n") > Decimal("1e-999999"), col("n") > 0),
        (col("n") == Decimal("sNaN"), NEVER_N),
        (col("m") > Decimal("1.005"), col("m") > Decimal("1.00")),
        (col("m") < Decimal("1.005"), col("m") <= Decimal("1.00")),
        (col("m") < 1000, col("m") <= Decimal("999.99")),
        (col("m") < -1000, col("m") < Decimal("-999.99")),
        (col("day") < NOON, col("day") <= date(2026, 1, 1)),
        (col("day") >= NOON, col("day") > date(2026, 1, 1)),
        (col("day") >= FarTime(3789391 * DAY + 1), col("day") > FarDate(3789391)),
        (col("at") < FarDate(2**31 - 1), col("at") <= FarTime(2**63 - 1, UTC)),
        (col("at") < FarDate(-(2**31)), col("at") < FarTime(-(2**63), UTC)),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_compared_exactly(expression: Expression, expected: Expression) -> None:
    assert_bound(expression, expected)


def test_in_keeps_only_what_can_be_equal() -> None:
    assert_bound(col("n").isin([1, 1.5, 2**40, NAN, None]), In(col("n"), (lit(1), lit(None))))
    assert_bound(col("n").isin([1.5, 2.5]), NEVER_N)
    assert_bound(col("n").isin([1.5, None]), lit(None))
    assert_bound(col("d").isin([NAN, 1]), In(col("d"), (lit(1.0),)))
    assert_bound(col("n").isin([]), lit(False))


def test_in_with_columns_is_a_choice_of_comparisons() -> None:
    expected = Or(col("n") == 1, col("n") == col("big"))
    assert_bound(col("n").isin([1, col("big")]), expected)
    assert_bound(lit(1).isin([col("n")]), col("n") == 1)


def test_a_literal_on_the_left_goes_to_the_right() -> None:
    assert_bound(lit(1.5) < col("n"), col("n") > 1)
    assert_bound(lit("2026-01-01") >= col("day"), col("day") <= date(2026, 1, 1))
    assert_bound(lit(1) == col("n"), col("n") == 1)


def test_a_comparison_with_null_is_null() -> None:
    assert_bound(col("n") == None, lit(None))  # noqa: E711  # builds a predicate
    assert_bound(lit(None) < col("n"), lit(None))
    assert_bound(col("n").equals_null_safe(None), IsNull(col("n")))


def test_a_void_column_is_null_in_every_comparison() -> None:
    assert_bound(col("nothing") > 1, lit(None))
    assert_bound(col("nothing") == col("s"), lit(None))
    assert_bound(col("nothing").equals_null_safe(col("s")), IsNull(col("s")))
    assert_bound(col("nothing").equals_null_safe(1), lit(False))
    assert_bound(col("nothing").isin([1]), lit(None))
    assert_bound(col("nothing").like("a"), lit(None))
    assert_bound(col("nothing"), lit(None))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (lit(1) == lit(1.0), True),
        (lit(Decimal("1.1")) == lit(1.1), True),
        (lit("a") < lit("b"), True),
        (lit(date(2026, 1, 1)) < lit(NOON), True),
        (lit(date(2026, 1, 1)) < lit(FarDate(2**31 - 1)), True),
        (lit(NOON) < lit(FarDate(-(2**31))), False),
        (lit(NOON) > lit("2026-01-01"), True),
        (lit(NOON) < lit("12345-01-01"), True),
        (lit("2026-01-01 12:00:00") == lit(NOON.replace(tzinfo=UTC)), True),
        (lit(date(2026, 1, 1)) >= lit("2026-01-01"), True),
        (lit(None) == lit(None), None),
        (lit(None).equals_null_safe(None), True),
        (lit(1).equals_null_safe(None), False),
        (lit(NAN) == lit(NAN), False),
        (lit(None).is_null(), True),
        (lit(1).is_null(), False),
    ],
)
def test_literals_among_themselves_are_decided(expression: Expression, value: bool | None) -> None:
    assert_bound(expression, Literal(value))


@pytest.mark.parametrize("pair", [("n", "m"), ("tiny", "d"), ("day", "at"), ("at", "local"), ("s", "s")])
def test_columns_of_one_family_are_comparable(pair: tuple[str, str]) -> None:
    assert_bound(col(pair[0]) < col(pair[1]), col(pair[0]) < col(pair[1]))


@pytest.mark.parametrize(
    "expression",
    [
        col("n") == col("s"),
        col("s") == col("raw"),
        col("flag") == col("n"),
        col("Point") == col("Point"),
        col("list") == 1,
        col("map") == None,  # noqa: E711  # builds a predicate
        col("v") == 1,
        lit(1) == lit("1"),
        lit(True) == lit(1),
        col("n").like("a"),
        col("s").like("a\\"),
        col("n"),
        lit(1),
        col("n") & col("flag"),
        ~col("s"),
        Expression(),
    ],
)
def test_what_is_no_condition_or_cannot_be_compared_is_refused(expression: Expression) -> None:
    with pytest.raises(InvalidFilterError):
        bind(expression, SCHEMA)


def test_nested_columns_take_is_null() -> None:
    for name in ("Point", "list", "map", "v"):
        assert_bound(col(name).is_not_null(), Not(IsNull(col(name))))


def test_a_boolean_column_and_a_condition_can_be_compared() -> None:
    assert_bound(col("flag") & ~col("FLAG"), And(col("flag"), Not(col("flag"))))
    assert_bound((col("n") > 1.5) == True, (col("n") > 1) == True)  # noqa: E712  # builds a predicate
    assert_bound((col("n") > 1).is_null(), IsNull(col("n") > 1))


def test_a_filter_that_is_too_deep_is_refused() -> None:
    for depth in (300, 5000):
        deep: Expression = col("n") == 1
        for _ in range(depth):
            deep = ~deep
        with pytest.raises(InvalidFilterError, match="too deeply"):
            bind(deep, SCHEMA)


@pytest.mark.parametrize("connect", [operator.and_, operator.or_])
def test_a_long_chain_of_conditions_is_not_a_deep_one(connect: Any) -> None:
    parts: list[Expression] = [col("n") == i for i in range(5000)]
    bound = bind(reduce(connect, parts), SCHEMA)
    assert format_expression(bound).count("n = ") == len(columns_in(bound)) == 5000


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (~(col("n") < 1), col("n") >= 1),
        (~~(col("n") < 1), col("n") < 1),
        (~(col("n") == col("big")), col("n") != col("big")),
        (~(col("n").equals_null_safe(1)), ~(col("n").equals_null_safe(1))),
        (~(col("d") < 1.0), ~(col("d") < 1.0)),
        (~(col("n") < col("f")), ~(col("n") < col("f"))),
        (~((col("n") < 1) & col("flag")), (col("n") >= 1) | ~col("flag")),
        (~((col("n") < 1) | ~col("flag")), (col("n") >= 1) & col("flag")),
        ((col("n") < 1) & ~(col("flag") & col("flag")), (col("n") < 1) & (~col("flag") | ~col("flag"))),
        (~col("n").isin([1]), ~col("n").isin([1])),
        (~col("s").like("a"), ~col("s").like("a")),
        (~IsNull(col("n")), Not(IsNull(col("n")))),
        (~lit(None), lit(None)),
        (~lit(True), lit(False)),
    ],
)
def test_not_goes_down_to_the_leaves(expression: Expression, expected: Expression) -> None:
    normal = normalize(expression, SCHEMA)
    assert same(normal, expected), format_expression(normal)


def test_text_beside_a_date_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidFilterError, match=r"'day' does not fit the value '2026-01-01' of type date"):
        bind(lit("day") == lit(date(2026, 1, 1)), StructType(()))


def test_text_in_the_place_of_a_column_gets_a_hint() -> None:
    with pytest.raises(InvalidFilterError, match=r"'n' cannot be compared with 10; quotes mean text"):
        bind(lit("n") == lit(10), StructType(()))
    with pytest.raises(InvalidFilterError, match=r"TRUE cannot be compared with 10$"):
        bind(lit(True) == lit(10), StructType(()))
