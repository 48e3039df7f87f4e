"""Conservative expressions: they hold for every row that a hint can match, under any reading of it.

Clients and servers disagree on comparisons. A file may be dropped only if all of them would drop it:

- a comparison with null is null in SQL; to others it is false, and its negation true;
- NaN is unordered (IEEE 754) or, in Spark, equal to itself and greater than all numbers;
- a literal may have lost digits on the wire, and a cast to a narrower type may change a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lakeport.kernel.expressions import (
    FLOATS,
    And,
    Call,
    Column,
    CompareOp,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    Or,
    chain,
)
from lakeport.kernel.schema import PrimitiveType, StructField, StructType

UNDECIDED = Literal(True)
"""Stands for an unknown condition, and also for its negation."""

NEGATED: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

MOST_NODES = 2000
DEEPEST = 100
"""Limits of a hint. Each part of it costs time for each file of the table: beyond these, skipping files would cost a
server more than listing them."""


def compared(op: CompareOp, column: Column, low: Any, high: Any) -> Expression:
    """Where the comparison may hold for a literal known only to lie between `low` and `high`."""
    if low == high:
        return Comparison(op, column, Literal(low))
    at_least, at_most = Comparison(">=", column, Literal(low)), Comparison("<=", column, Literal(high))
    match op:
        case "=":
            return And(at_least, at_most)
        case "<" | "<=":
            return at_most
        case ">" | ">=":
            return at_least
    return Not(IsNull(column))


def or_null(rows: Expression, columns: Collection[Column]) -> Expression:
    """Also where one of the columns is null: there a comparison can be false, and its negation true."""
    return chain(Or, [rows, *map(IsNull, columns)])


def or_nan(rows: Expression, columns: Collection[Column]) -> Expression:
    """Also where one of the columns, all floats or doubles, is NaN."""
    return chain(Or, [rows, *(Call("isnan", (column,)) for column in columns)])


def floats_in(schema: StructType, columns: Collection[Column], within: Collection[str] | None = None) -> list[Column]:
    """The columns that are floats or doubles; only those within top-level columns of these names, if given."""
    fields = [(column, schema.resolve(column.path)) for column in columns]
    return [column for column, path in fields if path[-1].type in FLOATS and (within is None or path[0].name in within)]


def is_collated(field: StructField) -> bool:
    """Whether strings are compared by a language's rules, which statistics ignore."""
    return field.type == PrimitiveType("string") and "__COLLATIONS" in field.metadata
