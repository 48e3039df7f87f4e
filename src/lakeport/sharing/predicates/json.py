"""`jsonPredicateHints`: a tree of operations as JSON. See "JSON predicates for Filtering" in the protocol.

{"op": "lessThan", "children": [{"op": "column", "name": "id", "valueType": "int"},
                                {"op": "literal", "value": "25", "valueType": "int"}]}
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions import (
    And,
    Column,
    CompareOp,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    Or,
    bind,
    cast_text,
    chain,
)
from lakeport.kernel.schema import PrimitiveType, StructType
from lakeport.kernel.values import FarTime, days_of, microseconds_of, moment_at
from lakeport.sharing.models import WireModel
from lakeport.sharing.predicates.possible import (
    DEEPEST,
    FLIPPED,
    MOST_NODES,
    NEGATED,
    UNDECIDED,
    compared,
    floats_in,
    is_collated,
    or_nan,
    or_null,
)

COMPARISONS: dict[str, CompareOp] = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_LITERAL_TYPES = {
    **{"bool": "boolean", "int": "integer", "long": "long", "string": "string", "date": "date"},
    **{"float": "float", "double": "double", "timestamp": "timestamp"},
}
_HELD_EXACTLY = {
    "bool": {"boolean"},
    "int": {"byte", "short", "integer"},
    "long": {"byte", "short", "integer", "long"},
    "float": {"byte", "short", "float"},
    "double": {"byte", "short", "integer", "float", "double"},
    "string": {"string"},
    "date": {"date"},
    "timestamp": {"timestamp"},
}
"""Column types whose values a cast to the value type preserves."""

_NARROWED = {"int": "long", "float": "double"}
"""Column types whose values a cast to the value type changes only in known ways: it wraps or rounds."""

_LEAST_INT, _GREATEST_INT = -(2**31), 2**31 - 1
_CUT_OFF = 999
"""Microseconds. Spark's client truncates timestamps to milliseconds, towards 1970."""

_ZONED = re.compile(r"[^T ]*[T ].*(Z|UTC|[+-]\d{1,2}(:?\d{2})?)", re.ASCII)
_UNSUPPORTED = ("unsupported", "UnsupportedOp")
"""Placeholders of clients for what they cannot express."""

_PYTHON: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Op(WireModel, frozen=True):
    op: str
    children: list[_Op] | None = None
    name: str | None = None
    value: str | int | float | bool | None = None
    value_type: str | None = None


@dataclass(frozen=True, slots=True)
class _Column:
    column: Column
    value_type: str
    is_narrowed: bool
    is_collated: bool


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any
    value_type: str


def parse_json_predicate(text: str, schema: StructType, partition_columns: Collection[str] = ()) -> Expression:
    """A filter that accepts every row for which the predicate is true, under any reading of it.

    Raises `UnknownColumnError`, and `InvalidFilterError` if the predicate is malformed, too large, or casts a column to
    a type that does not preserve its values."""
    try:
        root = msgspec.json.decode(text, type=_Op)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidFilterError(f"the JSON predicate is invalid: {error}") from None
    except RecursionError:
        raise _too_large() from None
    _check_size(root)
    return bind(_Reader(schema, partition_columns).condition(root, negated=False), schema)


def _check_size(root: _Op) -> None:
    level, count = [root], 0
    for _ in range(DEEPEST):
        count += len(level)
        level = [child for node in level for child in node.children or ()]
        if not level:
            break
    if level or count > MOST_NODES:
        raise _too_large()


def _too_large() -> InvalidFilterError:
    return InvalidFilterError(
        f"the JSON predicate is too large: it can have {MOST_NODES} operations in {DEEPEST} levels at most"
    )


