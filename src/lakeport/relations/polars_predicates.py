"""Translation of Polars' predicates into the kernel's filters.

Polars does not name an expression's operator. So `meta.pop` takes the expression apart, and each known operator puts it
together again; the one whose result Polars finds equal is the operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import polars as pl
import pyarrow as pa

from lakeport.kernel.expressions import And, Column, CompareOp, Comparison, Expression, In, IsNull, Literal, Not, Or

_COMPARISONS: dict[CompareOp, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _UnknownError(Exception):
    """The kernel has no equivalent."""


def implied_filter(predicate: pl.Expr, schema: pa.Schema) -> Expression | None:
    """A filter that keeps at least the predicate's rows: the conjuncts that can be translated, or None."""
    known = []
    for part in _conjuncts(predicate):
        try:
            known.append(_translated(part, schema))
        except _UnknownError:
            continue
    return reduce(And, known) if known else None


def _conjuncts(expression: pl.Expr) -> Iterator[pl.Expr]:
    parts = expression.meta.pop()
    for left, right in _orders(parts) if len(parts) == 2 else ():
        if (left & right).meta.eq(expression):
            yield from _conjuncts(left)
            yield from _conjuncts(right)
            return
    yield expression


def _translated(expression: pl.Expr, schema: pa.Schema) -> Expression:
    """Raises `_UnknownError`."""
    parts = expression.meta.pop()
    if len(parts) == 1:
        return _of_one(expression, parts[0], schema)
    if len(parts) == 2:
        return _of_two(expression, parts, schema)
    raise _UnknownError


def _of_one(expression: pl.Expr, inner: pl.Expr, schema: pa.Schema) -> Expression:
    if (~inner).meta.eq(expression):
        return Not(_translated(inner, schema))
    for build, negated in ((pl.Expr.is_null, False), (pl.Expr.is_not_null, True)):
        if build(inner).meta.eq(expression):
            test = IsNull(Column((_column(inner, schema).name,)))
            return Not(test) if negated else test
    raise _UnknownError


def _of_two(expression: pl.Expr, parts: list[pl.Expr], schema: pa.Schema) -> Expression:
    for left, right in _orders(parts):
        for kind, build in ((And, operator.and_), (Or, operator.or_)):
            if build(left, right).meta.eq(expression):
                return kind(_translated(left, schema), _translated(right, schema))
        if not left.meta.is_literal() and right.meta.is_literal():
            return _of_constant(expression, left, right, schema)
    raise _UnknownError


def _of_constant(expression: pl.Expr, left: pl.Expr, right: pl.Expr, schema: pa.Schema) -> Expression:
    field = _column(left, schema)
    column, constant = Column((field.name,)), pl.select(right).to_series()
    if left.is_in(right).meta.eq(expression):
        values = constant.explode() if isinstance(constant.dtype, pl.List) else constant
        return In(column, tuple(_literal(values, value, field.type) for value in values.to_list()))
    value = _literal(constant, constant.item(), field.type)
    for op, build in _COMPARISONS.items():
        if build(left, right).meta.eq(expression):
            return Comparison(op, column, value)
        if build(right, left).meta.eq(expression):
            return Comparison(_MIRRORED.get(op, op), column, value)
    raise _UnknownError


_MIRRORED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _orders(parts: list[pl.Expr]) -> tuple[tuple[pl.Expr, pl.Expr], tuple[pl.Expr, pl.Expr]]:
    """`pop` does not promise an order."""
    left, right = parts
    return (left, right), (right, left)


def _column(expression: pl.Expr, schema: pa.Schema) -> pa.Field:
    for name in expression.meta.root_names():
        if name in schema.names and pl.col(name).meta.eq(expression):
            return schema.field(name)
    raise _UnknownError


def _literal(values: pl.Series, value: Any, data_type: pa.DataType) -> Literal:
    """A constant of the column's kind. Floats are left to Polars, where NaN is the greatest number."""
    types = pa.types
    if types.is_signed_integer(data_type):
        fits = type(value) is int and abs(value) < 1 << (data_type.bit_width - 1)
    elif types.is_string(data_type):
        fits = type(value) is str
    elif types.is_date32(data_type):
        fits = type(value) is date
    elif types.is_timestamp(data_type):
        fits = type(value) is datetime and values.dtype == pl.Datetime("us", data_type.tz)
    elif types.is_decimal(data_type):
        fits = type(value) is Decimal and isinstance(values.dtype, pl.Decimal)
    else:
        fits = False
    if not fits:
        raise _UnknownError
    return Literal(value)
