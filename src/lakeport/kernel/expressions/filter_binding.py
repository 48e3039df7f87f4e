"""Bind filters to a schema: `bind` resolves names and converts literals to the type they are compared with.

A bound filter is always boolean. Its columns have the schema's exact names, literals are on the right, and a literal's
Python type follows from the column's type:

    byte … long → int     float, double → float     decimal → Decimal, at the column's scale     boolean → bool
    string → str          binary → bytes            date → date
    timestamp → aware datetime in UTC               timestamp_ntz → naive datetime

Outside years 1 to 9999, dates are `FarDate` and timestamps `FarTime` (`kernel.values.moments`).

If an integer, decimal or date column is compared with a value that its type cannot hold, the comparison is rewritten to
select the same rows (`x >= 1.5` is `x > 1`), so nothing is ever rounded. Like Spark, a float or double column converts
every number to double. Time without a zone is UTC.

`bind_value` binds any value; in a filter, a computed value (`a * 2 > 10`) may stand in place of a column.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions.literals import INTEGER_BITS, Place, place_literal
from lakeport.kernel.expressions.tree import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
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
from lakeport.kernel.expressions.value_binding import ValueBinder, as_written, convert, plain, type_of
from lakeport.kernel.expressions.value_types import BOOLEAN, FLOATS, STRING, literal_type
from lakeport.kernel.schema import VOID, DataType, PrimitiveType, StructType, format_type
from lakeport.kernel.values import MOMENT_KINDS, microseconds_of

_NULL, _FALSE = Literal(None), Literal(False)

_DEEPEST = 200
"""Maximum depth of a bound filter, since later steps recurse through it."""

_FAMILIES = {
    **dict.fromkeys([*INTEGER_BITS, "float", "double"], "number"),
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
    """Bind the filter to a logical schema; the module docstring lists its guarantees.

    Raises `UnknownColumnError`, and `InvalidFilterError` for a non-boolean expression or incomparable types.
    """
    return _not_too_deep(lambda: _Binder(schema).predicate(expression))


def bind_value(expression: Expression, schema: StructType, target: DataType | None = None) -> Expression:
    """Bind the value to a logical schema and make every conversion explicit: see `value_binding`.

    With a `target` it is converted to that type by Spark's ANSI store assignment; literal text is parsed as the type.
    NULL stays `void` if the target is nested, and nested values are accepted only for a target of the same shape.
    Raises `UnknownColumnError`, and `InvalidFilterError` naming the types that do not fit.
    """

    def bound() -> Expression:
        value = _Binder(schema).values.bind(expression)
        return value[0] if target is None else convert(value, target)

    return _not_too_deep(bound)


def _not_too_deep(bound: Callable[[], Expression]) -> Expression:
    try:
        expression = bound()
        if _depth(expression) <= _DEEPEST:
            return expression
    except RecursionError:
        pass
    raise InvalidFilterError("the filter is nested too deeply; combine fewer conditions, or use IN")


def normalize(expression: Expression, schema: StructType) -> Expression:
    """Push NOT down to the leaves of a bound filter, keeping the three-valued result for every row.

    Comparisons are negated (`NOT a < b` is `a >= b`) except on floats, because NaN is unordered.
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
            if not (type_of(left, schema) in FLOATS or type_of(right, schema) in FLOATS):
                return Comparison(_NEGATED[op], left, right)
    return Not(expression) if negated else expression


class _Binder:
    """Binds to one schema."""

    def __init__(self, schema: StructType) -> None:
        self.values = ValueBinder(schema, self.predicate)

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
                return IsNull(self.values.bind(child)[0])
            case In(child, values):
                return self._membership(child, values)
            case Like(child, pattern):
                return self._like(child, pattern)
            case Literal(None | bool()):
                return expression
            case Column() | Arithmetic() | Cast() | Case() | Call():
                return self._flag(expression)
        raise InvalidFilterError(f"{_text(expression)} is not a condition; compare it with something")

    def _flag(self, expression: Expression) -> Expression:
        bound, data_type = self.values.bind(expression)
        if data_type == VOID:
            return _NULL
        if data_type != BOOLEAN:
            raise InvalidFilterError(f"{_named(bound, data_type)} is not a condition; only a boolean can stand alone")
        return bound

    def _comparable(self, expression: Expression) -> tuple[Expression, PrimitiveType]:
        bound, data_type = self.values.bind(expression)
        if not isinstance(data_type, PrimitiveType) or _family(data_type) is None:
            raise InvalidFilterError(
                f"{_named(bound, data_type)} cannot be compared; such a column supports only IS NULL and IS NOT NULL"
            )
        return bound, data_type

    def _comparison(self, op: CompareOp, left: Expression, right: Expression) -> Expression:
        match left, right:
            case Literal(a), Literal(b):
                return _compare_literals(op, plain(a), plain(b))
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
        bound, data_type = self.values.bind(child)
        if data_type == VOID:
            return _NULL
        if data_type != STRING:
            raise InvalidFilterError(f"{_named(bound, data_type)} cannot be matched with LIKE, which takes strings")
        _place_or_refuse(pattern, bound, data_type)
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise InvalidFilterError(
                f"the pattern {_text(Literal(pattern))} ends with an escape; write \\\\ for a backslash"
            )
        return Like(bound, pattern)


