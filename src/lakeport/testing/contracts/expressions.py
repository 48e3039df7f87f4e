"""The contract of an `ExpressionHandler`."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.errors import InvalidDataError, UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.data_files import make_batch
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, Literal, bind_value, col, lit, parse_expression, type_of
from lakeport.kernel.schema import arrow_schema, arrow_type
from lakeport.testing.builder import struct
from lakeport.testing.contracts.contract import Contract

SCHEMA = struct(n="integer", m="decimal(5,2)", f="double", s="string", day="date")
"""With which the values are bound; the second row has no whole number in `s`."""
BATCH = pa.record_batch(
    [[7, -7, None], map(Decimal, ("1.25", "-0.50", "3")), [1.5, None, 2.0], ["12", "x", None], [date(2026, 1, 31)] * 3],
    schema=arrow_schema(SCHEMA),
)


def bound(text: str) -> Expression:
    return bind_value(parse_expression(text), SCHEMA)


class ExpressionContract(Contract):
    """Expressions are evaluated as `ExpressionHandler` specifies."""

    def test_an_expression_gives_a_column(self, engine: Engine) -> None:
        batch = pa.record_batch({"a": [1, None, 3], "s": [{"x": 1}, {"x": None}, None]})
        evaluate = engine.expressions.evaluator
        assert evaluate(batch.schema, col("a"))(batch).to_pylist() == [1, None, 3]
        assert evaluate(batch.schema, col("s.x"))(batch).to_pylist() == [1, None, None]
        assert evaluate(batch.schema, lit(5))(batch).to_pylist() == [5, 5, 5]
        assert evaluate(batch.schema, col("a") > 1)(batch).to_pylist() == [False, None, True]

    def test_a_predicate_only_narrows_a_selection(self, engine: Engine) -> None:
        batch = pa.record_batch({"a": [1, None, 3, 4]})
        select = engine.expressions.predicate_evaluator(batch.schema, col("a") > 1)
        assert select(batch, None).to_pylist() == [False, False, True, True]
        assert select(batch, pa.array([True, True, False, True])).to_pylist() == [False, False, False, True]
        assert select(batch, pa.array([False] * 4)).to_pylist() == [False] * 4
        always = engine.expressions.predicate_evaluator(batch.schema, Literal(True))
        assert always(batch, pa.array([True, False, None, True])).to_pylist() == [True, False, False, True]

    def test_an_expression_that_is_not_known_is_refused(self, engine: Engine) -> None:
        class Odd(Expression):
            pass

        schema = pa.schema([("a", pa.int64())])
        with pytest.raises(UnsupportedExpressionError):
            engine.expressions.evaluator(schema, Odd())
        with pytest.raises(UnsupportedExpressionError):
            engine.expressions.predicate_evaluator(schema, Odd() == 1)
        with pytest.raises(UnknownColumnError):
            engine.expressions.evaluator(schema, col("b"))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("n + 1", [8, -6, None]),
            ("n / 2", [3.5, -3.5, None]),
            ("n div 2", [3, -3, None]),
            ("n % 4", [3, -3, None]),
            ("m * m", [Decimal("1.5625"), Decimal("0.2500"), Decimal("9.0000")]),
            ("f - n", [-5.5, None, None]),
            ("CASE WHEN n > 0 THEN 'more' WHEN n < 0 THEN s END", ["more", "x", None]),
            ("coalesce(f, n)", [1.5, -7.0, 2.0]),
            ("CAST(n AS STRING)", ["7", "-7", None]),
            ("upper(s)", ["12", "X", None]),
            ("year(day) + 1", [2027] * 3),
            ("5", [5] * 3),
            ("n = -7 OR m > 2", [False, True, True]),
        ],
    )
    def test_a_value_has_the_type_that_it_is_bound_to(self, engine: Engine, text: str, expected: list[Any]) -> None:
        found = engine.expressions.evaluator(BATCH.schema, bound(text))(BATCH)
        assert found.to_pylist() == expected
        assert found.type == arrow_type(type_of(bound(text), SCHEMA))

    def test_rows_may_have_no_columns(self, engine: Engine) -> None:
        rows = make_batch([], pa.schema([]), 3)
        assert engine.expressions.evaluator(rows.schema, lit("x"))(rows).to_pylist() == ["x"] * 3
        select = engine.expressions.predicate_evaluator(rows.schema, lit(1) < 2)
        assert select(rows, pa.array([True, False, True])).to_pylist() == [True, False, True]

    @pytest.mark.parametrize("text", ["CAST(s AS INT)", "n + 2147483647", "n div (n + 7)", "CAST(m AS DECIMAL(2,2))"])
    def test_what_has_no_value_is_told(self, engine: Engine, text: str) -> None:
        with pytest.raises(InvalidDataError):
            engine.expressions.evaluator(BATCH.schema, bound(text))(BATCH)

    @pytest.mark.parametrize(
        "text",
        [
            "CASE WHEN s = 'x' THEN 0 ELSE CAST(s AS INT) END",
            "s <> 'x' AND CAST(s AS INT) > 1",
            "s = 'x' OR CAST(s AS INT) > 1",
            "coalesce(n, CAST(s AS INT))",
        ],
    )
    def test_no_value_is_asked_for_where_it_is_not_needed(self, engine: Engine, text: str) -> None:
        assert len(engine.expressions.evaluator(BATCH.schema, bound(text))(BATCH)) == 3

    def test_rows_that_are_not_selected_cannot_fail(self, engine: Engine) -> None:
        select = engine.expressions.predicate_evaluator(BATCH.schema, bound("CAST(s AS INT) = 12"))
        assert select(BATCH, pa.array([True, False, True])).to_pylist() == [True, False, False]
        with pytest.raises(InvalidDataError):
            select(BATCH, None)
