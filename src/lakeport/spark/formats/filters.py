"""Spark's pushed filters as kernel conditions: only those with exactly the same meaning in both."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from pyspark.sql import datasource as pushed

from lakeport.errors import LakeportError
from lakeport.kernel.expressions import Column, Comparison, Expression, In, IsNull, Like, Literal, Not, bind, col, lit
from lakeport.kernel.schema import PrimitiveType, StructType
from lakeport.spark.schemas import FIRST_CERTAIN_YEAR

_FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


def split_filters(filters: Sequence[pushed.Filter], schema: StructType) -> tuple[list[Expression], list[pushed.Filter]]:
    """The conditions that the kernel evaluates like Spark, and the filters left to Spark."""
    conditions: list[Expression] = []
    left = []
    for found in filters:
        condition = to_condition(found, schema)
        if condition is None:
            left.append(found)
        else:
            conditions.append(condition)
    return conditions, left


def to_condition(found: pushed.Filter, schema: StructType) -> Expression | None:
    """None if the kernel cannot evaluate it, or would do so differently."""
    condition = _convert(found, schema)
    try:
        if condition is not None:
            bind(condition, schema)
    except LakeportError:
        return None
    return condition


def _convert(found: pushed.Filter, schema: StructType) -> Expression | None:
    if isinstance(found, pushed.Not):
        child = _convert(found.child, schema)
        return None if child is None else Not(child)
    column = col(tuple(found.attribute))  # type: ignore[attr-defined]  # all others have one
    match found:
        case pushed.IsNull():
            return IsNull(column)
        case pushed.IsNotNull():
            return Not(IsNull(column))
    value: Any = found.value  # type: ignore[attr-defined]
    if _is_uncertain(found, column, value, schema):
        return None
    return _compare(found, column, value)


def _compare(found: pushed.Filter, column: Column, value: Any) -> Expression | None:
    match found:
        case pushed.EqualTo():
            return Comparison("=", column, lit(value))
        case pushed.EqualNullSafe():
            return column.equals_null_safe(lit(value))
        case pushed.GreaterThan():
            return Comparison(">", column, lit(value))
        case pushed.GreaterThanOrEqual():
            return Comparison(">=", column, lit(value))
        case pushed.LessThan():
            return Comparison("<", column, lit(value))
        case pushed.LessThanOrEqual():
            return Comparison("<=", column, lit(value))
        case pushed.In():
            return In(column, tuple(map(Literal, value)))
        case pushed.StringStartsWith():
            return Like(column, f"{_escape(value)}%")
        case pushed.StringEndsWith():
            return Like(column, f"%{_escape(value)}")
        case pushed.StringContains():
            return Like(column, f"%{_escape(value)}%")
    return None


def _is_uncertain(found: pushed.Filter, column: Column, value: Any, schema: StructType) -> bool:
    """Whether Spark's result may differ. In Spark, NaN equals itself and is above all numbers; in the kernel, as in
    Arrow, it is neither."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(one is None and not isinstance(found, pushed.EqualNullSafe) for one in values):
        return True
    if any(isinstance(one, float) and math.isnan(one) for one in values):
        return True
    if any(isinstance(one, date) and one.year < FIRST_CERTAIN_YEAR for one in values):
        return True
    try:
        data_type = schema.resolve(column.path)[-1].type
    except LakeportError:
        return True
    return data_type in _FLOATS and isinstance(found, pushed.GreaterThan | pushed.GreaterThanOrEqual)


def _escape(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)
