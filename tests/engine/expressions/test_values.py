"""Values over Arrow batches: Spark's answers in ANSI mode, worked out by hand, by plain Python, and by DuckDB."""

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine.expressions.evaluator import ArrowExpressions
from lakeport.errors import InvalidDataError, UnsupportedExpressionError
from lakeport.kernel.expressions import (
    Arithmetic,
    Call,
    Case,
    Cast,
    Expression,
    bind,
    bind_value,
    col,
    decimal_result,
    parse_expression,
    type_of,
)
from lakeport.kernel.expressions.tree import ArithmeticOp
from lakeport.kernel.schema import (
    ArrayType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    arrow_type,
)
from tests.examples import examples

NAN, INFINITY = float("nan"), float("inf")
TYPES = {
    "tiny": "byte",
    "n": "integer",
    "big": "long",
    "f": "float",
    "d": "double",
    "m": "decimal(5,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "flag": "boolean",
    "nothing": "void",
}
SCHEMA = StructType(tuple(StructField(name, PrimitiveType(type_name)) for name, type_name in TYPES.items()))
ROW = {
    "tiny": 100,
    "n": -7,
    "big": 10**12,
    "f": 1.5,
    "d": 2.675,
    "m": Decimal("1.25"),
    "w": Decimal("-3.5"),
    "s": "Straße",
    "raw": b"xy",
    "day": date(2026, 1, 31),
    "at": datetime(2026, 5, 3, 12, 30, 15, 500000, tzinfo=UTC),
    "local": datetime(1969, 12, 31, 23, 59, 59, 1),
    "flag": True,
}


def evaluate(expression: Expression, rows: list[dict[str, Any]], schema: StructType = SCHEMA) -> pa.Array:
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(schema))
    bound = bind_value(expression, schema)
    found = ArrowExpressions().evaluator(batch.schema, bound)(batch)
    assert found.type == arrow_type(type_of(bound, schema))
    return found


