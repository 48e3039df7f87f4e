"""What a hint leaves possible: expressions that hold for every row that the hint can mean, under any reading of it.

Clients and servers do not agree on all that a comparison means. A file may only be dropped if they all would:

- a comparison with null is null in SQL, and false to others, for whom its negation is true;
- NaN is in no order with numbers (IEEE 754), or, to Spark, equal to itself and greater than all of them;
- a literal may have lost digits on its way, and a value may be changed by a cast to a narrower type.
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
"""Stands for a condition of which nothing is known, and for its negation."""

NEGATED: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[CompareOp, CompareOp] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

MOST_NODES = 2000
DEEPEST = 100
"""What a hint may be at most. Each part of it costs time for each file of the table: with more, leaving files out would
cost a server more than telling of them."""


def compared(op: CompareOp, column: Column, low: Any, high: Any) -> Expression:
    """Where the column may compare so with a literal that is somewhere from `low` to `high`."""
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
    """Also where one of the columns, which are floats or doubles, is NaN."""
    return chain(Or, [rows, *(Call("isnan", (column,)) for column in columns)])


def floats_in(schema: StructType, columns: Collection[Column]) -> list[Column]:
    return [column for column in columns if schema.resolve(column.path)[-1].type in FLOATS]


def is_in_partitions(schema: StructType, column: Column, partition_columns: Collection[str]) -> bool:
    return schema.resolve(column.path)[0].name in partition_columns


def is_collated(field: StructField) -> bool:
    """Whether strings are compared by rules of a language, of which statistics know nothing."""
    return field.type == PrimitiveType("string") and "__COLLATIONS" in field.metadata
