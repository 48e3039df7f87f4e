"""Bind values to a schema: resolve names and make each of Spark's implicit conversions a `Cast` in the tree.

In a bound value, operands of arithmetic share one type, except decimals, whose result type is `decimal_result`;
branches of a CASE share one type, except NULL; and function arguments have the parameter types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions.functions import DATE_UNITS, FORMAT_LETTERS, FUNCTIONS, UNITS, Kind, constant_of
from lakeport.kernel.expressions.literals import place_literal
from lakeport.kernel.expressions.tree import (
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    format_expression,
    rewrite,
)
from lakeport.kernel.expressions.value_types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MOMENTS,
    STRING,
    TIMESTAMP,
    arithmetic_types,
    common_type,
    decimal_of,
    digits_of,
    is_assignable,
    is_castable,
    is_integer,
    is_number,
    literal_digits,
    literal_type,
    parse_type_name,
)
from lakeport.kernel.schema import VOID, DataType, PrimitiveType, StructType, format_type, same_shape
from lakeport.kernel.values import from_datetime64

Typed = tuple[Expression, DataType]
"""A bound value and its type."""

_DAY = 24 * 60 * 60 * 1_000_000
"""In microseconds."""


def type_of(bound: Expression, schema: StructType) -> DataType:
    """The type of a bound value, or of a bound filter: boolean. `void` if it is always NULL."""
    match bound:
        case Column(path):
            return schema.resolve(path)[-1].type
        case Literal(value):
            return literal_type(value)
        case Cast(_, name):
            return PrimitiveType(name)
        case Arithmetic(op, left, right):
            types = arithmetic_types(op, type_of(left, schema), type_of(right, schema))
            assert types is not None, "a bound value has a type"
            return types[2]
        case Case(branches, default):
            return _first_known([type_of(value, schema) for value in (*(then for _, then in branches), default)])
        case Call(name, args):
            return FUNCTIONS[name].result_type([type_of(arg, schema) for arg in args], args)
    return BOOLEAN


def _first_known(types: Sequence[DataType]) -> DataType:
    return next((data_type for data_type in types if data_type != VOID), VOID)


class ValueBinder:
    """Binds to one schema; `bind_predicate` binds the conditions inside values."""

    def __init__(self, schema: StructType, bind_predicate: Callable[[Expression], Expression]) -> None:
        self._schema, self._bind_predicate = schema, bind_predicate

    def bind(self, expression: Expression) -> Typed:
        """Raises `UnknownColumnError`, and `InvalidFilterError` for incompatible types."""
        match expression:
            case Column(path):
                fields = self._schema.resolve(path)
                return Column(tuple(f.name for f in fields)), fields[-1].type
            case Literal(value):
                return Literal(plain(value)), literal_type(plain(value))
            case Arithmetic(op, left, right):
                return _arithmetic(op, self.bind(left), self.bind(right))
            case Cast(child, name):
                return _explicit_cast(self.bind(child), parse_type_name(name))
            case Case(branches, default):
                return self._case(branches, default)
            case Call(name, args):
                return _call(name, [self.bind(arg) for arg in args])
        return self._bind_predicate(expression), BOOLEAN

    def _case(self, branches: tuple[tuple[Expression, Expression], ...], default: Expression) -> Typed:
        conditions = [self._bind_predicate(when) for when, _ in branches]
        values, data_type = _alike([*(self.bind(then) for _, then in branches), self.bind(default)], "CASE")
        return Case(tuple(zip(conditions, values, strict=False)), values[-1]), data_type


def convert(value: Typed, target: DataType, where: str = "") -> Expression:
    """Convert to `target` where no CAST is needed: by Spark's store assignment, with literal text parsed as the type.
    Raises `InvalidFilterError` naming the types that do not fit."""
    bound, source = value
    if same_shape(source, target):
        return bound
    if isinstance(bound, Literal) and isinstance(bound.value, str) and isinstance(target, PrimitiveType):
        return _placed_text(bound.value, target)
    if not is_assignable(source, target):
        raise InvalidFilterError(
            f"{_text(bound)} is {format_type(source)}, but {format_type(target)} is needed{where}; use CAST"
        )
    return Cast(bound, target.name) if isinstance(target, PrimitiveType) else bound


def _placed_text(text: str, target: PrimitiveType) -> Expression:
    try:
        value, place = place_literal(text, target)
        if place != "at":
            raise ValueError("no value of the type is equal to it")
    except (ValueError, OverflowError) as error:
        raise InvalidFilterError(f"{_text(Literal(text))} cannot be {target.name}: {error}") from error
    return Literal(value) if literal_type(value) == target else Cast(Literal(value), target.name)


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python. Raises `InvalidFilterError` for a time finer than a microsecond."""
    if isinstance(value, np.datetime64):
        try:
            return from_datetime64(value)
        except (ValueError, OverflowError) as error:
            raise InvalidFilterError(f"{value} cannot be a literal: {error}") from error
    return value.item() if hasattr(value, "item") else value


def as_written(bound: Expression) -> Expression:
    """Undo the typing of literals by binding, for messages."""
    return rewrite(bound, lambda node: node.child if _is_typed_literal(node) else node)


def _is_typed_literal(node: Expression) -> TypeGuard[Cast]:
    return isinstance(node, Cast) and isinstance(node.child, Literal)


def _text(expression: Expression) -> str:
    return format_expression(as_written(expression))