def value_of(text: str, **row: Any) -> Any:
    """The value for the row; a row of nulls, and one with more rows around it, must not change it."""
    given = ROW | row
    expression = parse_expression(text)
    (value,) = evaluate(expression, [given]).to_pylist()
    around = evaluate(expression, [given, given, given]).to_pylist()
    assert repr(around) == repr([value] * 3)
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + 1", -6),
        ("n - big", -(10**12) - 7),
        ("n * n", 49),
        ("n / 2", -3.5),
        ("n % 3", -1),
        ("n % -3", -1),
        ("7 % n", 0),
        ("-2147483648 % -1", 0),
        ("n DIV 2", -3),
        ("f * f", 2.25),
        ("f / 0.5F", 3.0),
        ("d % 1", 0.6749999999999998),
        ("-d % 1", -0.6749999999999998),
        ("CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE) IS NULL", False),
        ("1e308 * 10", INFINITY),
        ("m + 1", Decimal("2.25")),
        ("m - m", Decimal("0.00")),
        ("m * m", Decimal("1.5625")),
        ("m / 3", Decimal("0.416667")),
        ("-m / 3", Decimal("-0.416667")),
        ("m % 1", Decimal("0.25")),
        ("-m % 1", Decimal("-0.25")),
        ("m DIV 1", 1),
        ("-m DIV 1", -1),
        ("w * w", Decimal("12.250000")),
        ("w + w", Decimal("-7.000000000")),
        ("w / 3", Decimal("-1.1666666667")),
        ("m + d", 3.925),
        ("n + NULL", None),
        ("-n", 7),
        ("-m", Decimal("-1.25")),
        ("-nothing", None),
        ("day + 1", date(2026, 2, 1)),
        ("day - 31", date(2025, 12, 31)),
        ("day + INTERVAL 1 WEEK", date(2026, 2, 7)),
        ("day + INTERVAL 36 HOURS", datetime(2026, 2, 1, 12, tzinfo=UTC)),
        ("day + INTERVAL 1 MONTH", date(2026, 2, 28)),
        ("at - INTERVAL 1 YEAR", datetime(2025, 5, 3, 12, 30, 15, 500000, tzinfo=UTC)),
        ("local + INTERVAL 999999 MICROSECONDS", datetime(1970, 1, 1)),
    ],
)
def test_arithmetic(text: str, expected: Any) -> None:
    found = value_of(text)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(d AS INT)", 2),
        ("CAST(-d AS BIGINT)", -2),
        ("CAST(w AS INT)", -3),
        ("CAST(big AS DOUBLE)", 1e12),
        ("CAST(d AS FLOAT)", 2.674999952316284),
        ("CAST(1e300 AS FLOAT)", INFINITY),
        ("CAST(d AS DECIMAL(5,2))", Decimal("2.68")),
        ("CAST(-d AS DECIMAL(5,2))", Decimal("-2.68")),
        ("CAST(CAST('NaN' AS DOUBLE) AS DECIMAL(5,2))", None),
        ("CAST(m AS DECIMAL(3,1))", Decimal("1.3")),
        ("CAST(-m AS DECIMAL(3,1))", Decimal("-1.3")),
        ("CAST(m AS DECIMAL(38,20))", Decimal("1.25")),
        ("CAST(n AS DECIMAL(3,2))", Decimal("-7.00")),
        ("CAST(m AS DOUBLE)", 1.25),
        ("CAST(CAST(0.29 AS DECIMAL(5,2)) AS DOUBLE)", 0.29),
        ("CAST(CAST(4.35 AS DECIMAL(38,2)) AS DOUBLE)", 4.35),
        ("CAST(flag AS INT)", 1),
        ("CAST(flag AS DOUBLE)", 1.0),
        ("CAST(flag AS DECIMAL(3,1))", Decimal("1.0")),
        ("CAST(n AS BOOLEAN)", True),
        ("CAST(m - m AS BOOLEAN)", False),
        ("CAST(0.5 * f AS BOOLEAN)", True),
        ("CAST(at AS DATE)", date(2026, 5, 3)),
        ("CAST(local AS DATE)", date(1969, 12, 31)),
        ("CAST(day AS TIMESTAMP)", datetime(2026, 1, 31, tzinfo=UTC)),
        ("CAST(local AS TIMESTAMP)", datetime(1969, 12, 31, 23, 59, 59, 1, UTC)),
        ("CAST(at AS TIMESTAMP_NTZ)", datetime(2026, 5, 3, 12, 30, 15, 500000)),
        ("CAST(at AS BIGINT)", 1777811415),
        ("CAST(CAST(local AS TIMESTAMP) AS BIGINT)", -1),
        ("CAST(n AS TIMESTAMP)", datetime(1969, 12, 31, 23, 59, 53, tzinfo=UTC)),
        ("CAST(n AS STRING)", "-7"),
        ("CAST(flag AS STRING)", "true"),
        ("CAST(raw AS STRING)", "xy"),
        ("CAST(s AS BINARY)", "Straße".encode()),
        ("CAST(day AS STRING)", "2026-01-31"),
        ("CAST(at AS STRING)", "2026-05-03 12:30:15.5"),
        ("CAST(local AS STRING)", "1969-12-31 23:59:59.000001"),
        ("CAST(date_trunc('hour', at) AS STRING)", "2026-05-03 12:00:00"),
        ("CAST(w AS STRING)", "-3.5000000000"),
        ("CAST(CAST(0 AS DECIMAL(38,10)) AS STRING)", "0.0000000000"),
        ("CAST(d AS STRING)", "2.675"),
        ("CAST(f * 0.1F AS STRING)", "0.15"),
        ("CAST(1e0 AS STRING)", "1.0"),
        ("CAST(100.0D AS STRING)", "100.0"),
        ("CAST(0.001D AS STRING)", "0.001"),
        ("CAST(1.5e-5 AS STRING)", "1.5E-5"),
        ("CAST(9999999e0 AS STRING)", "9999999.0"),
        ("CAST(1e7 AS STRING)", "1.0E7"),
        ("CAST(-1.25e20 AS STRING)", "-1.25E20"),
        ("CAST(-0.0D AS STRING)", "-0.0"),
        ("CAST(d * CAST('inf' AS DOUBLE) AS STRING)", "Infinity"),
        ("CAST(concat(' ', n) AS INT)", -7),
        ("CAST(concat(m, ' ') AS DECIMAL(3,1))", Decimal("1.3")),
        ("CAST(concat(m, 'e2') AS DOUBLE)", 125.0),
        ("CAST(concat(day, ' 12:00:00') AS DATE)", date(2026, 1, 31)),
        ("CAST(concat(day, 'T12:00:00+02:00') AS TIMESTAMP)", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("CAST(concat('', 'yes') AS BOOLEAN)", True),
        ("CAST(nothing AS DECIMAL(5,2))", None),
        ("CAST(1.9 AS INT)", 1),
    ],
)
def test_casts(text: str, expected: Any) -> None:
    found = value_of(text)
    assert type(found) is type(expected)
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("upper(s)", "STRASSE"),
        ("upper('abc')", "ABC"),
        ("lower('ÄB')", "äb"),
        ("reverse('aé')", "éa"),
        ("length(s)", 6),
        ("length(raw)", 2),
        ("length(n)", 2),
        ("s || '-' || n", "Straße--7"),
        ("concat(raw, raw)", b"xyxy"),
        ("concat(s, NULL)", None),
        ("substring(s, 2)", "traße"),
        ("substring(s, 5, 1)", "ß"),
        ("substring(s, 0, 2)", "St"),
        ("substring(s, -2)", "ße"),
        ("substring(s, -8, 3)", "S"),
        ("substring(s, -2, 1)", "ß"),
        ("substring(s, 3, 0)", ""),
        ("substring(s, 3, -1)", ""),
        ("substring(s, 99)", ""),
        ("substring(s, 2, 2147483647)", "traße"),
        ("substring(s, -n, 2)", ""),
        ("substring(s, n, 3)", "St"),
        ("left(s, 3)", "Str"),
        ("left(s, -1)", ""),
        ("right(s, 3)", "aße"),
        ("right(s, 0)", ""),
        ("right(s, 99)", "Straße"),
        ("trim('  a b ')", "a b"),
        ("ltrim('  a ')", "a "),
        ("rtrim('  a ')", "  a"),
        ("trim(concat(chr, ' '))", "\ta"),
        ("TRIM(BOTH 'Se' FROM s)", "traß"),
        ("TRIM(TRAILING 'e' FROM s)", "Straß"),
        ("replace(s, 'ß', 'ss')", "Strasse"),
        ("replace(s, 'a')", "Strße"),
        ("replace(s, '', 'x')", "Straße"),
        ("replace(s, s, n)", "-7"),
        ("abs(n)", 7),
        ("abs(w)", Decimal("3.5000000000")),
        ("abs(-d)", 2.675),
        ("round(d)", 3.0),
        ("round(d, 2)", 2.68),
        ("round(-2.5e0)", -3.0),
        ("round(125e0, -1)", 130.0),
        ("round(CAST('NaN' AS DOUBLE), 1) IS NULL", False),
        ("round(f)", 2.0),
        ("round(m, 1)", Decimal("1.3")),
        ("round(m)", Decimal("1")),
        ("round(n, -1)", -10),
        ("round(n, 2)", -7),
        ("floor(-d)", -3),
        ("ceil(-d)", -2),
        ("floor(w)", Decimal("-4")),
        ("ceil(w)", Decimal("-3")),
        ("floor(n)", -7),
        ("sqrt(49)", 7.0),
        ("power(2, 10)", 1024.0),
        ("isnan(d)", False),
        ("isnan(CAST('NaN' AS DOUBLE))", True),
        ("isnan(CAST(NULL AS DOUBLE))", False),
        ("coalesce(nothing, NULL, n)", -7),
        ("coalesce(NULL, nothing)", None),
        ("nvl(s, 'x')", "Straße"),
        ("nullif(n, -7)", None),
        ("nullif(n, 7)", -7),
        ("greatest(n, 1.5, NULL)", Decimal("1.5")),
        ("least(n, 1.5, NULL)", Decimal("-7.0")),
        ("greatest(NULL, nothing, n)", -7),
        ("least(s, 'A')", "A"),
        ("greatest(flag, FALSE)", True),
        ("greatest(d, CAST('NaN' AS DOUBLE)) = 1", False),
        ("least(d, CAST('NaN' AS DOUBLE))", 2.675),
        ("greatest(day, at)", datetime(2026, 5, 3, 12, 30, 15, 500000, tzinfo=UTC)),
        ("year(at)", 2026),
        ("quarter(day)", 1),
        ("month(local)", 12),
        ("day(day)", 31),
        ("dayofweek(DATE '2026-01-04')", 1),
        ("weekday(DATE '2026-01-04')", 6),
        ("dayofyear(day)", 31),
        ("weekofyear(DATE '2026-12-31')", 53),
        ("hour(at)", 12),
        ("minute(at)", 30),
        ("second(at)", 15),
        ("second(local)", 59),
        ("EXTRACT(MONTH FROM at)", 5),
        ("date_trunc('year', at)", datetime(2026, 1, 1, tzinfo=UTC)),
        ("date_trunc('QUARTER', at)", datetime(2026, 4, 1, tzinfo=UTC)),
        ("date_trunc('MON', at)", datetime(2026, 5, 1, tzinfo=UTC)),
        ("date_trunc('week', at)", datetime(2026, 4, 27, tzinfo=UTC)),
        ("date_trunc('DD', local)", datetime(1969, 12, 31, tzinfo=UTC)),
        ("date_trunc('minute', at)", datetime(2026, 5, 3, 12, 30, tzinfo=UTC)),
        ("date_trunc('second', local)", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("trunc(day, 'week')", date(2026, 1, 26)),
        ("trunc(DATE '1969-05-31', 'YEAR')", date(1969, 1, 1)),
        ("to_date(at)", date(2026, 5, 3)),
        ("date(at)", date(2026, 5, 3)),
        ("date_add('2024-02-28', 1)", date(2024, 2, 29)),
        ("date_sub(day, 31)", date(2025, 12, 31)),
        ("datediff(day, '2025-12-31')", 31),
        ("add_months(day, 1)", date(2026, 2, 28)),
        ("add_months(DATE '2024-03-31', -13)", date(2023, 2, 28)),
        ("date_format(at, 'yyyy-MM')", "2026-05"),
        ("date_format(at, 'yyyy/MM/dd HH.mm.ss')", "2026/05/03 12.30.15"),
        ("date_format(local, 'HH:mm')", "23:59"),
        ("year(DATE '12345-01-01')", 12345),
        ("weekofyear(DATE '-0044-03-15')", 11),
        ("hour(TIMESTAMP '-0044-03-15 13:14:15')", 13),
        ("CAST(trunc(DATE '-0044-03-15', 'week') AS STRING)", "-0044-03-12"),
        ("CAST(DATE '12345-01-01' AS STRING)", "+12345-01-01"),
        ("CAST(DATE '0000-01-01' AS STRING)", "0000-01-01"),
        ("CAST(TIMESTAMP '12345-01-01 01:02:03.4' AS STRING)", "+12345-01-01 01:02:03.4"),
        ("CAST(TIMESTAMP_NTZ '-0044-03-15 12:00:00' AS STRING)", "-0044-03-15 12:00:00"),
        ("CAST(CAST(concat('+12345', '-1-1') AS DATE) AS STRING)", "+12345-01-01"),
        ("CAST(add_months(DATE '12345-01-31', 1) AS STRING)", "+12345-02-28"),
        ("CAST(TIMESTAMP '-0044-03-15 12:00:00' + INTERVAL 1 YEAR AS STRING)", "-0043-03-15 12:00:00"),
        ("CAST(add_months(DATE '9999-12-31', 2) AS STRING)", "+10000-02-29"),
        ("datediff(DATE '12345-01-01', DATE '-0044-03-15')", 4524916),
        ("CAST(TIMESTAMP '-0044-03-15 12:00:00' AS BIGINT)", -63549316800),
        ("date_format(DATE '12345-01-01', 'yyyy/MM/dd')", "+12345/01/01"),
        ("date_format(TIMESTAMP '-0044-03-15 13:00:00', 'yyyy-MM HH')", "-0044-03 13"),
        ("year(DATE '5881580-07-11')", 5881580),
        ("year(DATE '-5877641-06-23')", -5877641),
        ("year(TIMESTAMP '-200000-05-06 07:08:09.5')", -200000),
        ("quarter(DATE '5881580-07-11')", 3),
        ("month(DATE '40000-02-29')", 2),
        ("day(DATE '40000-02-29')", 29),
        ("dayofyear(DATE '5881580-07-11')", 193),
        ("dayofyear(DATE '-40000-03-01')", 61),
        ("dayofweek(DATE '5881580-07-11')", 6),
        ("weekday(DATE '-40000-03-01')", 2),
        ("weekofyear(DATE '-5877641-06-23')", 26),
        ("hour(TIMESTAMP '200000-05-06 07:08:09.5')", 7),
        ("CAST(trunc(DATE '5881580-07-11', 'MM') AS STRING)", "+5881580-07-01"),
        ("CAST(date_trunc('week', TIMESTAMP '200000-05-06 07:08:09.5') AS STRING)", "+200000-05-01 00:00:00"),
        ("CAST(date_trunc('quarter', TIMESTAMP '-200000-05-06 07:08:09.5') AS STRING)", "-200000-04-01 00:00:00"),
        ("CAST(TIMESTAMP '200000-05-06 07:08:09.5' AS STRING)", "+200000-05-06 07:08:09.5"),
        ("CAST(DATE '-5877641-06-23' AS STRING)", "-5877641-06-23"),
        ("date_format(TIMESTAMP '-200000-05-06 07:08:09.5', 'yyyy-MM-dd HH:mm:ss')", "-200000-05-06 07:08:09"),
    ],
)
def test_functions(text: str, expected: Any) -> None:
    found = value_of(text.replace("chr", "'\ta'"))
    assert type(found) is type(expected)
    assert found == expected


