"""Conditions of the kernel as Spark's, where both mean exactly the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

from lakeport.errors import LakeportError
from lakeport.kernel.expressions import And, Column, Comparison, Expression, In, IsNull, Literal, Not, Or
from lakeport.kernel.schema import PrimitiveType, StructType

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_VALUES: Mapping[str, type | tuple[type, ...]] = {
    "byte": int,
    "short": int,
    "integer": int,
    "long": int,
    "string": str,
    "boolean": bool,
    "date": date,
}
"""Literals that Spark takes as they are, by the type of the column that they are compared with."""


def to_spark_condition(expression: Expression, schema: StructType) -> SparkColumn | None:
    """The same in Spark, over logical columns; None if Spark might decide another way."""
    match expression:
        case And(left, right) | Or(left, right):
            parts = [to_spark_condition(part, schema) for part in (left, right)]
            if parts[0] is None or parts[1] is None:
                return None
            return parts[0] & parts[1] if isinstance(expression, And) else parts[0] | parts[1]
        case Not(child):
            inner = to_spark_condition(child, schema)
            return None if inner is None else ~inner
        case IsNull(Column() as column):
            return _column(column).isNull()
        case Comparison(op, Column() as column, Literal(value)) if op in _COMPARISONS:
            fits = _fits(column, value, schema)
            return _COMPARISONS[op](_column(column), F.lit(value)) if fits else None
        case In(Column() as column, values):
            literals = [value.value for value in values if isinstance(value, Literal)]
            fits = len(literals) == len(values) and all(_fits(column, value, schema) for value in literals)
            return _column(column).isin(literals) if fits else None
    return None


def _column(column: Column) -> SparkColumn:
    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in column.path))


def _fits(column: Column, value: Any, schema: StructType) -> bool:
    try:
        data_type = schema.resolve(column.path)[-1].type
    except LakeportError:
        return False
    if not isinstance(data_type, PrimitiveType):
        return False
    if data_type.decimal is not None:
        return isinstance(value, Decimal)
    kind = _VALUES.get(data_type.name)
    is_kind = kind is not None and isinstance(value, kind)
    return is_kind and not (isinstance(value, bool) and kind is int) and not isinstance(value, datetime)
