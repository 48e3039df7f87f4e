"""Arrow's answers, checked against evaluation row by row in plain Python, and against DuckDB."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine.expressions.evaluator import ArrowExpressions
from lakeport.errors import UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.expressions import (
    And,
    CompareOp,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Or,
    bind,
    col,
    lit,
    normalize,
    parse_filter,
)
from lakeport.kernel.schema import PrimitiveType, StructField, StructType, arrow_schema
from lakeport.testing.rowwise import COMPARE, by_row
from tests.examples import examples

NAN, INFINITY = float("nan"), float("inf")


def batch_of(type: pa.DataType, *values: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, type)], names=["x"])


def evaluate(batch: pa.RecordBatch, expression: Expression) -> list[Any]:
    values: list[Any] = ArrowExpressions().evaluator(batch.schema, expression)(batch).to_pylist()
    return values


def single_precision(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


# --- random batches and predicates -------------------------------------------------------------------------------

TYPES = {
    "tiny": "byte",
    "n": "integer",
    "big": "long",
    "f": "float",
    "d": "double",
    "m": "decimal(5,2)",
    "wide": "decimal(38,10)",
    "s": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "flag": "boolean",
}
PRIMITIVES = tuple(StructField(name, PrimitiveType(type_name)) for name, type_name in TYPES.items())
INNER = StructType((StructField("n", PrimitiveType("integer")), StructField("s", PrimitiveType("string"))))
OUTER = StructType((StructField("inner", INNER), StructField("n", PrimitiveType("long"))))
SCHEMA = StructType((*PRIMITIVES, StructField("outer", OUTER)))

FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.5, 100.25, NAN, INFINITY, -INFINITY])
MOMENTS = st.sampled_from(
    [datetime(2026, 1, 1), datetime(2026, 1, 1, 12), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 2)]
)
TEXTS = st.text(st.sampled_from("ab%_\\\n.é𝄞"), max_size=4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tiny": st.integers(-2, 2) | st.sampled_from([-128, 127]),
    "n": st.integers(-2, 2) | st.sampled_from([-(2**31), 2**31 - 1]),
    "big": st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1]),
    "f": FLOATS,
    "d": FLOATS,
    "m": st.sampled_from([Decimal(text) for text in ("0.00", "1.00", "-1.50", "0.50", "999.99", "-999.99")]),
    "wide": st.sampled_from([Decimal(text) for text in ("0E-10", "0.5000000000", "1.0000000001", "-1.5000000000")]),
    "s": TEXTS,
    "raw": st.binary(max_size=2),
    "day": st.sampled_from([date(2026, 1, 1), date(2026, 1, 2), date(1969, 12, 31)]),
    "at": MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    "local": MOMENTS,
    "flag": st.booleans(),
}
NUMBER_LITERALS = (
    st.integers(-3, 3)
    | st.sampled_from([127, 128, -129, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30])
    | FLOATS
    | st.sampled_from([Decimal(text) for text in ("0.5", "1.005", "999.995", "1e20", "1e-20", "-1e40", "1.0000000001")])
)
FAMILIES: list[tuple[list[str], st.SearchStrategy[Any]]] = [
    (["tiny", "n", "big", "m", "wide", "outer.n", "outer.inner.n"], NUMBER_LITERALS),
    # Beside a float or a double every number is a double; those here are doubles already.
    (["tiny", "n", "m", "f", "d"], FLOATS | st.integers(-3, 3)),
    (["s", "outer.inner.s"], TEXTS),
    (["raw"], st.binary(max_size=2) | st.sampled_from(["a", ""]).map(str.encode)),
    (["day", "at", "local"], VALUES["day"] | VALUES["at"] | VALUES["local"]),
    (["flag"], st.booleans()),
]


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values | values | values


INNERS = nullable(st.fixed_dictionaries({"n": nullable(VALUES["n"]), "s": nullable(VALUES["s"])}))
OUTERS = nullable(st.fixed_dictionaries({"inner": INNERS, "n": nullable(VALUES["big"])}))
ROWS = st.lists(
    st.fixed_dictionaries({name: nullable(values) for name, values in VALUES.items()} | {"outer": OUTERS}), max_size=8
)


@st.composite
def leaves(draw: st.DrawFn) -> Expression:
    names, literals = draw(st.sampled_from(FAMILIES))
    columns = st.sampled_from(names).map(col)
    operands = columns | nullable(literals).map(lit)
    kinds = ["compare", "compare", "in", "null"] + (["like"] if "s" in names else [])
    match draw(st.sampled_from(kinds)):
        case "compare":
            op: CompareOp = draw(st.sampled_from([*COMPARE, "<=>"]))
            left, right = draw(st.sampled_from([(columns, operands), (operands, columns)]))
            return Comparison(op, draw(left), draw(right))
        case "in":
            return In(draw(columns), tuple(draw(st.lists(operands, min_size=1, max_size=4))))
        case "null":
            return IsNull(draw(columns))
    pattern = "".join(draw(st.lists(st.sampled_from(["a", "b", "%", "_", r"\%", r"\_", r"\\", r"\a", ".", "\n", "é"]))))
    return Like(draw(columns), pattern)


PREDICATES = st.recursive(
    leaves() | st.just(col("flag")) | st.sampled_from([lit(True), lit(False), lit(None)]),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
    max_leaves=4,
)


@examples(250)
@given(rows=ROWS, predicate=PREDICATES)
def test_arrow_agrees_with_evaluation_row_by_row(rows: list[dict[str, Any]], predicate: Expression) -> None:
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(SCHEMA))
    expected = [by_row(predicate, row) for row in rows]
    bound = bind(predicate, SCHEMA)
    assert evaluate(batch, bound) == expected
    assert evaluate(batch, normalize(bound, SCHEMA)) == expected
    select = ArrowExpressions().predicate_evaluator(batch.schema, bound)
    assert select(batch, None).to_pylist() == [value is True for value in expected]


# --- the same text in DuckDB -------------------------------------------------------------------------------------

TABLE = """
    SELECT n::INTEGER AS n, m::DECIMAL(5,2) AS m, d::DOUBLE AS d, s::VARCHAR AS s, day::DATE AS day, flag
    FROM (VALUES (1, 1.50, 0.5, 'ab', '2026-01-01', true), (NULL, NULL, NULL, NULL, NULL, NULL),
        (-2, 2.00, -1e3, 'a%b', '2026-01-02', false), (0, -0.01, 2.0, '', '1969-12-31', NULL),
        (2, NULL, 1.0, 'b_a', NULL, true), (NULL, 999.99, 0.0, 'a''b', '2026-02-28', false)) t(n, m, d, s, day, flag)