NULLABLE = [
    *("n + 1", "1 / n", "n % 2", "n DIV 2", "m * m", "m / 3", "m % 2", "w * w", "d % 2", "-n", "day + 1"),
    *(
        "at + INTERVAL 1 HOUR",
        "day + INTERVAL 1 MONTH",
        "CAST(n AS STRING)",
        "CAST(concat(day, '') AS DATE)",
        "CAST(m AS DOUBLE)",
    ),
    *("CAST(w AS DOUBLE)", "CAST(d AS DECIMAL(5,2))", "CAST(at AS BIGINT)", "CAST(d AS STRING)", "upper(s)", "s || n"),
    *("substring(s, n)", "left(s, 1)", "right(s, 2)", "trim(s)", "TRIM(BOTH s FROM 'x')", "replace(s, 'a', 'b')"),
    *("replace('x', s, 'y')", "round(d, 1)", "round(m)", "floor(d)", "floor(m)", "year(at)", "hour(at)"),
    *("date_trunc('month', at)", "trunc(day, 'month')", "datediff(day, at)", "date_format(at, 'yyyy')"),
    *("greatest(n, big)", "nullif(n, 1)", "length(s)", "reverse(s)", "abs(m)", "sqrt(abs(d))"),
]
"""Of these NULL gives NULL."""


