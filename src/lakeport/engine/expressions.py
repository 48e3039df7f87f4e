"""Expressions over Arrow batches, with `pyarrow.compute`.

An expression is compiled once for a schema: names become positions, literals become scalars of the type they are
compared in. What is left for each batch is a few calls of Arrow's kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.literals import LOCAL, MOMENT, fits, fitting_scalar
from lakeport.errors import UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.arrays import FALSE, TRUE, array_of, decimal_type, null_of, own_scalar
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
    format_expression,
)

Datum = Any  # pa.Array | pa.Scalar

_NULL = null_of(pa.bool_())

_KERNELS: dict[CompareOp, Callable[[Datum, Datum], Datum]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class _Wild(Enum):
    """What is not text in a pattern, by its regular expression."""

    ANY = ".*"
    ONE = "."


_WILDCARDS: dict[str, str | _Wild] = {"%": _Wild.ANY, "_": _Wild.ONE}


class ArrowExpressions:
    """The `ExpressionHandler` for bound expressions (`kernel.binding.bind`); it holds no state."""

    def evaluator(self, schema: pa.Schema, expression: Expression) -> Callable[[pa.RecordBatch], pa.Array]:
        """A function from batches of `schema` to one column of values.

        Raises `UnsupportedExpressionError`, and `UnknownColumnError` for a column that the schema lacks.
        """
        node = _compile_whole(expression, schema)
        return lambda batch: _array(node.run(batch), batch.num_rows)

    def predicate_evaluator(
        self, schema: pa.Schema, predicate: Expression
    ) -> Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]:
        """A function that narrows a selection to the rows in which the predicate is true: neither false nor null."""
        node = _condition(_compile_whole(predicate, schema), predicate)

        def select(batch: pa.RecordBatch, selection: pa.BooleanArray | None) -> pa.BooleanArray:
            matches = _array(node.run(batch), batch.num_rows)
            if selection is not None:
                matches = pc.and_kleene(matches, selection)
            return pc.fill_null(matches, FALSE) if matches.null_count else matches

        return select


@dataclass(frozen=True, slots=True)
class _Node:
    """A compiled expression: the type of its result, and how a batch gives it; a constant gives a scalar."""

    type: pa.DataType
    run: Callable[[pa.RecordBatch], Datum]


def _array(datum: Datum, length: int) -> pa.Array:
    return pa.repeat(datum, length) if isinstance(datum, pa.Scalar) else datum


def _constant(scalar: pa.Scalar) -> _Node:
    return _Node(scalar.type, lambda _: scalar)


def _compile_whole(expression: Expression, schema: pa.Schema) -> _Node:
    try:
        return _compile(expression, schema)
    except RecursionError:
        raise UnsupportedExpressionError("the filter is nested too deeply") from None


def _compile(expression: Expression, schema: pa.Schema) -> _Node:
    match expression:
        case Column(path):
            return _column(path, schema)
        case Literal(value):
            return _constant(_own_literal(value))
        case Comparison(op, left, right):
            return _comparison(op, left, right, schema)
        case And(left, right):
            return _connective(pc.and_kleene, left, right, schema)
        case Or(left, right):
            return _connective(pc.or_kleene, left, right, schema)
        case Not(child):
            inner = _condition(_compile(child, schema), child)
            return _Node(pa.bool_(), lambda batch: pc.invert(inner.run(batch)))
        case IsNull(child):
            tested = _compile(child, schema)
            return _Node(pa.bool_(), lambda batch: pc.is_null(tested.run(batch)))
        case In(child, values):
            return _membership(child, values, schema)
        case Like(child, pattern):
            return _like(_compile(child, schema), pattern)
    raise UnsupportedExpressionError(f"this engine cannot evaluate {expression!r}")


def _own_literal(value: Any) -> pa.Scalar:
    try:
        return own_scalar(value)
    except TypeError as error:
        raise UnsupportedExpressionError(f"this engine cannot use {value!r} as a literal: {error}") from error


def _column(path: tuple[str, ...], schema: pa.Schema) -> _Node:
    indices: list[int] = []
    parent: Any = schema
    for name in path:
        index = parent.get_field_index(name) if isinstance(parent, pa.Schema | pa.StructType) else -1
        if index < 0:
            dotted = ".".join(path)
            raise UnknownColumnError(f"unknown column {dotted!r}: the batches have no {name!r}", column=dotted)
        indices.append(index)
        parent = parent.field(index).type
    top, inner = indices[0], indices[1:]
    if not inner:
        return _Node(parent, lambda batch: batch.column(top))
    # Unlike StructArray.field, struct_field makes a value null where a struct around it is.
    return _Node(parent, lambda batch: pc.struct_field(batch.column(top), inner))


def _condition(node: _Node, expression: Expression) -> _Node:
    if types.is_boolean(node.type):
        return node
    if types.is_null(node.type):
        return _constant(_NULL)
    raise UnsupportedExpressionError(f"{format_expression(expression)} is not a condition: it is {node.type}")


def _connective(
    kernel: Callable[[Datum, Datum], Datum], left: Expression, right: Expression, schema: pa.Schema
) -> _Node:
    a, b = _condition(_compile(left, schema), left), _condition(_compile(right, schema), right)
    return _Node(pa.bool_(), lambda batch: kernel(a.run(batch), b.run(batch)))


def _comparison(op: CompareOp, left: Expression, right: Expression, schema: pa.Schema) -> _Node:
    a, b = _operands(left, right, schema)
    if op == "<=>":
        return _Node(pa.bool_(), lambda batch: _equal_null_safe(a.run(batch), b.run(batch)))
    kernel = _KERNELS[op]
    return _Node(pa.bool_(), lambda batch: kernel(a.run(batch), b.run(batch)))


def _equal_null_safe(left: Datum, right: Datum) -> Datum:
    return pc.coalesce(pc.equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))


def _operands(left: Expression, right: Expression, schema: pa.Schema) -> tuple[_Node, _Node]:
    """Both sides, in one type in which every value of each is itself."""
    a = None if isinstance(left, Literal) else _compile(left, schema)
    b = None if isinstance(right, Literal) else _compile(right, schema)
    a, b = a or _literal(left, b), b or _literal(right, a)
    shared = _shared_type(a.type, b.type)
    return _cast(a, shared), _cast(b, shared)


def _literal(expression: Expression, beside: _Node | None) -> _Node:
    """A literal, in the type of the other side if it is a value of it."""
    value = expression.value if isinstance(expression, Literal) else None
    scalar = None if beside is None else fitting_scalar(value, beside.type)
    return _constant(_own_literal(value) if scalar is None else scalar)


def _cast(node: _Node, target: pa.DataType) -> _Node:
    if node.type == target:
        return node
    # Unsafe only in that a long or a decimal may round to the nearest double, as it does in Spark.
    options = pc.CastOptions.unsafe(target) if types.is_floating(target) else pc.CastOptions.safe(target)
    return _Node(target, lambda batch: pc.cast(node.run(batch), options=options))


def _shared_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    both = (left, right)
    if all(map(types.is_null, both)):
        return pa.bool_()
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if all(map(types.is_integer, both)):
        return pa.int64()
    if all(map(_is_number, both)):
        return pa.float64() if any(map(types.is_floating, both)) else _shared_decimal(left, right)
    if all(types.is_date(t) or types.is_timestamp(t) for t in both):
        return MOMENT if any(types.is_timestamp(t) and t.tz is not None for t in both) else LOCAL
    if all(map(_is_text, both)):
        return pa.large_binary()
    raise UnsupportedExpressionError(f"this engine cannot compare {left} with {right}")


def _is_number(data_type: pa.DataType) -> bool:
    return bool(types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type))


def _is_text(data_type: pa.DataType) -> bool:
    return data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _shared_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    (a, a_scale), (b, b_scale) = _digits(left), _digits(right)
    scale = max(a_scale, b_scale)
    precision = max(a, b) + scale
    if precision > 76:
        raise UnsupportedExpressionError(f"this engine cannot compare {left} with {right} exactly")
    return decimal_type(precision, scale)


def _digits(data_type: pa.DataType) -> tuple[int, int]:
    """Before and after the point."""
    if types.is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    return len(str(2**data_type.bit_width)), 0


def _membership(child: Expression, values: tuple[Expression, ...], schema: pa.Schema) -> _Node:
    node = _compile(child, schema)
    if not values:
        return _constant(FALSE)
    known = [value.value for value in values if isinstance(value, Literal) and value.value is not None]
    has_null = any(isinstance(value, Literal) and value.value is None for value in values)
    fit = all(fits(value, node.type) for value in known)
    if isinstance(child, Literal) or not fit or len(known) + has_null < len(values):
        return _compile(chain(Or, [Comparison("=", child, value) for value in values]), schema)
    value_set = array_of(_as_set(known), node.type)
    return _Node(pa.bool_(), lambda batch: _is_in(node.run(batch), value_set, has_null))


def _as_set(values: list[Any]) -> list[Any]:
    """is_in compares bits: NaN would be found, and only one of the two zeros."""
    if any(isinstance(value, float) and value == 0 for value in values):
        values = [*values, 0.0, -0.0]
    return [value for value in values if value == value]


def _is_in(array: pa.Array, value_set: pa.Array, has_null: bool) -> pa.BooleanArray:
    found = pc.is_in(array, value_set=value_set)
    if has_null:
        return pc.if_else(found, TRUE, _NULL)
    return pc.if_else(pc.is_valid(array), found, _NULL) if array.null_count else found


def _like(node: _Node, pattern: str) -> _Node:
    if types.is_null(node.type):
        return _constant(_NULL)
    if node.type not in (pa.string(), pa.large_string()):
        raise UnsupportedExpressionError(f"this engine cannot match {node.type} with LIKE")
    matches = _matcher(pattern)
    return _Node(pa.bool_(), lambda batch: matches(node.run(batch)))


def _matcher(pattern: str) -> Callable[[Datum], Datum]:
    """Arrow's own LIKE is not used: it does not take an escaped backslash for one."""
    parts = _parse_pattern(pattern)
    text = "".join(part for part in parts if not isinstance(part, _Wild))
    match [part if isinstance(part, _Wild) else "" for part in parts]:
        case [] | [""]:
            whole = own_scalar(text)
            return lambda array: pc.equal(array, whole)
        case [_Wild.ANY] | ["", _Wild.ANY]:
            return lambda array: pc.starts_with(array, text)
        case [_Wild.ANY, ""]:
            return lambda array: pc.ends_with(array, text)
        case [_Wild.ANY, "", _Wild.ANY]:
            return lambda array: pc.match_substring(array, text)
    regex = "(?s)\\A" + "".join(part.value if isinstance(part, _Wild) else re.escape(part) for part in parts) + "\\z"
    try:
        pc.match_substring_regex(own_scalar(""), regex)
    except pa.ArrowInvalid as error:
        raise UnsupportedExpressionError(f"the pattern {pattern[:50]!r} is too long to match: {error}") from error
    return lambda array: pc.match_substring_regex(array, regex)


def _parse_pattern(pattern: str) -> list[str | _Wild]:
    """The pattern as text and wildcards, where two texts are never next to each other, nor two `%`."""
    parts: list[str | _Wild] = []
    characters = iter(pattern)
    for char in characters:
        part = _WILDCARDS.get(char, char)
        if char == "\\":
            part = next(characters, "")
            if not part:
                raise UnsupportedExpressionError(f"the pattern {pattern[-50:]!r} ends in an escape")
        last = parts[-1] if parts else None
        if isinstance(part, str) and isinstance(last, str):
            parts[-1] = last + part
        elif not (part is last is _Wild.ANY):
            parts.append(part)
    return parts
