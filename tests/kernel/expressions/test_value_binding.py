"""What `bind_value` makes of values: their types by Spark's rules in ANSI mode, and what does not fit."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from lakeport.errors import InvalidFilterError, UnknownColumnError
from lakeport.kernel.expressions import (
    Call,
    Cast,
    Expression,
    IsNull,
    Literal,
    Not,
    bind,
    bind_value,
    col,
    decimal_result,
    format_expression,
    lit,
    normalize,
    parse_expression,
    type_of,
)
from lakeport.kernel.expressions.tree import same
from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from tests.kernel.expressions.every_type import INT, POINT, SCHEMA


def bound(text: str, target: str | DataType | None = None) -> Expression:
    wanted = PrimitiveType(target) if isinstance(target, str) else target
    return bind_value(parse_expression(text), SCHEMA, wanted)


@pytest.mark.parametrize(
    ("text", "type_name"),
    [
        ("1", "integer"),
        ("2147483648", "long"),
        ("9223372036854775808", "decimal(19,0)"),
        ("1.50", "decimal(3,2)"),
        ("0.05", "decimal(2,2)"),
        ("1e0", "double"),
        ("'a'", "string"),
        ("X'41'", "binary"),
        ("DATE '2026-01-01'", "date"),
        ("TIMESTAMP '2026-01-01 00:00:00'", "timestamp"),
        ("TIMESTAMP_NTZ '2026-01-01 00:00:00'", "timestamp_ntz"),
        ("NULL", "void"),
        ("n > 1", "boolean"),
        ("NOT flag", "boolean"),
        ("tiny + tiny", "byte"),
        ("tiny + small", "short"),
        ("tiny * n", "integer"),
        ("n - big", "long"),
        ("n % tiny", "integer"),
        ("n + 1", "integer"),
        ("n + 1L", "long"),
        ("tiny + 1", "integer"),
        ("tiny + 1Y", "byte"),
        ("n / n", "double"),
        ("n DIV n", "long"),
        ("m DIV n", "long"),
        ("f + f", "float"),
        ("f + n", "double"),
        ("f + d", "double"),
        ("f / f", "double"),
        ("m + d", "double"),
        ("m + f", "double"),
        ("m + m", "decimal(6,2)"),
        ("m + n", "decimal(13,2)"),
        ("m + big", "decimal(23,2)"),
        ("m + 1", "decimal(6,2)"),
        ("m * 10", "decimal(8,2)"),
        ("m * m", "decimal(11,4)"),
        ("m / m", "decimal(13,8)"),
        ("m / 3", "decimal(9,6)"),
        ("m % 1", "decimal(3,2)"),
        ("w + w", "decimal(38,9)"),
        ("w * w", "decimal(38,6)"),
        ("w / w", "decimal(38,6)"),
        ("n + NULL", "integer"),
        ("NULL + NULL", "double"),
        ("-n", "integer"),
        ("-m", "decimal(5,2)"),
        ("day + 1", "date"),
        ("1 + day", "date"),
        ("day - tiny", "date"),
        ("day + INTERVAL 1 DAY", "date"),
        ("day + INTERVAL 1 HOUR", "timestamp"),
        ("day + INTERVAL 1 MONTH", "date"),
        ("at - INTERVAL 1 DAY", "timestamp"),
        ("local - INTERVAL 1 YEAR", "timestamp_ntz"),
        ("CAST(n AS STRING)", "string"),
        ("CASE WHEN flag THEN 1 ELSE 2L END", "long"),
        ("CASE WHEN flag THEN n ELSE m END", "decimal(12,2)"),
        ("CASE WHEN flag THEN n ELSE f END", "double"),
        ("CASE WHEN flag THEN f ELSE f END", "float"),
        ("CASE WHEN flag THEN n END", "integer"),
        ("CASE WHEN flag THEN NULL ELSE NULL END", "void"),
        ("CASE WHEN flag THEN day ELSE at END", "timestamp"),
        ("CASE WHEN flag THEN day ELSE local END", "timestamp_ntz"),
        ("CASE WHEN flag THEN day ELSE '2026-01-01' END", "date"),
        ("CASE WHEN flag THEN 'a' ELSE NULL END", "string"),
        ("coalesce(tiny, n, NULL)", "integer"),
        ("coalesce(nothing, s)", "string"),
        ("greatest(n, 1.5)", "decimal(11,1)"),
        ("nullif(n, 0)", "integer"),
        ("s || n", "string"),
        ("concat(raw, raw)", "binary"),
        ("concat(raw, s)", "string"),
        ("length(s)", "integer"),
        ("abs(tiny)", "byte"),
        ("round(d, 2)", "double"),
        ("round(n, -2)", "integer"),
        ("round(m, 1)", "decimal(5,1)"),
        ("round(m)", "decimal(4,0)"),
        ("round(m, -5)", "decimal(6,0)"),
        ("floor(d)", "long"),
        ("floor(n)", "long"),
        ("ceil(m)", "decimal(4,0)"),
        ("floor(CAST(n AS DECIMAL(10,0)))", "decimal(10,0)"),
        ("isnan(n)", "boolean"),
        ("year(at)", "integer"),
        ("date_trunc('month', day)", "timestamp"),
        ("trunc(at, 'MONTH')", "date"),
        ("to_date(at)", "date"),
        ("date_add(at, 1)", "date"),
        ("datediff(at, day)", "integer"),
        ("current_timestamp()", "timestamp"),
        ("current_date()", "date"),
    ],
)
def test_values_have_the_types_that_spark_gives_them(text: str, type_name: str) -> None:
    assert type_of(bound(text), SCHEMA) == PrimitiveType(type_name)


def test_a_decimal_of_too_many_digits_gives_up_those_after_the_point_but_six() -> None:
    assert decimal_result("+", (38, 0), (38, 38)) == (38, 6)
    assert decimal_result("*", (20, 4), (20, 4)) == (38, 6)
    assert decimal_result("*", (38, 2), (38, 2)) == (38, 4)
    assert decimal_result("/", (38, 0), (38, 0)) == (38, 6)
    assert decimal_result("%", (38, 10), (10, 2)) == (18, 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N + 1", col("n") + 1),
        ("point.x", col("Point.X")),
        ("n + big", Cast(col("n"), "long") + col("big")),
        ("day - 1", Call("date_sub", (col("day"), lit(1)))),
        ("upper(n)", Call("upper", (Cast(col("n"), "string"),))),
        ("date_add('2026-01-01', n)", Call("date_add", (lit(date(2026, 1, 1)), col("n")))),
        ("trunc(day, 'MON')", Call("trunc", (col("day"), lit("month")))),
        ("n > 1.5", col("n") > 1),
    ],
)
def test_every_conversion_is_a_cast_in_the_tree(text: str, expected: Expression) -> None:
    found = bound(text)
    assert same(found, expected), format_expression(found)


def test_a_bound_value_is_bound_to_itself() -> None:
    for text in ("n + big", "m * 2", "coalesce(tiny, 1.5, NULL)", "CASE WHEN n > 1.5 THEN day ELSE '2026-01-01' END"):
        once = bound(text)
        assert same(bind_value(once, SCHEMA), once), format_expression(once)


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("n", "integer", "n"),
        ("n", "long", "CAST(n AS BIGINT)"),
        ("big", "byte", "CAST(big AS TINYINT)"),
        ("d", "integer", "CAST(d AS INT)"),
        ("m", "decimal(10,4)", "CAST(m AS DECIMAL(10,4))"),
        ("d", "decimal(10,4)", "CAST(d AS DECIMAL(10,4))"),
        ("n", "string", "CAST(n AS STRING)"),
        ("flag", "string", "CAST(flag AS STRING)"),
        ("day", "timestamp", "CAST(day AS TIMESTAMP)"),
        ("at", "date", "CAST(at AS DATE)"),
        ("at", "timestamp_ntz", "CAST(at AS TIMESTAMP_NTZ)"),
        ("NULL", "integer", "CAST(NULL AS INT)"),
        ("5", "byte", "CAST(5 AS TINYINT)"),
        ("'2026-01-31'", "date", "'2026-01-31'"),
        ("'12'", "long", "CAST(12 AS BIGINT)"),
        ("n > 1", "boolean", "n > 1"),
    ],
)
def test_a_value_is_converted_to_what_it_is_stored_in(text: str, target: str, expected: str) -> None:
    found = bound(text, target)
    assert format_expression(found) == expected
    assert type_of(found, SCHEMA) == PrimitiveType(target)


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        ("s", "integer", "s is string, but integer is needed"),
        ("s", "date", "s is string, but date is needed"),
        ("s", "binary", "s is string, but binary is needed"),
        ("s", "boolean", "string"),
        ("n", "boolean", "n is integer, but boolean is needed"),
        ("flag", "integer", "boolean"),
        ("n", "date", "integer"),
        ("day", "long", "date"),
        ("at", "long", "timestamp"),
        ("Point", "string", "Point is struct<X: integer>, but string is needed"),
        ("v", "string", "v is variant"),
        ("list", "integer", "list is array"),
        ("'soon'", "date", "'soon' cannot be date: it is not written like 2026-01-31"),
        ("'1.5'", "integer", "'1.5' cannot be integer"),
        ("'300'", "byte", "no value of the type is equal to it"),
    ],
)
def test_what_spark_does_not_store_is_refused_with_both_types(text: str, target: str, reason: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        bound(text, target)
    assert reason in str(caught.value)


def test_nested_values_pass_to_a_target_of_their_shape_as_they_are() -> None:
    marked = StructType((StructField("X", INT, nullable=False, metadata={"delta.columnMapping.id": 1}),))
    for text, target in (("point", marked), ("list", ArrayType(INT, False)), ("map", MapType(INT, INT, False))):
        assert isinstance(bound(text, target), type(col("x")))
        assert same(bound("NULL", target), Literal(None))
        assert same(bound(f"CASE WHEN flag THEN {text} END", target), bound(f"CASE WHEN flag THEN {text} END"))
    assert type_of(bound("CASE WHEN flag THEN NULL ELSE point END"), SCHEMA) == POINT
    assert same(bound("v", "variant"), col("v"))
    other = StructType((StructField("Y", INT),))
    for text, wanted in (("point", other), ("list", ArrayType(PrimitiveType("long"))), ("n", POINT), ("list", POINT)):
        with pytest.raises(InvalidFilterError, match="is needed"):
            bound(text, wanted)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("s + 1", "cannot compute string + integer: s + 1"),
        ("flag * 2", "cannot compute boolean * integer"),
        ("day - day", "use datediff"),
        ("day * 2", "cannot compute date * integer"),
        ("d DIV 2", "cannot compute double div integer"),
        ("at + 1", "cannot compute timestamp + integer"),
        ("Point + 1", "cannot compute struct<X: integer> + integer"),
        ("-s", "negative takes a number, but s is string"),
        ("abs(flag)", "abs takes a number"),
        ("year(n)", "n is integer, but date is needed in year; use CAST"),
        ("upper(Point)", "Point is struct<X: integer>, but string is needed in upper"),
        ("substring(s, 'x')", "'x' cannot be integer"),
        ("round(d, n)", "n must be an integer literal"),
        ("date_trunc('eon', at)", "'eon' is not a unit of time for date_trunc"),
        ("date_trunc(s, at)", "s is not a unit of time"),
        ("trunc(day, 'hour')", "use one of month, quarter, week, year"),
        ("date_format(at, 'EEEE')", "is not a format for date_format"),
        ("coalesce(n, s)", "the values of coalesce have no type in common: integer, string"),
        ("CASE WHEN flag THEN n ELSE day END", "the values of CASE have no type in common: integer, date"),
        ("CASE WHEN n THEN 1 END", "the column n of type integer is not a condition"),
        ("CASE WHEN flag THEN n ELSE 'many' END", "'many' cannot be integer"),
        ("CAST(Point AS STRING)", "Point is struct<X: integer> and cannot be cast to string"),
        ("CAST(n AS DATE)", "n is integer and cannot be cast to date"),
        ("CAST(raw AS INT)", "raw is binary and cannot be cast to integer"),
        ("CAST(flag AS DATE)", "cannot be cast"),
        ("1" * 40, "more than 38 digits"),
    ],
)
def test_types_that_do_not_go_together_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        bound(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        Call("nosuch", (col("n"),)),
        Call("upper", ()),
        Cast(col("n"), "int"),
        Cast(col("n"), "decimal(39,0)"),
        Cast(col("n"), "decimal(2,3)"),
        lit(object()) + 1,
        lit(Decimal("NaN")) + 1,
        Expression(),
    ],
)
def test_what_makes_no_sense_is_refused(expression: Expression) -> None:
    with pytest.raises(InvalidFilterError):
        bind_value(expression, SCHEMA)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UnknownColumnError):
        bound("missing + 1")


def test_a_value_that_is_too_deep_is_refused() -> None:
    deep: Expression = col("n")
    for _ in range(5000):
        deep = -deep
    with pytest.raises(InvalidFilterError, match="too deeply"):
        bind_value(deep, SCHEMA)


def test_a_numpy_number_is_a_literal() -> None:
    assert same(bind_value(col("n") + np.int64(3), SCHEMA), col("n") + 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n * 2 > 10.5", (col("n") * 2) > 10),
        ("10.5 < n * 2", (col("n") * 2) > 10),
        ("upper(s) = 'X'", Call("upper", (col("s"),)) == "X"),
        ("day + 1 = '2026-01-02'", Call("date_add", (col("day"), lit(1))) == date(2026, 1, 2)),
        ("n + 1 IS NOT NULL", Not(IsNull(col("n") + 1))),
        ("n + 1 IN (1, 1.5)", (col("n") + 1).isin([1])),
        ("lower(s) LIKE 'a%'", Call("lower", (col("s"),)).like("a%")),
        ("coalesce(flag, FALSE)", Call("coalesce", (col("flag"), lit(False)))),
        ("NOT isnan(d)", Not(Call("isnan", (col("d"),)))),
        ("n + 1 = big", (col("n") + 1) == col("big")),
        ("n + 1 = NULL", lit(None)),
    ],
)
def test_values_stand_in_filters_where_columns_do(text: str, expected: Expression) -> None:
    found = bind(parse_expression(text), SCHEMA)
    assert same(found, expected), format_expression(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n + 1", "the value n + 1 of type integer is not a condition"),
        ("upper(s) = 1", "1 does not fit the value upper(s) of type string"),
        ("n + 1 = s", "cannot be compared"),
        ("n + 1 LIKE 'a'", "cannot be matched with LIKE"),
        ("length(s) AND flag", "is not a condition"),
    ],
)
def test_a_value_that_does_not_fit_its_place_in_a_filter_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        bind(parse_expression(text), SCHEMA)
    assert reason in str(caught.value)


def test_a_comparison_of_values_is_turned_around_unless_it_may_be_nan() -> None:
    integer, double = bind(parse_expression("NOT n + 1 < 3"), SCHEMA), bind(parse_expression("NOT n / 2 < 3"), SCHEMA)
    assert same(normalize(integer, SCHEMA), (col("n") + 1) >= 3)
    assert same(normalize(double, SCHEMA), double)