@pytest.mark.parametrize("text", NULLABLE)
def test_null_gives_null_among_values_and_alone(text: str) -> None:
    expression = parse_expression(text)
    empty: dict[str, Any] = {}
    assert evaluate(expression, [empty, empty]).to_pylist() == [None, None]
    assert evaluate(expression, []).to_pylist() == []
    mixed = evaluate(expression, [empty, ROW, empty]).to_pylist()
    assert mixed[0] is mixed[2] is None
    assert mixed[1] is not None


@pytest.mark.parametrize("text", NULLABLE)
def test_a_part_of_a_batch_gives_a_part_of_the_values(text: str) -> None:
    """Slices do not begin at the beginning of their buffers."""
    rows = [ROW, {}, ROW | {"n": 3, "m": Decimal("-0.29"), "s": "é", "d": -1.5}, ROW, {}]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(SCHEMA))
    run = ArrowExpressions().evaluator(batch.schema, bind_value(parse_expression(text), SCHEMA))
    assert run(batch.slice(1, 3)).to_pylist() == run(batch).to_pylist()[1:4]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n / 0", "CAST(n AS DOUBLE) / 0 cannot be computed where CAST(n AS DOUBLE) = -7.0: division by zero"),
        ("d / (d - d)", "division by zero"),
        ("n % 0", "n % 0 cannot be computed where n = -7: division by zero"),
        ("n DIV 0", "division by zero"),
        ("d % 0", "division by zero"),
        ("m / 0", "m / 0 cannot be computed where m = 1.25: division by zero"),
        ("m % 0", "division by zero"),
        ("m DIV 0", "division by zero"),
        ("n * 2147483647", "where n = -7: the result does not fit int32"),
        ("big * big", "the result does not fit int64"),
        ("tiny + tiny", "tiny + tiny cannot be computed where tiny = 100: the result does not fit int8"),
        ("-9223372036854775808 DIV -1", "does not fit"),
        ("-(n - 2147483641)", "the result does not fit int32"),
        ("abs(n - 2147483641)", "does not fit"),
        ("CAST(99999999999999999999999999999999999999 AS DECIMAL(38,0)) + 1", "does not fit"),
        ("CAST(9999999999999999999999999999 AS DECIMAL(38,10)) * 99999999999.5", "does not fit"),
        ("CAST(tiny * 3 AS TINYINT)", "cannot be computed where CAST(tiny AS INT) * 3 = 300"),
        ("CAST(big AS INT)", "big = 1000000000000"),
        ("CAST(d * 1e10 AS INT)", "does not fit|truncated"),
        ("CAST(CAST('NaN' AS DOUBLE) AS INT)", "nan"),
        ("CAST(tiny AS DECIMAL(3,1))", "tiny = 100"),
        ("CAST(m AS DECIMAL(2,2))", "m = 1.25"),
        ("CAST(1e30 AS DECIMAL(5,2))", "does not fit decimal"),
        ("CAST(s AS INT)", "CAST(s AS INT) cannot be computed where s = Straße: 'Straße' is not a valid integer"),
        ("CAST(concat('1', '.5') AS INT)", "'1.5' is not a valid integer"),
        ("CAST(concat('', '0x1F') AS INT)", "'0x1F' is not a valid integer"),
        ("CAST(concat(tiny, tiny) AS TINYINT)", "'100100' is not a valid byte: it is out of the range of byte"),
        ("CAST(s AS DATE)", "'Straße' is not a valid date: it is not written like 2026-01-31"),
        ("CAST(concat('2026-02-', '30') AS DATE)", "'2026-02-30' is not a valid date"),
        ("CAST(s AS BOOLEAN)", "neither true nor false"),
        ("CAST(concat(raw, X'ff') AS STRING)", "Invalid UTF8"),
        ("CAST(big * 1000 AS TIMESTAMP)", "does not fit"),
        ("floor(1e300)", "floor"),
        ("round(CAST(tiny + 27 AS TINYINT), -1)", "overflow"),
        ("day + 2147483647", "does not fit"),
        ("add_months(DATE '5881580-07-11', 1)", "the result does not fit date32"),
        ("add_months(TIMESTAMP '294247-01-10 04:00:00', 1)", "the result does not fit timestamp"),
        ("CAST(DATE '294248-01-01' AS TIMESTAMP)", "out of bounds timestamp"),
        ("DATE '294248-01-01' + INTERVAL 1 HOUR", "out of bounds timestamp"),
        ("trunc(DATE '-5877641-06-23', 'month')", "not in range"),
    ],
)
def test_what_has_no_value_is_an_error_that_names_the_expression(text: str, reason: str) -> None:
    with pytest.raises(InvalidDataError) as caught:
        evaluate(parse_expression(text), [{}, ROW, ROW])
    assert any(part in str(caught.value) for part in reason.split("|"))


