"""Fits filters to a schema: `bind` resolves names and gives literals the type of what they are compared with.

A bound filter is always boolean. Its columns have the exact names of the schema, a literal stands on the right, and its
value is of the kind that belongs to the column's type:

    byte … long → int     float, double → float     decimal → Decimal, at the column's scale     boolean → bool
    string → str          binary → bytes            date → date
    timestamp → aware datetime in UTC               timestamp_ntz → naive datetime

A comparison of an integer, decimal or date column with a value that its type cannot hold is rewritten into one that
selects the same rows (`x >= 1.5` is `x > 1`), so that nothing is ever rounded. Where Spark would convert to double, so
does Lakeport: a float or double column takes every number as a double. Time without a zone is UTC.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from lakeport.errors import InvalidFilterError
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
    chain,
    children,
    format_expression,
    operands,
)
from lakeport.kernel.literals import INTEGER_BITS, Place, as_utc, place_literal
from lakeport.kernel.schema import DataType, PrimitiveType, StructType

_BOOLEAN, _VOID = PrimitiveType("boolean"), PrimitiveType("void")
_NULL, _FALSE = Literal(None), Literal(False)

_DEEPEST = 200
"""How deep a bound filter may be: every step that follows goes through it by recursion."""

_FLOATS = frozenset({"float", "double"})
_FAMILIES = {
    **dict.fromkeys([*INTEGER_BITS, *_FLOATS], "number"),
    **dict.fromkeys(["date", "timestamp", "timestamp_ntz"], "time"),
    **{name: name for name in ("string", "binary", "boolean", "void")},
}

_FLIPPED: dict[CompareOp, CompareOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_ABOVE: dict[CompareOp, CompareOp] = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_BELOW: dict[CompareOp, CompareOp] = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}
_PYTHON: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def bind(expression: Expression, schema: StructType) -> Expression:
    """The filter in the terms of a logical schema; see the module for what holds of it.

    Raises `UnknownColumnError`, and `InvalidFilterError` for what is not a condition or compares what cannot be
    compared.
    """
    try:
        bound = _Binder(schema).predicate(expression)
        deep = _depth(bound) > _DEEPEST
    except RecursionError:
        deep = True
    if deep:
        raise InvalidFilterError("the filter is nested too deeply; combine fewer conditions, or use IN")
    return bound


def normalize(expression: Expression, schema: StructType) -> Expression:
    """A bound filter with NOT only directly before leaves: the same three-valued result for every row.

    Comparisons are turned around (`NOT a < b` is `a >= b`) unless a float is compared, for NaN is in no order.
    """
    return _normal(expression, schema, negated=False)


def _depth(expression: Expression) -> int:
    return 1 + max(map(_depth, children(expression)), default=0)


def _normal(expression: Expression, schema: StructType, negated: bool) -> Expression:
    match expression:
        case Not(child):
            return _normal(child, schema, not negated)
        case And(left, right) | Or(left, right):
            kind = And if isinstance(expression, And) is not negated else Or
            return kind(_normal(left, schema, negated), _normal(right, schema, negated))
        case Literal(value) if negated:
            return Literal(None if value is None else not value)
        case Comparison(op, left, right) if negated and op in _NEGATED:
            if not (_is_float(left, schema) or _is_float(right, schema)):
                return Comparison(_NEGATED[op], left, right)
    return Not(expression) if negated else expression


def _is_float(operand: Expression, schema: StructType) -> bool:
    match operand:
        case Column(path):
            data_type = schema.resolve(path)[-1].type
            return isinstance(data_type, PrimitiveType) and data_type.name in _FLOATS
        case Literal(value):
            return isinstance(value, float)
    return False


class _Binder:
    """Binds to one schema."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def predicate(self, expression: Expression) -> Expression:
        match expression:
            case And() | Or():
                kind = type(expression)
                return chain(kind, [self.predicate(part) for part in operands(expression, kind)])
            case Not(child):
                return Not(self.predicate(child))
            case Comparison(op, left, right):
                return self._comparison(op, left, right)
            case IsNull(Literal(value)):
                return Literal(value is None)
            case IsNull(child):
                return IsNull(self._operand(child)[0])
            case In(child, values):
                return self._membership(child, values)
            case Like(child, pattern):
                return self._like(child, pattern)
            case Literal(None | bool()):
                return expression
            case Column():
                return self._flag(expression)
        raise InvalidFilterError(f"{_text(expression)} is not a condition; compare it with something")

    def _flag(self, column: Column) -> Expression:
        bound, data_type = self._operand(column)
        if data_type == _VOID:
            return _NULL
        if data_type != _BOOLEAN:
            raise InvalidFilterError(
                f"{_named(bound, data_type)} is not a condition; only a boolean column can stand alone"
            )
        return bound

    def _operand(self, expression: Expression) -> tuple[Expression, DataType]:
        """A column or a condition, and its type."""
        if isinstance(expression, Column):
            fields = self._schema.resolve(expression.path)
            return Column(tuple(f.name for f in fields)), fields[-1].type
        return self.predicate(expression), _BOOLEAN

    def _comparable(self, expression: Expression) -> tuple[Expression, PrimitiveType]:
        bound, data_type = self._operand(expression)
        if not isinstance(data_type, PrimitiveType) or _family(data_type) is None:
            raise InvalidFilterError(
                f"{_named(bound, data_type)} cannot be compared; such a column only takes IS NULL and IS NOT NULL"
            )
        return bound, data_type

    def _comparison(self, op: CompareOp, left: Expression, right: Expression) -> Expression:
        match left, right:
            case Literal(a), Literal(b):
                return _compare_literals(op, _plain(a), _plain(b))
            case Literal(value), _:
                return _against_literal(_FLIPPED.get(op, op), *self._comparable(right), value)
            case _, Literal(value):
                return _against_literal(op, *self._comparable(left), value)
        return _against_column(op, self._comparable(left), self._comparable(right))

    def _membership(self, child: Expression, values: tuple[Expression, ...]) -> Expression:
        if not values:
            return _FALSE
        if isinstance(child, Literal) or not all(isinstance(value, Literal) for value in values):
            return chain(Or, [self._comparison("=", child, value) for value in values])
        bound, data_type = self._comparable(child)
        return _among_literals(bound, data_type, [value.value for value in values if isinstance(value, Literal)])

    def _like(self, child: Expression, pattern: str) -> Expression:
        if isinstance(child, Literal) and child.value is None:
            return _NULL
        bound, data_type = self._operand(child)
        if data_type == _VOID:
            return _NULL
        if data_type != PrimitiveType("string"):
            raise InvalidFilterError(f"{_named(bound, data_type)} cannot be matched with LIKE, which takes strings")
        _place_or_refuse(pattern, bound, data_type)
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise InvalidFilterError(
                f"the pattern {_text(Literal(pattern))} ends in an escape; write \\\\ for a backslash"
            )
        return Like(bound, pattern)


