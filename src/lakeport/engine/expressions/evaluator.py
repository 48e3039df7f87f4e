"""Evaluate expressions over Arrow batches with `pyarrow.compute`.

An expression is compiled once per schema: names become positions, literals become scalars of the type they are compared
in. Each batch then takes a few calls of Arrow kernels.

Expressions that can fail for a row (see `Node.total`) are evaluated only for rows that need them: a CASE branch where
its condition is true, the right side of AND where the left is not false, a filter where the row is still selected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.expressions.arithmetic import arithmetic
from lakeport.engine.expressions.casts import caster, to_float
from lakeport.engine.expressions.functions import function_kernel
from lakeport.engine.expressions.literals import LOCAL, MOMENT, fits, fitting_scalar, own_literal
from lakeport.engine.expressions.nodes import (
    Datum,
    Node,
    Rows,
    all_positions,
    applied,
    as_array,
    constant,
    merged,
    run_for,
    split_positions,
)
from lakeport.engine.expressions.patterns import matcher
from lakeport.errors import UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.expressions import (
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
    format_expression,
)
from lakeport.kernel.schema import PrimitiveType, arrow_type
from lakeport.kernel.values import FALSE, TRUE, array_of, decimal_type, is_number, null_of

_NULL = null_of(pa.bool_())

_KERNELS: dict[CompareOp, Callable[[Datum, Datum], Datum]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class ArrowExpressions:
    """The `ExpressionHandler` for bound expressions (`kernel.expressions.bind`); stateless."""

    def evaluator(self, schema: pa.Schema, expression: Expression) -> Callable[[pa.RecordBatch], pa.Array]:
        """A function from batches of `schema` to a column of values.

        Raises `UnsupportedExpressionError`, and `UnknownColumnError` for a column that the schema lacks.
        """
        node = _compile_whole(expression, schema)
        return lambda batch: as_array(node.run(batch), batch.num_rows)

    def predicate_evaluator(
        self, schema: pa.Schema, predicate: Expression
    ) -> Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]:
        """A function that narrows a selection to the rows where the predicate is true, not false or null."""
        node = _condition(_compile_whole(predicate, schema), predicate)

        def select(batch: pa.RecordBatch, selection: pa.BooleanArray | None) -> pa.BooleanArray:
            if selection is not None and not node.total:
                matches = _where_undecided(node, batch, selection, FALSE)
            else:
                matches = as_array(node.run(batch), batch.num_rows)
                if selection is not None:
                    matches = pc.and_kleene(matches, selection)
            return pc.fill_null(matches, FALSE) if matches.null_count else matches

        return select


def _compile_whole(expression: Expression, schema: pa.Schema) -> Node:
    try:
        return _compile(expression, schema)
    except RecursionError:
        raise UnsupportedExpressionError("the filter is nested too deeply") from None


def _compile(expression: Expression, schema: pa.Schema) -> Node:
    match expression:
        case Column(path):
            return _column(path, schema)
        case Literal(value):
            return constant(own_literal(value))
        case Comparison(op, left, right):
            return _comparison(op, left, right, schema)
        case And() | Or():
            return _connective(expression, schema)
        case Not(child):
            inner = _condition(_compile(child, schema), child)
            return Node(pa.bool_(), lambda rows: pc.invert(inner.run(rows)), inner.total)
        case IsNull(child):
            tested = _compile(child, schema)
            return Node(pa.bool_(), lambda rows: pc.is_null(tested.run(rows)), tested.total)
        case In(child, values):
            return _membership(child, values, schema)
        case Like(child, pattern):
            return _like(_compile(child, schema), pattern)
        case Arithmetic(op, left, right):
            a, b = _compile(left, schema), _compile(right, schema)
            kernel, data_type, total = arithmetic(op, a.type, b.type)
            return applied(kernel, [a, b], data_type, expression, total=total)
        case Cast(child, name):
            return _cast(_compile(child, schema), PrimitiveType(name), expression)
        case Case(branches, default):
            return _case(branches, default, schema)
        case Call("coalesce", args):
            return _coalesce(args, schema)
        case Call():
            return _call(expression, schema)
    raise UnsupportedExpressionError(f"this engine cannot evaluate {expression!r}")


def _column(path: tuple[str, ...], schema: pa.Schema) -> Node:
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
        return Node(parent, lambda rows: rows.column(top))
    # Unlike StructArray.field, struct_field gives null where an enclosing struct is null.
    return Node(parent, lambda rows: pc.struct_field(rows.column(top), inner))


def _condition(node: Node, expression: Expression) -> Node:
    if types.is_boolean(node.type):
        return node
    if types.is_null(node.type):
        return constant(_NULL)
    raise UnsupportedExpressionError(f"{format_expression(expression)} is not a condition: its type is {node.type}")


def _connective(expression: And | Or, schema: pa.Schema) -> Node:
    is_and = isinstance(expression, And)
    kernel, decided_by = (pc.and_kleene, FALSE) if is_and else (pc.or_kleene, TRUE)
    left = _condition(_compile(expression.left, schema), expression.left)
    right = _condition(_compile(expression.right, schema), expression.right)
    if right.total:
        return Node(pa.bool_(), lambda rows: kernel(left.run(rows), right.run(rows)), left.total)

    def run(rows: Rows) -> Datum:
        first = as_array(left.run(rows), rows.num_rows)
        undecided = pc.fill_null(first if is_and else pc.invert(first), TRUE)
        return kernel(first, _where_undecided(right, rows, undecided, decided_by))

    return Node(pa.bool_(), run, total=False)


def _where_undecided(node: Node, rows: Rows, undecided: pa.BooleanArray, other: pa.Scalar) -> pa.Array:
    """A condition where it is needed, and another value elsewhere."""
    needed, decided = split_positions(all_positions(rows), undecided)
    pieces = [(decided, pa.repeat(other, len(decided)))]
    if len(needed):
        pieces.append((needed, run_for(node, rows, needed)))
    return merged(pieces, pa.bool_())


def _case(branches: tuple[tuple[Expression, Expression], ...], default: Expression, schema: pa.Schema) -> Node:
    conditions = [_condition(_compile(when, schema), when) for when, _ in branches]
    values = [_compile(value, schema) for value in (*(then for _, then in branches), default)]
    data_type = _type_of_all(values)

    def run(rows: Rows) -> pa.Array:
        pieces, left = [], all_positions(rows)
        for condition, value in zip(conditions, values, strict=False):
            if len(left):
                taken, left = split_positions(left, run_for(condition, rows, left))
                if len(taken):
                    pieces.append((taken, run_for(value, rows, taken)))
        if len(left):
            pieces.append((left, run_for(values[-1], rows, left)))
        return merged(pieces, data_type)

    return Node(data_type, run, all(node.total for node in (*conditions, *values)))


def _coalesce(args: tuple[Expression, ...], schema: pa.Schema) -> Node:
    nodes = [_compile(arg, schema) for arg in args]
    data_type = _type_of_all(nodes)

    def run(rows: Rows) -> pa.Array:
        pieces, left = [], all_positions(rows)
        for node in nodes:
            if len(left):
                found = run_for(node, rows, left)
                valid = found.is_valid()
                taken, left = split_positions(left, valid)
                pieces.append((taken, found.filter(valid)))
        pieces.append((left, pa.nulls(len(left), data_type)))
        return merged(pieces, data_type)

    return Node(data_type, run, all(node.total for node in nodes))


def _type_of_all(nodes: list[Node]) -> pa.DataType:
    """The common type of bound values, ignoring those that are always null."""
    known = [node.type for node in nodes if not types.is_null(node.type)]
    for other in known[1:]:
        if other != known[0]:
            raise UnsupportedExpressionError(f"this engine has no common type for {known[0]} and {other}")
    return known[0] if known else pa.null()


def _cast(node: Node, target: PrimitiveType, expression: Expression) -> Node:
    kernel, total = caster(node.type, target)
    return applied(kernel, [node], arrow_type(target), expression, total=total)


def _call(expression: Call, schema: pa.Schema) -> Node:
    args = [_compile(arg, schema) for arg in expression.args]
    kernel, data_type, total = function_kernel(expression, [arg.type for arg in args])
    return applied(kernel, args, data_type, expression, total=total)


def _comparison(op: CompareOp, left: Expression, right: Expression, schema: pa.Schema) -> Node:
    a, b = _operands(left, right, schema)
    kernel = _equal_null_safe if op == "<=>" else _KERNELS[op]
    return Node(pa.bool_(), lambda rows: kernel(a.run(rows), b.run(rows)), a.total and b.total)


def _equal_null_safe(left: Datum, right: Datum) -> Datum:
    return pc.coalesce(pc.equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))


def _operands(left: Expression, right: Expression, schema: pa.Schema) -> tuple[Node, Node]:
    """Both sides, in a type that represents every value of each exactly."""
    a = None if isinstance(left, Literal) else _compile(left, schema)
    b = None if isinstance(right, Literal) else _compile(right, schema)
    a, b = a or _literal(left, b), b or _literal(right, a)
    shared = _shared_type(a.type, b.type)
    return _alike(a, left, shared), _alike(b, right, shared)


def _literal(expression: Expression, beside: Node | None) -> Node:
    """A literal, in the type of the other side if it is a value of it."""
    value = expression.value if isinstance(expression, Literal) else None
    scalar = None if beside is None else fitting_scalar(value, beside.type)
    return constant(own_literal(value) if scalar is None else scalar)


def _alike(node: Node, expression: Expression, target: pa.DataType) -> Node:
    """Cast to a type that holds each value; only a long or a decimal may be rounded to the nearest double."""
    if node.type == target:
        return node
    if types.is_floating(target):
        kernel = to_float(node.type, target)
        return Node(target, lambda rows: kernel(node.run(rows)), node.total)
    options = pc.CastOptions.safe(target)
    whole = Cast(expression, "timestamp")  # for other types, every value is one of the target
    return applied(lambda datum: pc.cast(datum, options=options), [node], target, whole, total=True)


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
    if all(map(is_number, both)):
        return pa.float64() if any(map(types.is_floating, both)) else _shared_decimal(left, right)
    if all(types.is_date(t) or types.is_timestamp(t) for t in both):
        return MOMENT if any(types.is_timestamp(t) and t.tz is not None for t in both) else LOCAL
    if all(map(_is_text, both)):
        return pa.large_binary()
    raise UnsupportedExpressionError(f"this engine cannot compare {left} with {right}")


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
    """Before and after the decimal point."""
    if types.is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    return len(str(2**data_type.bit_width)), 0


def _membership(child: Expression, values: tuple[Expression, ...], schema: pa.Schema) -> Node:
    node = _compile(child, schema)
    if not values:
        return constant(FALSE)
    known = [value.value for value in values if isinstance(value, Literal) and value.value is not None]
    has_null = any(isinstance(value, Literal) and value.value is None for value in values)
    fit = all(fits(value, node.type) for value in known)
    if isinstance(child, Literal) or not fit or len(known) + has_null < len(values):
        return _compile(chain(Or, [Comparison("=", child, value) for value in values]), schema)
    value_set = array_of(_as_set(known), node.type)
    return Node(
        pa.bool_(), lambda rows: _is_in(as_array(node.run(rows), rows.num_rows), value_set, has_null), node.total
    )


def _as_set(values: list[Any]) -> list[Any]:
    """is_in compares bits: it would find NaN, and only one of the two zeros."""
    if any(isinstance(value, float) and value == 0 for value in values):
        values = [*values, 0.0, -0.0]
    return [value for value in values if value == value]


def _is_in(array: pa.Array, value_set: pa.Array, has_null: bool) -> pa.BooleanArray:
    found = pc.is_in(array, value_set=value_set)
    if has_null:
        return pc.if_else(found, TRUE, _NULL)
    return pc.if_else(pc.is_valid(array), found, _NULL) if array.null_count else found


def _like(node: Node, pattern: str) -> Node:
    if types.is_null(node.type):
        return constant(_NULL)
    if node.type not in (pa.string(), pa.large_string()):
        raise UnsupportedExpressionError(f"this engine cannot match {node.type} with LIKE")
    matches = matcher(pattern)
    return Node(pa.bool_(), lambda rows: matches(node.run(rows)), node.total)