"""
DUCK_SCHEMA = StructType(
    tuple(
        StructField(name, PrimitiveType(type_name))
        for name, type_name in [
            ("n", "integer"),
            ("m", "decimal(5,2)"),
            ("d", "double"),
            ("s", "string"),
            ("day", "date"),
            ("flag", "boolean"),
        ]
    )
)
LITERAL_TEXTS = {
    "n": ["1", "-2", "0.5", "1.5", "300", "NULL"],
    "m": ["1.5", "2", "-0.01", "1.505", "NULL"],
    "d": ["0.5", "1e0", "-1000", "NULL"],
    "s": ["'ab'", "'a''b'", "''", "'b'", "NULL"],
    "day": ["DATE '2026-01-01'", "'2026-01-02'", "CAST('1969-12-31' AS DATE)", "NULL"],
}


@st.composite
def leaf_texts(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(list(LITERAL_TEXTS)))
    literal = st.sampled_from(LITERAL_TEXTS[name])
    a, b = draw(literal), draw(literal)
    shapes = [
        f"{name} {op} {a}" for op in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ]
    shapes += [f"{a} < {name}", f"{name} IN ({a}, {b})", f"{name} NOT IN ({a}, {b})", f"{name} IS NOT NULL"]
    shapes += [f"{name} BETWEEN {a} AND {b}", f"{name} NOT BETWEEN {a} AND {b}", "flag", "flag IS NOT TRUE"]
    shapes += ["n < m", "m >= d", "n <> d"]
    shapes += [f"s {negated} LIKE '{p}' ESCAPE '!'" for negated in ("", "NOT") for p in ("a%", "_b", "%!%%", "%b!_%")]
    return draw(st.sampled_from(shapes))


TEXT_PREDICATES = st.recursive(
    leaf_texts(),
    lambda inner: (
        st.tuples(inner, inner).map(" AND ".join)
        | st.tuples(inner, inner).map(" OR ".join)
        | inner.map("NOT ({})".format)
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:  # DuckDB complains at exit of a leak if an annotation names its classes
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS {TABLE}")
        yield connection


@examples(150)
@given(text=TEXT_PREDICATES)
def test_arrow_agrees_with_duckdb_on_the_same_text(duck: Any, text: str) -> None:
    rows = duck.execute(f"SELECT *, ({text}) FROM t").fetchall()
    names = DUCK_SCHEMA.names
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=False)) for row in rows], arrow_schema(DUCK_SCHEMA))
    assert evaluate(batch, bind(parse_filter(text), DUCK_SCHEMA)) == [row[-1] for row in rows]


# --- case by case ------------------------------------------------------------------------------------------------


def test_the_fields_of_a_null_struct_are_null() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["x"], mask=pa.array([False, True, False]))
    outer = pa.StructArray.from_arrays([inner], ["b"], mask=pa.array([True, False, False]))
    batch = pa.record_batch([outer], names=["a"])
    assert evaluate(batch, col("a.b.x")) == [None, None, 3]
    assert evaluate(batch.slice(1), col("a.b.x").is_null()) == [True, False]


def test_in_is_null_where_nothing_matches_and_the_list_holds_a_null() -> None:
    batch = batch_of(pa.int32(), 1, 2, None)
    assert evaluate(batch, col("x").isin([1, None])) == [True, None, None]
    assert evaluate(batch, col("x").isin([1])) == [True, False, None]
    assert evaluate(batch, col("x").isin([])) == [False, False, False]


def test_in_follows_ieee_754() -> None:
    batch = batch_of(pa.float64(), NAN, 0.0, -0.0, 1.0)
    assert evaluate(batch, col("x").isin([NAN, 0.0])) == [False, True, True, False]
    assert evaluate(batch, col("x") != 1.0) == [True, True, True, False]


def test_a_float_is_compared_as_a_double() -> None:
    batch = batch_of(pa.float32(), 1.1, 0.5)
    assert evaluate(batch, col("x") == 1.1) == [False, False]
    assert evaluate(batch, col("x").isin([1.1, 0.5])) == [False, True]
    assert evaluate(batch, col("x") == single_precision(1.1)) == [True, False]


@pytest.mark.parametrize(
    ("type", "value", "literal"),
    [
        (pa.int64(), 2**63 - 1, Decimal("9223372036854775806.5")),
        (pa.int8(), 1, Decimal("0.5")),
        (pa.int8(), 127, -1000),
        (pa.int64(), 2**63 - 1, -(2**70)),
        (pa.decimal128(38, 38), Decimal("0.5"), 0),
        (pa.decimal128(38, 0), Decimal(1), Decimal("0." + "9" * 38)),
        (pa.decimal128(5, 2), Decimal("1.00"), Decimal("0.999")),
        (pa.date32(), date(2026, 1, 1), datetime(2025, 12, 31, 23, 59)),
        (pa.date32(), date(2026, 1, 1), datetime(2025, 12, 31, 23, 59, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC), date(2025, 12, 31)),
        (pa.timestamp("us"), datetime(2026, 1, 1), datetime(2025, 12, 31, tzinfo=UTC)),
        (pa.string(), "é", "z"),
        (pa.large_string(), "b", "a"),
        (pa.binary(), b"\xff", b"a"),
        (pa.binary(), b"\xff", "a"),
        (pa.bool_(), True, False),
    ],
)
def test_a_comparison_of_two_types_is_exact(type: pa.DataType, value: Any, literal: Any) -> None:
    batch = batch_of(type, value, None)
    assert evaluate(batch, col("x") > literal) == [True, None]
    assert evaluate(batch, col("x") <= literal) == [False, None]
    assert evaluate(batch, Comparison("<", lit(literal), col("x"))) == [True, None]
    assert evaluate(batch, col("x").equals_null_safe(literal)) == [False, False]
    assert evaluate(batch, col("x").isin([literal])) == [False, None]


def test_columns_of_two_types_are_compared() -> None:
    arrays = [pa.array([2**53 + 1, 1]), pa.array([2.0**53, 1.5]), pa.array([Decimal("1.5"), Decimal("1.0")])]
    batch = pa.record_batch(arrays, names=["a", "b", "c"])
    assert evaluate(batch, col("a") == col("b")) == [True, False]  # as doubles
    assert evaluate(batch, col("a") > col("c")) == [True, False]
    assert evaluate(batch, col("b") > col("c")) == [True, True]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("a%", ["a\nb", "a%b", "a\\b", "a"]),
        ("a_b", ["a\nb", "a%b", "a\\b"]),
        (r"a\%b", ["a%b"]),
        (r"a\\b", ["a\\b"]),
        (r"%\\%", ["a\\b"]),
        (r"\a", ["a"]),
        ("_", ["a", "é"]),
        ("%b", ["a\nb", "a%b", "a\\b"]),
        ("%\n%", ["a\nb"]),
        ("%%", ["a\nb", "a%b", "a\\b", "a", "é", ""]),
        ("", [""]),
        ("a.b", []),
    ],
)
def test_like_takes_wildcards_and_escapes(pattern: str, matching: list[str]) -> None:
    values = ["a\nb", "a%b", "a\\b", "a", "é", ""]
    for type in (pa.string(), pa.large_string()):
        found = evaluate(batch_of(type, *values, None), col("x").like(pattern))
        assert found.pop() is None
        assert [value for value, is_match in zip(values, found, strict=True) if is_match] == matching


def test_a_selection_only_narrows_and_has_no_nulls() -> None:
    batch = batch_of(pa.int64(), 1, 2, None, 3)
    select = ArrowExpressions().predicate_evaluator(batch.schema, col("x") > 1)
    assert select(batch, None).to_pylist() == [False, True, False, True]
    assert select(batch, pa.array([True, True, True, False])).to_pylist() == [False, True, False, False]
    always = ArrowExpressions().predicate_evaluator(batch.schema, lit(True))
    assert always(batch, pa.array([True, False, True, False])).to_pylist() == [True, False, True, False]
    never = ArrowExpressions().predicate_evaluator(batch.schema, lit(None))
    assert never(batch, None).to_pylist() == [False] * 4


def test_a_constant_fills_the_column() -> None:
    batch = batch_of(pa.int64(), 1, 2)
    assert evaluate(batch, lit(Decimal("1.5"))) == [Decimal("1.5")] * 2
    assert evaluate(batch, lit(1) == lit(2)) == [False, False]
    assert evaluate(batch, lit(1).isin([1, None])) == [True, True]
    assert evaluate(batch.slice(2), lit(True)) == []


def test_a_column_of_nulls_is_null_in_every_comparison() -> None:
    batch = batch_of(pa.null(), None)
    for predicate in (col("x") > 1, col("x").isin([1]), col("x").like("a"), col("x") == col("x"), ~col("x")):
        assert evaluate(batch, predicate) == [None]
    assert evaluate(batch, col("x").equals_null_safe(None)) == [True]


def test_a_missing_column_is_refused() -> None:
    schema = pa.schema({"a": pa.struct({"b": pa.int64()})})
    for name in ("x", "a.c", "a.b.c"):
        with pytest.raises(UnknownColumnError):
            ArrowExpressions().evaluator(schema, col(name))


@pytest.mark.parametrize(
    "expression",
    [
        Expression(),
        col("n") == "a",
        col("n") == object(),
        col("n").like("a"),
        col("s").like("a\\"),
        col("s").like("_" * 100_000),
        col("n") & col("n"),
        col("n") == 10**80,
        col("n") == Decimal("NaN"),
        col("n") == Decimal("1e-90"),
        col("m") == Decimal("1e-76"),
    ],
)
def test_what_the_engine_does_not_know_is_refused(expression: Expression) -> None:
    schema = pa.schema({"n": pa.int64(), "s": pa.string(), "m": pa.decimal128(10, 0)})
    with pytest.raises(UnsupportedExpressionError):
        ArrowExpressions().evaluator(schema, expression)


def test_a_literal_with_more_digits_than_any_decimal_is_not_rounded() -> None:
    batch = batch_of(pa.decimal128(38, 10), Decimal(1))
    with pytest.raises(UnsupportedExpressionError):
        evaluate(batch, col("x") == Decimal("1." + "0" * 150 + "1"))
    assert evaluate(batch, col("x") == Decimal("1." + "0" * 150)) == [True]


def test_neither_pandas_nor_the_dataset_module_is_imported() -> None:
    code = """
import sys
import pyarrow as pa
from lakeport.engine.expressions import ArrowExpressions
from lakeport.kernel.expressions import col
schema = pa.schema({"x": pa.int64(), "s": pa.string()})
batch = pa.RecordBatch.from_arrays([pa.nulls(2, t) for t in schema.types], schema=schema)
predicate = (col("x") > 1) & col("x").isin([1, 2]) & col("s").like("a_b") & (col("x").equals_null_safe(3))
select = ArrowExpressions().predicate_evaluator(schema, predicate)
assert len(select(batch, None)) == 2
print([name for name in ("pandas", "pyarrow.dataset") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