def _explicit_cast(value: Typed, target: PrimitiveType) -> Typed:
    bound, source = value
    if source == target:
        return value
    if not is_castable(source, target):
        raise InvalidFilterError(f"{_text(bound)} is {format_type(source)} and cannot be cast to {target.name}")
    return Cast(bound, target.name), target


def _alike(values: list[Typed], where: str) -> tuple[list[Expression], DataType]:
    """Convert the values to their common type; literal text takes the type of the others."""
    deciding = [data_type for bound, data_type in values if not _is_text(bound)] or [STRING]
    shared: DataType | None = VOID
    for data_type in deciding:
        shared = None if shared is None else common_type(shared, data_type)
    if shared is None:
        names = ", ".join(dict.fromkeys(map(format_type, deciding)))
        raise InvalidFilterError(f"the values of {where} have no type in common: {names}")
    if shared == VOID and len(deciding) < len(values):
        shared = STRING
    return [convert(value, shared) for value in values], shared


def _is_text(bound: Expression) -> bool:
    return isinstance(bound, Literal) and isinstance(bound.value, str)


def _arithmetic(op: ArithmeticOp, left: Typed, right: Typed) -> Typed:
    if (shifted := _shifted_date(op, left, right)) is not None:
        return shifted
    types = arithmetic_types(op, _exact_type(*left, right[1]), _exact_type(*right, left[1]))
    if types is None:
        hint = "; use datediff for the days between two dates" if left[1] == right[1] == DATE else ""
        raise InvalidFilterError(
            f"cannot compute {format_type(left[1])} {op} {format_type(right[1])}: "
            f"{_text(Arithmetic(op, left[0], right[0]))}{hint}"
        )
    return Arithmetic(op, convert(left, types[0]), convert(right, types[1])), types[2]


def _exact_type(bound: Expression, data_type: DataType, other: DataType) -> DataType:
    """An integer literal beside a decimal has only as many digits as written."""
    if isinstance(bound, Literal) and is_integer(data_type) and not is_integer(other) and digits_of(other):
        return decimal_of(*literal_digits(bound.value))
    return data_type


def _shifted_date(op: ArithmeticOp, left: Typed, right: Typed) -> Typed | None:
    """A date plus or minus a number of days."""
    if op == "+" and right[1] == DATE:
        left, right = right, left
    if op not in "+-" or left[1] != DATE or not (is_integer(right[1]) or right[1] == VOID):
        return None
    return Call("date_add" if op == "+" else "date_sub", (left[0], convert(right, INTEGER))), DATE


def _call(name: str, args: list[Typed]) -> Typed:
    function = FUNCTIONS.get(name)
    if function is None:
        raise InvalidFilterError(f"unknown function {name}; use one of {', '.join(sorted(FUNCTIONS))}")
    if not function.accepts(len(args)):
        raise InvalidFilterError(f"{name} does not take {len(args)} arguments")
    if name == "add_time" and args[0][1] == DATE:
        return _date_plus_time(*args)
    kinds = function.kinds(len(args))
    if "alike" in kinds:
        bound, shared = _alike(args, name)
        return Call(name, tuple(bound)), shared
    if "joined" in kinds:
        all_binary = all(data_type == BINARY for _, data_type in args)
        kinds = (BINARY if all_binary else STRING,) * len(args)
    typed = [_argument(arg, kind, name) for arg, kind in zip(args, kinds, strict=True)]
    bound = [part for part, _ in typed]
    return Call(name, tuple(bound)), function.result_type([data_type for _, data_type in typed], bound)


def _date_plus_time(day: Typed, micros: Typed) -> Typed:
    days, rest = divmod(constant_of(micros[0]), _DAY)
    if rest:
        return _call("add_time", [(convert(day, TIMESTAMP), TIMESTAMP), micros])
    return _call("date_add", [day, (Literal(days), INTEGER)])


def _argument(arg: Typed, kind: Kind, name: str) -> Typed:
    bound, data_type = arg
    match kind:
        case PrimitiveType():
            return convert(arg, kind, f" in {name}"), kind
        case "number":
            number = DOUBLE if data_type == VOID or _is_text(bound) else data_type
            if not is_number(number):
                raise InvalidFilterError(f"{name} takes a number, but {_text(bound)} is {format_type(data_type)}")
            return convert(arg, number), number
        case "moment":
            moment = data_type if data_type in MOMENTS else TIMESTAMP
            return convert(arg, moment, f" in {name}"), moment
        case "text":
            text = BINARY if data_type == BINARY else STRING
            return convert(arg, text, f" in {name}"), text
        case "constant":
            return Literal(constant_of(bound)), data_type
        case "unit":
            return Literal(_unit(bound, name)), STRING
    return Literal(_format(bound)), STRING


def _unit(bound: Expression, name: str) -> str:
    unit = UNITS.get(bound.value.lower()) if isinstance(bound, Literal) and isinstance(bound.value, str) else None
    known = sorted(DATE_UNITS if name == "trunc" else set(UNITS.values()))
    if unit not in known:
        raise InvalidFilterError(f"{_text(bound)} is not a unit of time for {name}; use one of {', '.join(known)}")
    return unit


def _format(bound: Expression) -> str:
    pattern = bound.value if isinstance(bound, Literal) and isinstance(bound.value, str) else ""
    letters = re.findall("[A-Za-z']+", pattern)
    if not pattern or not set(letters) <= set(FORMAT_LETTERS):
        raise InvalidFilterError(
            f"{_text(bound)} is not a format for date_format: write it in quotes, with {', '.join(FORMAT_LETTERS)}"
        )
    return pattern
