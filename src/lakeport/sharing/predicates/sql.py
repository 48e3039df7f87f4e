"""`predicateHints`: conditions as SQL text. See "SQL Expressions for Filtering" in the protocol."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions import (
    DATE,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    bind,
    chain,
    children,
    columns_in,
    digits_of,
    is_integer,
    operands,
    parse_filter,
)
from lakeport.kernel.schema import DataType, StructType
from lakeport.kernel.values import FarTime
from lakeport.sharing.predicates.possible import (
    MOST_NODES,
    NEGATED,
    UNDECIDED,
    compared,
    floats_in,
    is_collated,
    or_nan,
)

_WIDEST_OFFSET = timedelta(hours=18)
"""A time without a zone is in the client's session zone, which is unknown; Spark allows offsets up to this."""


def parse_sql_predicate(text: str, schema: StructType, partition_columns: Collection[str] = ()) -> Expression:
    """A filter that accepts every row for which the condition is true, in any time zone.

    Only conditions on plain columns are used; those on computed values are ignored. Raises `UnknownColumnError`, and
    `InvalidFilterError` if the condition is malformed, too large, or does not fit the columns."""
    expression = parse_filter(text)
    if _count(expression) > MOST_NODES:
        raise InvalidFilterError(f"the filter is too large: it can have {MOST_NODES} parts at most")
    bind(expression, schema)
    return bind(_Reader(schema, partition_columns).condition(expression, negated=False), schema)


def _count(expression: Expression) -> int:
    count, todo = 0, [expression]
    while todo:
        count += 1
        todo += children(todo.pop())
    return count


class _Reader:
    """Converts a condition on one table, which is known to bind."""

    def __init__(self, schema: StructType, partition_columns: Collection[str]) -> None:
        self._schema, self._partition_columns = schema, partition_columns

    def condition(self, expression: Expression, negated: bool) -> Expression:
        """Where the condition, or its negation, may be true."""
        match expression:
            case And() | Or():
                kind = And if isinstance(expression, And) is not negated else Or
                parts = operands(expression, type(expression))
                return chain(kind, [self.condition(part, negated) for part in parts])
            case Not(child):
                return self.condition(child, not negated)
            case IsNull(Column()) | Literal():
                return Not(expression) if negated else expression
            case Comparison(_, Column() | Literal(), Column() | Literal()) | Column() | Like(Column(), _):
                return self._leaf(expression, negated)
            case In(Column(), values) if all(isinstance(value, Literal) for value in values):
                return self._leaf(expression, negated)
        return UNDECIDED

    def _leaf(self, leaf: Expression, negated: bool) -> Expression:
        columns = columns_in(leaf)
        if not self._has_one_reading(leaf, columns):
            return UNDECIDED
        if any(self._type(column) in (TIMESTAMP, TIMESTAMP_NTZ) for column in columns):
            return self._moment(leaf, negated)
        floats = floats_in(self._schema, columns, self._partition_columns)
        return or_nan(Not(leaf) if negated else leaf, floats)

    def _has_one_reading(self, leaf: Expression, columns: list[Column]) -> bool:
        """Whether all engines compare these values the same way."""
        values = [part.value for part in children(leaf) if isinstance(part, Literal)]
        if any(is_collated(self._schema.resolve(column.path)[-1]) for column in columns) or any(map(_is_nan, values)):
            return False
        for data_type in map(self._type, columns):
            if data_type == DATE and any(isinstance(value, datetime | FarTime) for value in values):
                return False
            # Spark compares these as doubles, which cannot represent all of them.
            is_wide = data_type == LONG or (digits_of(data_type) is not None and not is_integer(data_type))
            if is_wide and any(isinstance(value, float) for value in values):
                return False
        return True

    def _moment(self, leaf: Expression, negated: bool) -> Expression:
        match bind(leaf, self._schema):
            case Comparison(op, Column() as column, Literal(datetime() as moment)) if op in NEGATED:
                try:
                    low, high = moment - _WIDEST_OFFSET, moment + _WIDEST_OFFSET
                except OverflowError:
                    return UNDECIDED
                return compared(NEGATED[op] if negated else op, column, low, high)
            case Comparison(_, Column() as left, Column() as right) if self._type(left) == self._type(right):
                return Not(leaf) if negated else leaf
        return UNDECIDED

    def _type(self, column: Column) -> DataType:
        return self._schema.resolve(column.path)[-1].type


def _is_nan(value: object) -> bool:
    return value != value or (isinstance(value, str) and value.strip().lower() == "nan")