def test_the_error_shows_the_first_row_that_fails() -> None:
    rows = [{"n": 5}, {"n": None}] + [{"n": 1}] * 1000 + [{"n": 0, "m": Decimal(3)}, {"n": 0, "m": Decimal(4)}]
    with pytest.raises(
        InvalidDataError, match=r"cannot be computed where m = 3\.00 and CAST\(n AS DECIMAL\(10,0\)\) = 0: division"
    ):
        evaluate(parse_expression("m / CAST(n AS DECIMAL(10,0))"), rows)


# --- only what is needed -----------------------------------------------------------------------------------------

SMALL = StructType((StructField("a", PrimitiveType("integer")), StructField("b", PrimitiveType("integer"))))
SMALL_ROWS: list[dict[str, Any]] = [{"a": 6, "b": 2}, {"a": 1, "b": 0}, {"a": None, "b": 0}, {"a": 8, "b": None}, {}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN b <> 0 THEN a / b END", [3.0, None, None, None, None]),
        ("CASE WHEN b = 0 THEN -1 ELSE a DIV b END", [3, -1, -1, None, None]),
        ("IF(b = 0, NULL, a / b)", [3.0, None, None, None, None]),
        ("CASE WHEN b = 0 THEN 0 WHEN a / b > 1 THEN 1 ELSE 2 END", [1, 0, 0, 2, 2]),
        ("CASE b WHEN 0 THEN 'none' WHEN 2 THEN CAST(a AS STRING) END", ["6", "none", "none", None, None]),
        ("coalesce(b * 0, a % b)", [0, 0, 0, None, None]),
        ("coalesce(b, 1 / 0)", None),
        ("coalesce(b, a, -1)", [2, 0, 0, 8, -1]),
        ("b <> 0 AND a / b > 1", [True, False, False, None, None]),
        ("b = 0 OR a / b > 1", [True, True, True, None, None]),
        ("NOT (b = 0 OR a / b > 1)", [False, False, False, None, None]),
        ("a > 1 AND a < 7 AND b <> 0 AND a / b > 1", [True, False, False, False, None]),
        (
            "CASE WHEN a IS NULL THEN 0 WHEN b IS NULL THEN 1 ELSE CASE WHEN b = 0 THEN 2 ELSE a / b END END",
            [3, 2, 0, 1, 0],
        ),
        ("CASE WHEN FALSE THEN 1 / 0 ELSE b END", [2, 0, 0, None, None]),
        ("CASE WHEN NULL THEN 1 / 0 ELSE b END", [2, 0, 0, None, None]),
        ("FALSE AND 1 / 0 > 1", [False] * 5),
        ("CASE WHEN b = 0 THEN CAST('x' || a AS INT) END", None),
    ],
)
def test_what_fails_is_not_worked_out_for_rows_that_do_not_need_it(text: str, expected: list[Any] | None) -> None:
    if expected is None:
        with pytest.raises(InvalidDataError):
            evaluate(parse_expression(text), SMALL_ROWS, SMALL)
    else:
        assert evaluate(parse_expression(text), SMALL_ROWS, SMALL).to_pylist() == expected


