"""The contract of an `ExpressionHandler`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.errors import UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression, Literal, col, lit
from lakeport.testing.contracts.contract import Contract


class ExpressionContract(Contract):
    """Expressions are evaluated as `ExpressionHandler` says."""

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
