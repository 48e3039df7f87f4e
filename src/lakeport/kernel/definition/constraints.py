"""The SQL in a table's definition: CHECK constraints, column invariants and generated columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from lakeport.errors import CorruptTableError, InvalidFilterError, UnsupportedFeatureError
from lakeport.kernel.definition.properties import Configuration, constraints_in
from lakeport.kernel.expressions import bind, bind_value, columns_in, parse_expression, replace_now
from lakeport.kernel.schema import (
    GENERATION_EXPRESSION,
    INVARIANTS,
    DataType,
    Place,
    StructType,
    format_column_list,
    places_in,
)

_Path = tuple[str, ...]


@dataclass(frozen=True)
class TableExpression:
    """SQL that constrains or generates a table's rows."""

    name: str
    """`the constraint 'positive'`, for messages."""
    sql: str
    owner: _Path = ()
    """The column that it belongs to; empty for a table constraint."""
    type: DataType | None = None
    """The type of the generated column; None for a condition."""
    is_repeated: bool = False
    """Whether the column is in a list or map, so that a row has any number of values for it."""

    def check(self, schema: StructType) -> None:
        """Raises `InvalidFilterError` and `UnknownColumnError` if it is invalid for this schema."""
        parsed = replace_now(parse_expression(self.sql), 0)
        if self.type is None:
            bind(parsed, schema)
        else:
            bind_value(parsed, schema, self.type)

    def columns(self, schema: StructType) -> tuple[_Path, ...]:
        """The columns in it. For SQL that this kernel cannot parse, all columns whose names occur in the text."""
        try:
            return tuple(column.path for column in columns_in(parse_expression(self.sql)))
        except InvalidFilterError:
            text = self.sql.lower().replace("``", "`")
            return tuple(place.path for place in places_in(schema) if place.path[-1].lower() in text)


def expressions_in(configuration: Configuration, schema: StructType) -> list[TableExpression]:
    """All expressions of a table. Raises `ValueError` for an invalid invariant."""
    found = [TableExpression(f"the constraint {name!r}", sql) for name, sql in constraints_in(configuration).items()]
    for place in places_in(schema):
        found += _expressions_of(place)
    return found


def constraints_of(configuration: Configuration, schema: StructType, path: str) -> dict[str, str]:
    """CHECK constraints and column invariants of the table at a path, as SQL conditions by name.

    Raises `CorruptTableError` for an invalid invariant, and `UnsupportedFeatureError` for one inside a list or map."""
    try:
        expressions = expressions_in(configuration, schema)
    except ValueError as error:
        raise CorruptTableError(str(error), path=path) from error
    invariants = [e for e in expressions if e.owner and e.type is None]
    if repeated := next((e for e in invariants if e.is_repeated), None):
        raise UnsupportedFeatureError(
            f"no rows can be written: {repeated.name} ({repeated.sql}) applies to values in a list or a map, which "
            f"this version of Lakeport does not check [{path}]",
            features=["invariants"],
        )
    named = {f"invariant of {format_column_list([e.owner])}": e.sql for e in invariants}
    return constraints_in(configuration) | named


def uses_of_columns(expressions: Iterable[TableExpression], schema: StructType) -> dict[str, tuple[_Path, ...]]:
    """The columns in expressions, by the expression's name."""
    return {expression.name: expression.columns(schema) for expression in expressions}


def parse_invariant(text: str) -> str:
    """The SQL in a column's `delta.invariants`. Raises `ValueError`."""
    try:
        return msgspec.json.decode(text, type=_Invariant).expression.expression
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"{text!r} is not an invariant: {error}") from error


class _InvariantExpression(msgspec.Struct):
    expression: str


class _Invariant(msgspec.Struct):
    expression: _InvariantExpression


def _expressions_of(place: Place) -> Iterator[TableExpression]:
    metadata, name = place.field.metadata, ".".join(place.path)
    if (sql := metadata.get(GENERATION_EXPRESSION)) is not None:
        yield TableExpression(
            f"the generated column {name!r}", str(sql), place.path, place.field.type, place.is_repeated
        )
    if (text := metadata.get(INVARIANTS)) is not None:
        try:
            sql = parse_invariant(text)
        except ValueError as error:
            raise ValueError(f"{INVARIANTS} of {name!r} is not valid: {error}") from error
        yield TableExpression(f"the invariant of {name!r}", sql, place.path, is_repeated=place.is_repeated)