def _against_literal(op: CompareOp, bound: Expression, data_type: PrimitiveType, value: Any) -> Expression:
    if value is None:
        return IsNull(bound) if op == "<=>" else _NULL
    if data_type == _VOID:
        return _FALSE if op == "<=>" else _NULL
    nearest, place = _place_or_refuse(value, bound, data_type)
    if place == "at":
        return Comparison(op, bound, Literal(nearest))
    if place != "apart" and op in _ABOVE:
        return Comparison((_ABOVE if place == "above" else _BELOW)[op], bound, Literal(nearest))
    if op == "<=>":
        return _FALSE
    return _unless_null(bound, op == "<>")


def _unless_null(bound: Expression, answer: bool) -> Expression:
    """`answer` for every row in which `bound` is not null, null for the others."""
    return Or(Not(IsNull(bound)), _NULL) if answer else And(IsNull(bound), _NULL)


def _against_column(
    op: CompareOp, left: tuple[Expression, PrimitiveType], right: tuple[Expression, PrimitiveType]
) -> Expression:
    if _VOID in (left[1], right[1]):
        return IsNull(right[0] if left[1] == _VOID else left[0]) if op == "<=>" else _NULL
    if _family(left[1]) != _family(right[1]):
        raise InvalidFilterError(f"{_named(*left)} cannot be compared with {_named(*right)}")
    return Comparison(op, left[0], right[0])


def _among_literals(bound: Expression, data_type: PrimitiveType, values: list[Any]) -> Expression:
    """IN, without what no value of the type is equal to."""
    if data_type == _VOID:
        return _NULL
    places = [_place_or_refuse(value, bound, data_type) for value in values if value is not None]
    kept = [Literal(nearest) for nearest, place in places if place == "at" and nearest == nearest]
    if all(value is not None for value in values):
        return In(bound, tuple(kept)) if kept else _unless_null(bound, False)
    return In(bound, (*kept, _NULL)) if kept else _NULL


def _compare_literals(op: CompareOp, left: Any, right: Any) -> Literal:
    if left is None or right is None:
        return Literal(left is right) if op == "<=>" else _NULL
    for kind in (bool, (int, float, Decimal), str, bytes, date):
        if isinstance(left, kind) and isinstance(right, kind) and isinstance(left, bool) is isinstance(right, bool):
            return Literal(bool(_PYTHON[op](*_alike(left, right))))
    raise InvalidFilterError(f"{_text(Literal(left))} cannot be compared with {_text(Literal(right))}")


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, date):
        return as_utc(left), as_utc(right)
    if isinstance(left, float) and isinstance(right, Decimal):
        return left, float(right)
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left), right
    return left, right


def _place_or_refuse(value: Any, bound: Expression, data_type: PrimitiveType) -> Place:
    try:
        return place_literal(_plain(value), data_type)
    except (ValueError, OverflowError) as error:
        raise InvalidFilterError(f"{_text(Literal(value))} does not fit {_named(bound, data_type)}: {error}") from error


def _plain(value: Any) -> Any:
    """A Python value for a NumPy scalar."""
    return value.item() if hasattr(value, "item") else value


def _family(data_type: PrimitiveType) -> str | None:
    """Types of one family can be compared; None for a type that cannot be."""
    return "number" if data_type.decimal else _FAMILIES.get(data_type.name)


def _named(bound: Expression, data_type: DataType) -> str:
    name = data_type.name if isinstance(data_type, PrimitiveType) else type(data_type).__name__[:-4].lower()
    kind = "column" if isinstance(bound, Column) else "condition"
    return f"the {kind} {_text(bound)} of type {name}"


def _text(expression: Expression) -> str:
    try:
        return format_expression(expression)
    except TypeError:
        return repr(expression)