def test_a_filter_is_not_worked_out_for_rows_that_are_not_selected() -> None:
    batch = pa.RecordBatch.from_pylist(SMALL_ROWS, arrow_schema(SMALL))
    select = ArrowExpressions().predicate_evaluator(batch.schema, bind(parse_expression("a / b >= 3"), SMALL))
    with pytest.raises(InvalidDataError, match="division by zero"):
        select(batch, None)
    selection = pa.array([True, False, True, True, False])
    assert select(batch, selection).to_pylist() == [True, False, False, False, False]
    assert select(batch, pa.array([False] * 5)).to_pylist() == [False] * 5


def test_a_deep_choice_is_compiled_once() -> None:
    """Compiling the right side of each level twice would never end."""
    expression: Expression = (1 / col("a")) > 0
    for _ in range(60):
        expression = (col("b") > 1) | ((col("a") < 100) & expression)
    assert evaluate(expression, SMALL_ROWS[:1], SMALL).to_pylist() == [True]


def test_nested_values_are_chosen() -> None:
    point = StructType((StructField("x", PrimitiveType("integer")),))
    fields = (StructField("p", point), StructField("l", ArrayType(PrimitiveType("integer"))), SMALL.fields[0])
    schema = StructType(fields)
    rows: list[dict[str, Any]] = [{"p": {"x": 1}, "l": [1, 2], "a": 1}, {"p": None, "l": None, "a": 2}, {"a": 1}]
    chosen = Case(((col("a") == 1, col("p")),))
    assert evaluate(chosen, rows, schema).to_pylist() == [{"x": 1}, None, None]
    assert evaluate(Case(((col("a") == 2, col("l")),), col("l")), rows, schema).to_pylist() == [[1, 2], None, None]
    assert evaluate(Call("coalesce", (col("p.x"), col("a"))), rows, schema).to_pylist() == [1, 2, 1]


# --- plain Python ------------------------------------------------------------------------------------------------

BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def python_arithmetic(op: str, a: int | None, b: int | None, bits: int) -> int | None:
    if a is None or b is None:
        return None
    quotient = 0 if op in "+-*" else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    result = {"+": a + b, "-": a - b, "*": a * b, "%": a - quotient * b, "div": quotient}[op]
    if not -(2 ** (bits - 1)) <= result < 2 ** (bits - 1):
        raise OverflowError
    return result


@st.composite
def integer_columns(draw: st.DrawFn) -> tuple[str, list[tuple[int | None, int | None]]]:
    name = draw(st.sampled_from(list(BITS)))
    limit = 2 ** (BITS[name] - 1)
    values = st.none() | st.integers(-limit, limit - 1) | st.integers(-3, 3) | st.sampled_from([-limit, limit - 1])
    return name, draw(st.lists(st.tuples(values, values), max_size=6))


