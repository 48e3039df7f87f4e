"""Expressions in plain Python, row by row. What it does not know it refuses, as any engine may."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from lakeport.errors import InvalidDataError, UnknownColumnError, UnsupportedExpressionError
from lakeport.kernel.expressions import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    children,
    type_of,
)
from lakeport.kernel.schema import PrimitiveType, arrow_type, schema_from_arrow
from lakeport.testing import by_row

Row = dict[str, Any]
Value = Callable[[Row], Any]
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)


class RowExpressions:
    """An `ExpressionHandler` without any of Arrow's functions."""

    def evaluator(self, schema: pa.Schema, expression: Expression) -> Callable[[pa.RecordBatch], pa.Array]:
        value, kind = _compiled(expression, schema), _type_of(expression, schema)
        return lambda batch: pa.array(map(_told(value), _rows(batch)), kind)

    def predicate_evaluator(
        self, schema: pa.Schema, predicate: Expression
    ) -> Callable[[pa.RecordBatch, pa.BooleanArray | None], pa.BooleanArray]:
        matches = _told(_compiled(predicate, schema))

        def select(batch: pa.RecordBatch, selection: pa.BooleanArray | None) -> pa.BooleanArray:
            before = [True] * batch.num_rows if selection is None else selection.to_pylist()
            found = zip(before, _rows(batch), strict=True)
            return pa.array([was is True and matches(row) is True for was, row in found], pa.bool_())

        return select


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return batch.to_pylist() if batch.num_columns else [{}] * batch.num_rows


def _told(value: Value) -> Value:
    def run(row: Row) -> Any:
        try:
            return value(row)
        except (ValueError, ArithmeticError) as error:
            raise InvalidDataError(f"the value cannot be computed: {error}") from error

    return run


def _compiled(expression: Expression, schema: pa.Schema) -> Value:
    """A function from a row to the value. It evaluates no more than the row needs."""
    match expression:
        case Literal():
            return lambda row: by_row(expression, row)
        case Column(path):
            _field(schema, path)
            return lambda row: by_row(expression, row)
        case Comparison(op):
            return _of_values(expression, schema, lambda a, b: by_row(Comparison(op, Literal(a), Literal(b)), {}))
        case In():
            return _of_values(expression, schema, lambda a, *s: by_row(In(Literal(a), tuple(map(Literal, s))), {}))
        case Like(_, pattern):
            return _of_values(expression, schema, lambda a: by_row(Like(Literal(a), pattern), {}))
        case Not() | IsNull():
            return _of_values(expression, schema, lambda a: by_row(type(expression)(Literal(a)), {}))
        case And() | Or():
            return _connected(expression, schema)
        case Case(branches, default):
            choices = [(_compiled(when, schema), _compiled(then, schema)) for when, then in branches]
            otherwise = _compiled(default, schema)
            return lambda row: next((then for when, then in choices if when(row) is True), otherwise)(row)
        case Call("coalesce", args):
            values = [_compiled(arg, schema) for arg in args]
            return lambda row: next((found for value in values if (found := value(row)) is not None), None)
        case Arithmetic() | Cast() | Call():
            return _computed(expression, schema)
    raise UnsupportedExpressionError(f"{type(expression).__name__} is not known")


def _of_values(expression: Expression, schema: pa.Schema, function: Callable[..., Any]) -> Value:
    parts = [_compiled(part, schema) for part in children(expression)]
    return lambda row: function(*(part(row) for part in parts))


def _connected(expression: And | Or, schema: pa.Schema) -> Value:
    left, right = _compiled(expression.left, schema), _compiled(expression.right, schema)
    decided = isinstance(expression, Or)

    def run(row: Row) -> Any:
        first = left(row)
        second = decided if first is decided else right(row)
        return by_row(type(expression)(Literal(first), Literal(second)), {})

    return run


def _computed(expression: Arithmetic | Cast | Call, schema: pa.Schema) -> Value:
    """Null if an argument is null."""
    kind = _type_of(expression, schema)
    match expression:
        case Arithmetic(op):
            function: Callable[..., Any] = _ARITHMETIC[op]
        case Cast(child):
            function = _cast(_type_of(child, schema), kind)
        case Call(name):
            if name not in _FUNCTIONS:
                raise UnsupportedExpressionError(f"the function {name} is not known")
            function = _FUNCTIONS[name]
    return _of_values(expression, schema, lambda *v: None if None in v else _fitting(function(*v), kind))


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """The value in the precision of a type. Raises `ValueError` if it is out of its range."""
    if types.is_integer(kind) and not -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1:
        raise ValueError(f"{value} does not fit {kind}")
    if types.is_decimal(kind):
        value = _EXACT.quantize(Decimal(value), Decimal(1).scaleb(-kind.scale))
        if len(value.as_tuple().digits) > kind.precision:
            raise ValueError(f"{value} does not fit {kind}")
    return struct.unpack("f", struct.pack("f", value))[0] if types.is_float32(kind) else value


def _divided(a: Any, b: Any) -> Any:
    return _EXACT.divide(a, b) if isinstance(a, Decimal) else a / b


def _remainder(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return math.fmod(a, b)
    return _EXACT.remainder(a, b) if isinstance(a, Decimal) else a - b * _whole(a, b)


def _whole(a: Any, b: Any) -> int:
    quotient = abs(a) // abs(b)
    return int(quotient if (a < 0) == (b < 0) else -quotient)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": _remainder,
    "div": _whole,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "concat": lambda *texts: "".join(texts),
    "abs": abs,
    "negative": operator.neg,
    "year": lambda day: day.year,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "date_add": lambda day, days: day + timedelta(days),
    "date_sub": lambda day, days: day - timedelta(days),
    "datediff": lambda end, start: (end - start).days,
}


def _cast(source: pa.DataType, target: pa.DataType) -> Callable[[Any], Any]:
    is_text, is_day = types.is_string(source), types.is_date(source)
    is_number = types.is_integer(source) or types.is_floating(source) or types.is_decimal(source)
    if source == target or types.is_null(source):
        return lambda value: value
    if types.is_integer(target) and (is_number or is_text):
        return int
    if types.is_floating(target) and (is_number or is_text):
        return float
    if types.is_decimal(target) and (is_number or is_text):
        return lambda value: Decimal(str(value))
    if types.is_string(target) and (types.is_integer(source) or is_day):
        return str
    if types.is_date(target) and is_text:
        return date.fromisoformat
    if types.is_timestamp(target) and is_day:
        return lambda day: datetime.combine(day, time(), UTC if target.tz else None)
    raise UnsupportedExpressionError(f"{source} cannot be cast to {target}")


def _type_of(expression: Expression, schema: pa.Schema) -> pa.DataType:
    match expression:
        case Column(path):
            return _field(schema, path)
        case Literal() | Arithmetic() | Cast() | Case() | Call():
            found = type_of(expression, schema_from_arrow(schema))
            assert isinstance(found, PrimitiveType)
            return arrow_type(found)
    return pa.bool_()


def _field(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    kind = pa.struct(list(schema))
    for name in path:
        if not types.is_struct(kind) or kind.get_field_index(name) < 0:
            raise UnknownColumnError("no such column", column=".".join(path))
        kind = kind.field(name).type
    return kind
