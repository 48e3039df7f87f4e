"""Translation of Arrow's filters into the kernel's.

An Arrow expression can be inspected only as text. So the parsed text is built again as an Arrow expression, and used
only if Arrow finds the two equal.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.expressions import Column, CompareOp, Comparison, Expression, In, IsNull, Literal, Not
from lakeport.kernel.values import array_of, null_of, scalar_of

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[(),]|[^\s(),"]+)', re.DOTALL)
_OPERATORS: dict[str, CompareOp] = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse_arrow_filter(filter: pc.Expression, schema: pa.Schema) -> Expression | None:
    """Translate a filter over the columns of a schema; return None if it is not supported. Supported are comparisons
    with a constant, IN, null tests, and AND and OR of these."""
    parser = _Parser(_text_of(filter) or "", schema)
    try:
        read = parser.node()
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, SyntaxError, RecursionError):
        return None
    return read.ours if parser.is_at_end and read.arrow.equals(filter) else None


def columns_in_arrow_filter(filter: pc.Expression | None, schema: pa.Schema) -> list[str]:
    """The columns that the filter may read: all whose names occur in its text."""
    text = "" if filter is None else _text_of(filter)
    return schema.names if text is None else [name for name in schema.names if name in text]


def _text_of(filter: pc.Expression) -> str | None:
    """None if Arrow cuts a long list in the middle of a character."""
    try:
        return str(filter)
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True)
class _Read:
    """A parsed part of the text, as the kernel's expression and as Arrow's."""

    ours: Expression
    arrow: pc.Expression


class _Parser:
    """Its methods raise `ValueError` and other errors for unsupported text."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._tokens = _TOKEN.findall(text)
        self._schema = schema
        self._next = 0

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._tokens)

    def node(self) -> _Read:
        match self._peek(0), self._peek(1):
            case "is_valid", "(":
                return self._valid()
            case "is_null", "(":
                return self._null()
            case "if_else", "(":
                return self._in()
            case "(", "(" | "is_valid" | "is_null" | "if_else":
                return self._pair()
            case _:
                return self._comparison()

    def _pair(self) -> _Read:
        self._expect("(")
        left, word, right = self.node(), self._take(), self.node()
        self._expect(")")
        if word == "and":
            return _Read(left.ours & right.ours, left.arrow & right.arrow)
        if word == "or":
            return _Read(left.ours | right.ours, left.arrow | right.arrow)
        raise ValueError(word)

    def _comparison(self) -> _Read:
        self._expect("(")
        field, operator = self._field(), self._take()
        constant = _value(self._until(")"), field.type)
        arrow = _ARROW[operator](pc.field(field.name), pc.scalar(scalar_of(constant, field.type)))
        return _Read(Comparison(_OPERATORS[operator], Column((field.name,)), Literal(constant)), arrow)

    def _valid(self) -> _Read:
        self._expect("is_valid", "(")
        field = self._field()
        self._expect(")")
        return _Read(Not(IsNull(Column((field.name,)))), pc.field(field.name).is_valid())

    def _null(self) -> _Read:
        self._expect("is_null", "(")
        field = self._field()
        self._expect(",", "{nan_is_null=false}", ")")
        return _Read(IsNull(Column((field.name,))), pc.field(field.name).is_null())

    def _in(self) -> _Read:
        """`if_else(is_valid(a), is_in(a, {value_set=int64:[1, 2], null_matching_behavior=MATCH}), null[bool])`"""
        self._expect("if_else", "(", "is_valid", "(")
        field = self._field()
        self._expect(")", ",", "is_in", "(")
        self._field()
        self._expect(",")
        values = [_value(text, field.type) for text in self._set()]
        self._expect(",", "null_matching_behavior=MATCH}", ")", ",", "null[bool]", ")")
        column = pc.field(field.name)
        options = pc.SetLookupOptions(value_set=array_of(values, field.type), skip_nulls=False)
        found = pc.is_in(column, options=options)
        arrow = pc.if_else(column.is_valid(), found, pc.scalar(null_of(pa.bool_())))
        return _Read(In(Column((field.name,)), tuple(map(Literal, values))), arrow)

    def _set(self) -> list[str]:
        """The values between brackets. Arrow abbreviates long lists; the final comparison then fails."""
        while not self._take().endswith(":["):  # the type, which may contain commas
            pass
        values = [self._until(",", "]")]
        while self._tokens[self._next - 1] == ",":
            values.append(self._until(",", "]"))
        return values

    def _field(self) -> pa.Field:
        name = self._take()
        if self._schema.names.count(name) != 1:
            raise ValueError(name)
        return self._schema.field(name)

    def _until(self, *ends: str) -> str:
        parts = [self._take()]
        while self._peek(0) not in ends:
            parts.append(self._take())
        self._take()
        return " ".join(parts)

    def _peek(self, ahead: int) -> str:
        return self._tokens[self._next + ahead] if self._next + ahead < len(self._tokens) else ""

    def _take(self) -> str:
        token: str = self._tokens[self._next]
        self._next += 1
        return token

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if self._take() != token:
                raise ValueError(token)


_ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _value(text: str, data_type: pa.DataType) -> Any:
    """Parse a constant as Arrow writes it. Raises `ValueError` for types that Arrow and others may order differently,
    such as floats."""
    types = pa.types
    if types.is_signed_integer(data_type):
        return int(text)
    if types.is_string(data_type):
        return literal_eval(text)  # Arrow escapes text as C does
    if types.is_date32(data_type):
        return date.fromisoformat(text)
    if types.is_timestamp(data_type):
        return datetime.fromisoformat(text)
    if types.is_decimal(data_type):
        return Decimal(text)
    raise ValueError(str(data_type))