@examples(300)
@given(columns=integer_columns(), op=st.sampled_from(["+", "-", "*", "%", "div"]))
def test_integers_agree_with_python(columns: tuple[str, list[tuple[int | None, int | None]]], op: ArithmeticOp) -> None:
    name, pairs = columns
    schema = StructType((StructField("a", PrimitiveType(name)), StructField("b", PrimitiveType(name))))
    rows = [{"a": a, "b": b} for a, b in pairs]
    bits = 64 if op == "div" else BITS[name]
    try:
        expected = [python_arithmetic(op, a, b, bits) for a, b in pairs]
    except ArithmeticError:
        with pytest.raises(InvalidDataError):
            evaluate(Arithmetic(op, col("a"), col("b")), rows, schema)
    else:
        assert evaluate(Arithmetic(op, col("a"), col("b")), rows, schema).to_pylist() == expected


EXACT = Context(prec=200)


@st.composite
def decimals(draw: st.DrawFn) -> tuple[tuple[int, int], Decimal | None]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    limit = 10**precision - 1
    unscaled = draw(st.none() | st.integers(-limit, limit) | st.integers(max(-limit, -9), min(limit, 9)))
    return (precision, scale), None if unscaled is None else Decimal(unscaled).scaleb(-scale, EXACT)


def python_decimal(op: str, a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    functions = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply, "/": EXACT.divide, "%": EXACT.remainder}
    exact = functions[op](a, b)
    if op == "/":
        exact = exact.quantize(Decimal(1).scaleb(-39), ROUND_HALF_UP, EXACT)
    result = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    if result.copy_abs().scaleb(scale, EXACT) >= 10**precision:
        raise OverflowError
    return result


@examples(400)
@given(left=decimals(), right=decimals(), op=st.sampled_from(["+", "-", "*", "/", "%"]))
def test_decimals_agree_with_python(
    left: tuple[tuple[int, int], Decimal | None], right: tuple[tuple[int, int], Decimal | None], op: ArithmeticOp
) -> None:
    (a_digits, a), (b_digits, b) = left, right
    names = [f"decimal({precision},{scale})" for precision, scale in (a_digits, b_digits)]
    schema = StructType((StructField("a", PrimitiveType(names[0])), StructField("b", PrimitiveType(names[1]))))
    expression, rows = Arithmetic(op, col("a"), col("b")), [{"a": a, "b": b}, {"a": None, "b": b}]
    try:
        known = a is not None and b is not None
        expected = python_decimal(op, a, b, *decimal_result(op, a_digits, b_digits)) if known else None  # type: ignore[arg-type]  # both are known
    except ArithmeticError:
        with pytest.raises(InvalidDataError):
            evaluate(expression, rows, schema)
    else:
        assert evaluate(expression, rows, schema).to_pylist() == [expected, None]


@examples(200)
@given(values=st.lists(decimals(), min_size=1, max_size=1), name=st.sampled_from(["float", "double", "string", "long"]))
def test_a_decimal_is_cast_as_python_does(values: list[tuple[tuple[int, int], Decimal | None]], name: str) -> None:
    ((precision, scale), value), *_ = values
    schema = StructType((StructField("a", PrimitiveType(f"decimal({precision},{scale})")),))
    expression, rows = Cast(col("a"), name), [{"a": None}, {"a": value}]
    if name == "long" and value is not None and not -(2**63) <= int(value) < 2**63:
        with pytest.raises(InvalidDataError):
            evaluate(expression, rows, schema)
        return
    _, found = evaluate(expression, rows, schema).to_pylist()
    if value is None:
        assert found is None
    elif name == "float":
        assert found == pytest.approx(float(value), rel=1e-6)
    else:
        assert found == {"double": float(value), "string": f"{value:f}", "long": int(value)}[name]


# --- DuckDB ------------------------------------------------------------------------------------------------------

