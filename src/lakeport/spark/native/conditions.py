"""Kernel conditions as Spark conditions, if both mean exactly the same."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from lakeport.errors import LakeportError
from lakeport.kernel.expressions import And, Column, Comparison, Expression, In, IsNull, Like, Literal, Not, Or
from lakeport.kernel.schema import PrimitiveType, StructType, quoted
from lakeport.kernel.values import MOMENT_KINDS, FarDate, FarTime, days_of, microseconds_of
from lakeport.spark.schemas import FIRST_CERTAIN_YEAR

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": lambda column, value: column.eqNullSafe(value),
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "byte": (int,),
    "short": (int,),
    "integer": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "string": (str,),
    "binary": (bytes,),
    "boolean": (bool,),
    "date": (date, FarDate),
    "timestamp": (datetime, FarTime),
    "timestamp_ntz": (datetime, FarTime),
}
"""The literals in a bound condition, by type of the compared column."""
_FIRST_CERTAIN = microseconds_of(date(FIRST_CERTAIN_YEAR, 1, 1))
_PLAIN_PATTERN = re.compile(r"(?s)(?:[^\\]|\\[%_\\])*")
"""Patterns that Spark accepts: it rejects other characters after a backslash."""


def to_spark_condition(expression: Expression, schema: StructType) -> SparkColumn | None:
    """The same in Spark, on logical columns; None if Spark might evaluate it differently. `expression` is bound."""
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
        case Like(Column() as column, pattern) if _type_of(column, schema) == "string":
            return _column(column).like(pattern) if _PLAIN_PATTERN.fullmatch(pattern) else None
        case Comparison(op, Column() as column, Literal(value)):
            return _compare(op, column, value, schema)
        case In(Column() as column, values) if values:
            equal = [_compare("=", column, v.value, schema) if isinstance(v, Literal) else None for v in values]
            return None if any(one is None for one in equal) else reduce(operator.or_, equal)
    return None


def _compare(op: str, column: Column, value: Any, schema: StructType) -> SparkColumn | None:
    literal = _literal(value, column, schema)
    if literal is None:
        return None
    if _type_of(column, schema) in ("float", "double"):
        return _compare_float(op, _column(column), value)
    found: SparkColumn = _COMPARISONS[op](_column(column), literal)
    return found


def _compare_float(op: str, column: SparkColumn, value: float) -> SparkColumn:
    """Spark orders NaN above all numbers; in the kernel, as in Arrow, it is neither above nor below. Both treat the
    zeros as equal, but the dictionaries used to skip row groups order them. Spark turns a negated comparison into its
    opposite, so both must name the right zero."""
    if value == 0 and op in ("=", "<=>", "<>"):
        is_zero = (column >= F.lit(-0.0)) & (column <= F.lit(0.0))
        return {"=": is_zero, "<>": ~is_zero, "<=>": F.coalesce(is_zero, F.lit(False))}[op]
    if value == 0:
        value = -0.0 if op in (">=", "<") else 0.0
    found: SparkColumn = _COMPARISONS[op](column, F.lit(value))
    return found & ~F.isnan(column) if op in (">", ">=") else found


def _column(column: Column) -> SparkColumn:
    return F.col(quoted(*column.path))


def _type_of(column: Column, schema: StructType) -> str:
    try:
        found = schema.resolve(column.path)[-1].type
    except LakeportError:
        return ""
    return found.name if isinstance(found, PrimitiveType) else ""


def _literal(value: Any, column: Column, schema: StructType) -> SparkColumn | None:
    """The constant in Spark, in the column's type; None if there is no exact one."""
    name = _type_of(column, schema)
    kinds = (Decimal,) if name.startswith("decimal") else _KINDS.get(name, ())
    if type(value) not in kinds or value != value:
        return None
    return _moment(value, name) if isinstance(value, MOMENT_KINDS) else F.lit(value)


def _moment(value: Any, type_name: str) -> SparkColumn | None:
    """Built from numbers and text, which mean the same in every calendar and time zone."""
    if microseconds_of(value) < _FIRST_CERTAIN:
        return None
    if type_name == "date":
        return F.date_from_unix_date(F.lit(days_of(value)))
    if type_name == "timestamp":
        return F.timestamp_micros(F.lit(microseconds_of(value)))
    return F.lit(str(value)).cast("timestamp_ntz")