def _against_literal(op: CompareOp, bound: Expression, data_type: PrimitiveType, value: Any) -> Expression:
    if value is None:
        return IsNull(bound) if op == "<=>" else _NULL
    if data_type == VOID:
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
    """`answer` for every row where `bound` is not null, null for the others."""
    return Or(Not(IsNull(bound)), _NULL) if answer else And(IsNull(bound), _NULL)


def _against_column(
    op: CompareOp, left: tuple[Expression, PrimitiveType], right: tuple[Expression, PrimitiveType]
) -> Expression:
    if VOID in (left[1], right[1]):
        return IsNull(right[0] if left[1] == VOID else left[0]) if op == "<=>" else _NULL
    if _family(left[1]) != _family(right[1]):
        raise InvalidFilterError(f"{_named(*left)} cannot be compared with {_named(*right)}")
    return Comparison(op, left[0], right[0])


def _among_literals(bound: Expression, data_type: PrimitiveType, values: list[Any]) -> Expression:
    """IN, without the values that nothing of the type can equal."""
    if data_type == VOID:
        return _NULL
    places = [_place_or_refuse(value, bound, data_type) for value in values if value is not None]
    kept = [Literal(nearest) for nearest, place in places if place == "at" and nearest == nearest]
    if all(value is not None for value in values):
        return In(bound, tuple(kept)) if kept else _unless_null(bound, False)
    return In(bound, (*kept, _NULL)) if kept else _NULL


def _compare_literals(op: CompareOp, left: Any, right: Any) -> Literal:
    if left is None or right is None:
        return Literal(left is right) if op == "<=>" else _NULL
    left, right = _read_beside(right, left), _read_beside(left, right)
    for kind in (bool, (int, float, Decimal), str, bytes, MOMENT_KINDS):
        if isinstance(left, kind) and isinstance(right, kind) and isinstance(left, bool) is isinstance(right, bool):
            return Literal(bool(_PYTHON[op](*_alike(left, right))))
    hint = "; quotes mean text: write column names without quotes, or in backticks"
    raise InvalidFilterError(
        f"{_text(Literal(left))} cannot be compared with {_text(Literal(right))}"
        f"{hint if isinstance(left, str) or isinstance(right, str) else ''}"
    )


def _read_beside(other: Any, value: Any) -> Any:
    """Parse text compared with a date or timestamp as that type; return other values unchanged."""
    if not isinstance(value, str) or not isinstance(other, MOMENT_KINDS):
        return value
    return _place_or_refuse(value, Literal(other), literal_type(other))[0]


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, MOMENT_KINDS):
        return microseconds_of(left), microseconds_of(right)
    if isinstance(left, float) and isinstance(right, Decimal):
        return left, float(right)
    if isinstance(left, Decimal) and isinstance(right, float):
        return float(left), right
    return left, right


def _place_or_refuse(value: Any, bound: Expression, data_type: PrimitiveType) -> Place:
    try:
        return place_literal(plain(value), data_type)
    except (ValueError, OverflowError) as error:
        raise InvalidFilterError(f"{_text(Literal(value))} does not fit {_named(bound, data_type)}: {error}") from error


def _family(data_type: PrimitiveType) -> str | None:
    """The family of types comparable with this one; None for an incomparable type."""
    return "number" if data_type.decimal else _FAMILIES.get(data_type.name)


def _named(bound: Expression, data_type: DataType) -> str:
    values = Literal | Arithmetic | Cast | Case | Call
    kind = "column" if isinstance(bound, Column) else "value" if isinstance(bound, values) else "condition"
    return f"the {kind} {_text(as_written(bound))} of type {format_type(data_type)}"


def _text(expression: Expression) -> str:
    try:
        return format_expression(expression)
    except TypeError:
        return repr(expression)