TABLE = """
    SELECT a::INTEGER AS a, b::BIGINT AS b, x::DOUBLE AS x, m::DECIMAL(7,2) AS m, s::VARCHAR AS s, day::DATE AS day,
        ts::TIMESTAMP AS ts, flag
    FROM (VALUES (1, 2, 0.5, 1.50, 'ab', '2026-01-31', '2026-05-03 12:30:15.5', true),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (-7, 3, -1e3, -2.35, 'A b é', '2024-02-29', '1969-12-31 23:59:59.000001', false),
        (0, -5, 2.5, 0.00, '', '1969-12-31', '2026-01-01 00:00:00', NULL),
        (2147483, NULL, NULL, 99999.99, 'straße', NULL, NULL, true),
        (NULL, -1, 1e10, NULL, ' x ', '2026-12-31', '2000-02-29 01:02:03', false)) t(a, b, x, m, s, day, ts, flag)
"""
DUCK_TYPES = {"a": "integer", "b": "long", "x": "double", "m": "decimal(7,2)", "s": "string", "day": "date"}
DUCK_SCHEMA = StructType(
    tuple(
        StructField(name, PrimitiveType(type_name))
        for name, type_name in (DUCK_TYPES | {"ts": "timestamp_ntz", "flag": "boolean"}).items()
    )
)
SAME_IN_DUCKDB = [
    *("a + b", "a - 1", "a * b", "a % 4", "-a", "a / 4", "x * 2 + a", "x - b", "m + m", "m * 3", "m - 1.25", "m * m"),
    *("abs(a)", "abs(m)", "floor(x)", "ceil(x)", "round(m, 1)", "greatest(a, b)", "least(a, b, 0)", "sqrt(abs(x))"),
    *("coalesce(a, b, 0)", "coalesce(s, 'none')", "nullif(a, 1)", "a IS NULL", "a + 1 > b", "m * 2 >= 3", "x < m"),
    *("CASE WHEN a > 0 THEN 'pos' WHEN a < 0 THEN 'neg' ELSE s END", "CASE WHEN flag THEN a ELSE b END"),
    *("CASE a WHEN 1 THEN x WHEN 0 THEN m END", "s || '!'", "s || 'x' IS NOT NULL", "length(s)"),
    *("reverse(s)", "lower(s)", "substring(s, 2)", "substring(s, 2, 2)", "left(s, 2)", "right(s, 2)", "trim(s)"),
    *("ltrim(s)", "rtrim(s)", "replace(s, 'b', 'XX')", "upper(s) LIKE 'A%'", "CAST(a AS VARCHAR)", "CAST(m AS DOUBLE)"),
    *("CAST(a AS DOUBLE)", "CAST(flag AS INT)", "CAST(day AS VARCHAR)", "CAST(ts AS DATE)", "CAST(a AS DECIMAL(12,2))"),
    *("CAST(m AS DECIMAL(8,1))", "year(day)", "month(ts)", "day(day)", "quarter(ts)", "hour(ts)", "minute(ts)"),
    *("second(ts)", "dayofyear(day)", "weekofyear(day)", "EXTRACT(YEAR FROM day)", "day + 1", "day - 30"),
    *("ts + INTERVAL 90 MINUTES", "ts - INTERVAL 3 DAYS", "ts + INTERVAL 1 MONTH", "ts - INTERVAL 2 YEARS"),
    *("date_trunc('month', ts) = ts", "year(day + 1) * 100 + month(day)", "a BETWEEN b - 10 AND b + 10", "a IN (b, 1)"),
    *("length(s) + a", "upper(left(s, 1)) || lower(substring(s, 2))", "coalesce(a + b, 0) * 2 - 1", "flag AND a > b"),
]


@pytest.mark.parametrize("text", SAME_IN_DUCKDB)
def test_duckdb_gives_the_same_values(text: str) -> None:
    rows = [dict(zip(DUCK_SCHEMA.names, row, strict=True)) for row in duckdb.sql(TABLE).fetchall()]
    theirs = [value for (value,) in duckdb.sql(f"SELECT {text} FROM ({TABLE})").fetchall()]
    ours = evaluate(parse_expression(text), rows, DUCK_SCHEMA).to_pylist()
    assert ours == theirs


# --- the engine --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        col("n") + 1.5,
        col("s") + col("s"),
        Call("nosuch", (col("n"),)),
        Call("current_timestamp", ()),
        Cast(col("day"), "integer"),
        Cast(col("flag"), "date"),
        Case(((col("flag"), col("n")),), col("s")),
        Case(((col("n"), col("n")),)),
    ],
)
def test_what_is_not_bound_or_not_known_is_refused(expression: Expression) -> None:
    with pytest.raises(UnsupportedExpressionError):
        ArrowExpressions().evaluator(arrow_schema(SCHEMA), expression)


def test_the_current_time_must_be_given() -> None:
    with pytest.raises(UnsupportedExpressionError, match="replace_now"):
        evaluate(parse_expression("at < now()"), [ROW])


def test_pandas_is_not_imported() -> None:
    code = """
import sys
import pyarrow as pa
from lakeport.engine.expressions import ArrowExpressions
from lakeport.kernel.expressions import bind_value
from lakeport.kernel.schema import PrimitiveType, StructField, StructType, arrow_schema
from lakeport.kernel.expressions import parse_expression
types = ("integer", "double", "string", "date", "timestamp")
schema = StructType(tuple(StructField(t, PrimitiveType(t)) for t in types))
names = arrow_schema(schema)
batch = pa.RecordBatch.from_arrays([pa.nulls(2, t) for t in names.types], schema=names)
for text in sys.argv[1:]:
    for word, name in (("n", "integer"), ("d", "double"), ("s", "string"), ("day", "`date`"), ("at", "`timestamp`")):
        text = text.replace(f"<{word}>", name)
    assert len(ArrowExpressions().evaluator(names, bind_value(parse_expression(text), schema))(batch)) == 2
print([name for name in ("pandas", "pyarrow.dataset") if name in sys.modules])
"""
    texts = ["<n> % 3 + 1", "<d> / 2", "CAST(<d> AS DECIMAL(5,2)) * 2.5", "upper(<s>) || CAST(<d> AS STRING)"]
    texts += ["substring(<s>, 2, 3)", "trim(<s>)", "CAST(<s> AS DATE)", "date_trunc('month', <at>)", "<day> + 1"]
    texts += ["CASE WHEN <n> > 1 THEN 1 / <n> ELSE coalesce(<d>, 0) END", "greatest(<n>, 1)", "round(<d>, 2)"]
    done = subprocess.run([sys.executable, "-c", code, *texts], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
