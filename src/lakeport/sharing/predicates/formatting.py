"""Filters as `jsonPredicateHints`, as far as JSON can express them and existing servers understand them.

The reference server drops files with matching rows when a comparison is negated, when a literal is on the left, and for
null checks; and it truncates timestamps to milliseconds. None of that is ever sent.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from lakeport.kernel.expressions import (
    And,
    Column,
    CompareOp,
    Comparison,
    Expression,
    In,
    Literal,
    Not,
    Or,
    bind,
    normalize,
    operands,
)
from lakeport.kernel.schema import PrimitiveType, StructType
from lakeport.kernel.values import FarDate, FarTime
from lakeport.sharing.predicates.json import COMPARISONS
from lakeport.sharing.predicates.possible import is_collated

_Tree = dict[str, Any]
_NAMES = {op: name for name, op in COMPARISONS.items()}
_VALUE_TYPES = {
    **{"boolean": "bool", "byte": "int", "short": "int", "integer": "int", "long": "long", "string": "string"},
    **{"date": "date", "float": "float", "double": "double", "timestamp": "timestamp"},
}
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_json_predicate(expression: Expression, schema: StructType) -> str | None:
    """The part of the filter that JSON can express, which accepts all rows that the filter does; None if there is none.

    Raises `UnknownColumnError` and `InvalidFilterError` if the filter does not fit the schema."""
    tree = _Writer(schema).condition(normalize(bind(expression, schema), schema))
    return None if tree is None else msgspec.json.encode(tree).decode()


class _Writer:
    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def condition(self, expression: Expression) -> _Tree | None:
        """A condition that this one implies, or None."""
        match expression:
            case And():
                return _joined("and", [part for part in self._parts(expression) if part is not None])
            case Or():
                return _all_joined("or", self._parts(expression))
            case Comparison(op, Column() as column, Literal(value)) if value is not None:
                return self._comparison("=" if op == "<=>" else op, column, value)
            case In(Column() as column, values):
                wanted = [v.value for v in values if isinstance(v, Literal) and v.value is not None]
                return _all_joined("or", [self._comparison("=", column, value) for value in wanted])
            case Column():
                return self._comparison("=", expression, True)
            case Not(Column() as column):
                return self._comparison("=", column, False)
        return None

    def _parts(self, expression: And | Or) -> list[_Tree | None]:
        return [self.condition(part) for part in operands(expression, type(expression))]

    def _comparison(self, op: CompareOp, column: Column, value: Any) -> _Tree | None:
        field = self._schema.resolve(column.path)[-1]
        name = field.type.name if isinstance(field.type, PrimitiveType) else ""
        if len(column.path) > 1 or name not in _VALUE_TYPES or is_collated(field):
            return None
        if value != value or isinstance(value, FarDate | FarTime):  # servers disagree on these
            return None
        leaf = {"op": "column", "name": column.path[0], "valueType": _VALUE_TYPES[name]}
        if op == "<>":
            # NaN is not equal to anything, but neither less nor greater.
            return None if name in ("float", "double") else self._different(leaf, name, value)
        if name in ("timestamp", "float"):
            ends = _timestamps(value) if name == "timestamp" else _floats(value)
            return None if ends is None else _within(op, leaf, *ends)
        return _compare(op, leaf, _text(value))

    def _different(self, leaf: _Tree, name: str, value: Any) -> _Tree | None:
        if name == "timestamp":
            return None
        return _joined("or", [_compare("<", leaf, _text(value)), _compare(">", leaf, _text(value))])


def _joined(op: str, parts: list[_Tree]) -> _Tree | None:
    return {"op": op, "children": parts} if len(parts) > 1 else parts[0] if parts else None


def _all_joined(op: str, parts: list[_Tree | None]) -> _Tree | None:
    known = [part for part in parts if part is not None]
    return _joined(op, known) if len(known) == len(parts) else None


def _compare(op: CompareOp, leaf: _Tree, text: str) -> _Tree:
    literal = {"op": "literal", "value": text, "valueType": leaf["valueType"]}
    return {"op": _NAMES[op], "children": [leaf, literal]}


def _within(op: CompareOp, leaf: _Tree, low: str, high: str) -> _Tree:
    """The comparison with a literal that lies between `low` and `high`."""
    at_least, at_most = _compare(">=", leaf, low), _compare("<=", leaf, high)
    if op == "=":
        return {"op": "and", "children": [at_least, at_most]}
    return at_most if op in ("<", "<=") else at_least


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value).replace("inf", "Infinity")
        case date():
            return value.isoformat()
    return str(value)


def _timestamps(moment: datetime) -> tuple[str, str] | None:
    """The milliseconds before and after a moment; None in the last millisecond of the year 9999."""
    since = moment - _EPOCH
    try:
        low, high = _EPOCH + since // _MILLISECOND * _MILLISECOND, _EPOCH - -since // _MILLISECOND * _MILLISECOND
    except OverflowError:
        return None
    first, second = (end.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z" for end in (low, high))
    return first, second


def _floats(value: float) -> tuple[str, str]:
    """The floats before and after a double."""
    with np.errstate(all="ignore"):
        nearest = np.float32(value)
        low = nearest if float(nearest) <= value else np.nextafter(nearest, np.float32(-np.inf))
        high = nearest if float(nearest) >= value else np.nextafter(nearest, np.float32(np.inf))
    return str(low).replace("inf", "Infinity"), str(high).replace("inf", "Infinity")
