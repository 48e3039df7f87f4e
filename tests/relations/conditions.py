"""Conditions on columns, and what they are for frames, in DuckDB's SQL and for Polars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import polars as pl

from lakeport.kernel.expressions import Expression, col
from lakeport.kernel.schema import quoted

Test = tuple[str, str, Any]
"""A column, one of `OPERATORS`, and a value."""
Condition = Sequence[Sequence[Test]]
"""A conjunction of disjunctions."""

_COMPARISONS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
OPERATORS = (*_COMPARISONS, "null", "not null", "in")


def for_frames(condition: Condition) -> Expression:
    return _joined([[_of_frame(*test) for test in tests] for tests in condition])  # type: ignore[no-any-return]


def for_polars(condition: Condition) -> pl.Expr:
    return _joined([[_of_polars(*test) for test in tests] for tests in condition])  # type: ignore[no-any-return]


def for_duckdb(condition: Condition) -> str:
    return " AND ".join(f"({' OR '.join(_in_sql(*test) for test in tests)})" for tests in condition)


def _joined(parts: list[list[Any]]) -> Any:
    return reduce(and_, (reduce(or_, tests) for tests in parts))


def _of_frame(name: str, op: str, value: Any) -> Expression:
    column = col(quoted(name))
    match op:
        case "null":
            return column.is_null()
        case "not null":
            return column.is_not_null()
        case "in":
            return column.isin([value])
    return _COMPARISONS[op](column, value)  # type: ignore[no-any-return]


def _of_polars(name: str, op: str, value: Any) -> pl.Expr:
    column = pl.col(name)
    match op:
        case "null":
            return column.is_null()
        case "not null":
            return column.is_not_null()
        case "in":
            return column.is_in([value])
    return _COMPARISONS[op](column, value)  # type: ignore[no-any-return]


def _in_sql(name: str, op: str, value: Any) -> str:
    column = '"' + name.replace('"', '""') + '"'
    match op:
        case "null":
            return f"{column} IS NULL"
        case "not null":
            return f"{column} IS NOT NULL"
        case "in":
            return f"{column} IN ({_literal(value)})"
    return f"{column} {op} {_literal(value)}"


def _literal(value: Any) -> str:
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            digits, scale = len(value.as_tuple().digits), max(0, -int(value.as_tuple().exponent))
            return f"CAST('{value:f}' AS DECIMAL({max(digits, scale)}, {scale}))"
        case datetime():
            return f"{'TIMESTAMP' if value.tzinfo is None else 'TIMESTAMPTZ'} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return str(value)