class _Reader:
    """Turns operations into expressions for one table."""

    def __init__(self, schema: StructType, partition_columns: Collection[str]) -> None:
        self._schema, self._partition_columns = schema, partition_columns

    def condition(self, node: _Op, negated: bool) -> Expression:
        """Where the condition, or its negation, may be true."""
        match node.op:
            case "and" | "or":
                kind = And if (node.op == "and") is not negated else Or
                return chain(kind, [self.condition(child, negated) for child in _children(node, 2, None)])
            case "not":
                return self.condition(_children(node, 1)[0], not negated)
            case "isNull":
                return self._null_check(self._leaf(_children(node, 1)[0]), negated)
            case "column" | "literal":
                return self._flag(self._leaf(node), negated)
            case op if op in COMPARISONS:
                return self._comparison(node, negated)
            case op if op in _UNSUPPORTED:
                return UNDECIDED
        raise InvalidFilterError(f"the JSON predicate has an unknown operation: {node.op[:50]!r}")

    def _leaf(self, node: _Op) -> _Column | _Literal:
        value_type = node.value_type or ""
        if node.op not in ("column", "literal"):
            raise InvalidFilterError(f"{node.op[:50]!r} cannot be compared; only columns and literals can")
        if value_type not in _LITERAL_TYPES:
            raise InvalidFilterError(
                f"a {node.op} has the unknown valueType {value_type[:50]!r}; use one of {', '.join(_LITERAL_TYPES)}"
            )
        return self._column(node, value_type) if node.op == "column" else _literal(node, value_type)

    def _column(self, node: _Op, value_type: str) -> _Column:
        if not node.name:
            raise InvalidFilterError("a column has no name")
        path = self._schema.path_of(node.name)
        field = self._schema.resolve(path)[-1]
        type_name = field.type.name if isinstance(field.type, PrimitiveType) else "nested"
        is_narrowed = _NARROWED.get(value_type) == type_name
        if type_name not in _HELD_EXACTLY[value_type] and not is_narrowed:
            raise InvalidFilterError(f"the column {node.name!r} has type {type_name}, not valueType {value_type}")
        return _Column(Column(path), value_type, is_narrowed, is_collated(field))

    def _null_check(self, leaf: _Column | _Literal, negated: bool) -> Expression:
        if isinstance(leaf, _Column):
            return Not(IsNull(leaf.column)) if negated else IsNull(leaf.column)
        # Spark's client writes NULL as this text.
        return UNDECIDED if leaf.value == "null" else Literal(negated)

    def _flag(self, leaf: _Column | _Literal, negated: bool) -> Expression:
        if leaf.value_type != "bool":
            raise InvalidFilterError(f"a value of type {leaf.value_type} is not a condition; compare it with something")
        if isinstance(leaf, _Literal):
            return Literal(leaf.value is not negated)
        return or_null(Not(leaf.column), [leaf.column]) if negated else leaf.column

    def _comparison(self, node: _Op, negated: bool) -> Expression:
        left, right = map(self._leaf, _children(node, 2))
        if left.value_type != right.value_type:
            raise InvalidFilterError(f"type {left.value_type} cannot be compared with type {right.value_type}")
        op = NEGATED[COMPARISONS[node.op]] if negated else COMPARISONS[node.op]
        match left, right:
            case _Literal(), _Literal():
                return _compare_literals(op, left, right)
            case _Column(), _Literal(value):
                rows, columns = _against_literal(op, left, value), [left.column]
            case _Literal(value), _Column():
                rows, columns = _against_literal(FLIPPED[op], right, value), [right.column]
            case _Column(), _Column():
                rows, columns = _against_column(op, left, right), [left.column, right.column]
        # Statistics order NaN as the greatest value; partition values are compared as they are.
        floats = floats_in(self._schema, columns, None if negated else self._partition_columns)
        return or_nan(or_null(rows, columns) if negated else rows, floats)


def _children(node: _Op, least: int, most: int | None = -1) -> list[_Op]:
    """Check the number of children; one number means exactly that many."""
    found = node.children or []
    most = least if most == -1 else most
    if len(found) < least or (most is not None and len(found) > most):
        raise InvalidFilterError(
            f"the operation {node.op!r} has {len(found)} children; it takes {least}{' or more' if most is None else ''}"
        )
    return found


def _literal(node: _Op, value_type: str) -> _Literal:
    if node.value is None:
        raise InvalidFilterError("a literal has no value")
    text = node.value if isinstance(node.value, str) else msgspec.json.encode(node.value).decode()
    try:
        return _Literal(_parse_value(text, value_type), value_type)
    except (ValueError, OverflowError) as error:
        raise InvalidFilterError(f"the literal {text[:50]!r} is not a valid {value_type}: {error}") from None


def _parse_value(text: str, value_type: str) -> Any:
    if value_type == "bool" and text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    # Without a zone, a timestamp is ambiguous.
    if value_type == "timestamp" and not _ZONED.fullmatch(text.strip()):
        raise ValueError("it has no time zone; write it like 2022-01-01T00:00:00Z")
    return cast_text(text, PrimitiveType(_LITERAL_TYPES[value_type]))


def _against_literal(op: CompareOp, leaf: _Column, value: Any) -> Expression:
    if leaf.is_collated or value != value:
        return UNDECIDED
    try:
        rows = compared(op, leaf.column, *_meant(leaf, value))
    except OverflowError:  # a timestamp at the end of the range
        return UNDECIDED
    if leaf.is_narrowed and leaf.value_type == "int":
        wrapped = [
            Comparison("<", leaf.column, Literal(_LEAST_INT)),
            Comparison(">", leaf.column, Literal(_GREATEST_INT)),
        ]
        return chain(Or, [rows, *wrapped])
    return rows


def _meant(leaf: _Column, value: Any) -> tuple[Any, Any]:
    """The least and the greatest column value that the literal may stand for."""
    if isinstance(value, datetime | FarTime):
        moment = microseconds_of(value)
        return moment_at(moment - _CUT_OFF, UTC), moment_at(moment + _CUT_OFF, UTC)
    if leaf.is_narrowed and leaf.value_type == "float":
        return neighbours(value)
    return value, value


def neighbours(value: float) -> tuple[float, float]:
    """The floats before and after a float: all doubles that round to it lie between them."""
    with np.errstate(all="ignore"):
        below, above = (np.nextafter(np.float32(value), np.float32(end)) for end in (-np.inf, np.inf))
    return float(below), float(above)


def _against_column(op: CompareOp, left: _Column, right: _Column) -> Expression:
    if left.is_collated or right.is_collated or left.is_narrowed or right.is_narrowed:
        return UNDECIDED
    return Comparison(op, left.column, right.column)


def _compare_literals(op: CompareOp, left: _Literal, right: _Literal) -> Expression:
    if isinstance(left.value, datetime | FarTime) or left.value != left.value or right.value != right.value:
        return UNDECIDED
    if left.value_type == "date":
        return Literal(_PYTHON[op](days_of(left.value), days_of(right.value)))
    return Literal(_PYTHON[op](left.value, right.value))
