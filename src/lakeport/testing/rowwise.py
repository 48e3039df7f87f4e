"""Filters evaluated row by row in plain Python: slow, obvious, and sharing nothing with the code under test."""

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakeport.kernel.expressions import (
    And,
    Column,
    CompareOp,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)

COMPARE: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def by_row(expression: Expression, row: dict[str, Any]) -> Any:
    """The value of an expression in one row, by SQL's three-valued logic."""
    match expression:
        case Literal(value):
            return value
        case Column(path):
            value = row
            for name in path:
                value = None if value is None else value[name]
            return value
        case And(left, right):
            sides = {by_row(left, row), by_row(right, row)}
            return False if False in sides else None if None in sides else True
        case Or(left, right):
            sides = {by_row(left, row), by_row(right, row)}
            return True if True in sides else None if None in sides else False
        case Not(child):
            value = by_row(child, row)
            return None if value is None else not value
        case IsNull(child):
            return by_row(child, row) is None
        case Comparison(op, left, right):
            return compare(op, by_row(left, row), by_row(right, row))
        case In(child, values):
            found = [compare("=", by_row(child, row), by_row(value, row)) for value in values]
            return True if True in found else None if None in found else False
        case Like(child, pattern):
            value = by_row(child, row)
            return None if value is None else matches(value, pattern)
    raise AssertionError(expression)


def compare(op: CompareOp, left: Any, right: Any) -> bool | None:
    if op == "<=>":
        return left is right if left is None or right is None else compare("=", left, right)
    if left is None or right is None:
        return None
    if left != left or right != right:
        return op == "<>"
    kinds = {type(left), type(right)}
    if kinds == {Decimal, float}:
        # A decimal becomes a double only beside a column of doubles, and all of ours that small are the same double.
        left, right = (Decimal(repr(v)) if isinstance(v, float) else v for v in (left, right))
    if date in kinds or datetime in kinds:
        left, right = as_moment(left), as_moment(right)
    return COMPARE[op](left, right)


def as_moment(value: date) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def matches(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(matches(text[i:], rest) for i in range(len(text) + 1))
    if head == "\\":
        head, rest = rest[0], rest[1:]
    elif head == "_":
        return bool(text) and matches(text[1:], rest)
    return text[:1] == head and matches(text[1:], rest)
