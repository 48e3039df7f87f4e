"""Filters and values as SQL text, in Spark's dialect: `parse_filter("amount > 100 AND day = DATE '2026-01-01'")`.

    x = 1   x <> 1   x <= 1   x <=> NULL   x IN (1, 2)   x BETWEEN 1 AND 9   x IS NOT NULL   x IS DISTINCT FROM 1
    s LIKE 'a%'   s LIKE '10!%' ESCAPE '!'   startswith(s, 'a')   a.b = 1   `odd name` = 1   flag AND NOT (p OR q)
    a + b * 2   -a   a % 2   a div 2   s || 't'   CAST(a AS INT)   CASE WHEN a > 1 THEN b ELSE c END   upper(s)
    day + 7   at - INTERVAL 2 HOURS   EXTRACT(YEAR FROM day)   current_timestamp()

Literals: 1, 1.5 (a decimal), 1e3, 'text', "text", TRUE, NULL, X'41', DATE '…', TIMESTAMP '…', TIMESTAMP_NTZ '…' and
CAST(literal AS type). `functions` lists the functions. Anything else is rejected with its position.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions.functions import ALIASES, FUNCTIONS
from lakeport.kernel.expressions.literals import INTEGER_BITS, place_literal
from lakeport.kernel.expressions.simple_sql import parse_simple
from lakeport.kernel.expressions.sql_text import (
    Node,
    SqlText,
    describe,
    negated,
    parse_number,
    position_of,
    with_backslashes,
)
from lakeport.kernel.expressions.tree import (
    And,
    Arithmetic,
    ArithmeticOp,
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
)
from lakeport.kernel.expressions.value_types import literal_type, parse_type_name
from lakeport.kernel.schema import PrimitiveType

_COMPARISONS: dict[str, CompareOp] = {
    "eq": "=",
    "neq": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "nullsafeeq": "<=>",
}
_ARITHMETIC: dict[str, ArithmeticOp] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "div"}
_NUMBERS = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long", "FLOAT": "float"}
_NUMBERS |= {"DOUBLE": "double"}
_TYPES = {
    **_NUMBERS,
    **dict.fromkeys(["TEXT", "VARCHAR", "CHAR"], "string"),
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"], "timestamp"),
    **{"TIMESTAMPNTZ": "timestamp_ntz", "DATE": "date", "BOOLEAN": "boolean", "BINARY": "binary"},
}
_CAST_FUNCTIONS = {
    **{name.lower(): data_type for name, data_type in _NUMBERS.items()},
    **{name: name for name in ("string", "boolean", "binary", "date", "timestamp")},
    **{"to_date": "date", "to_timestamp": "timestamp"},
}
_SECOND = 1_000_000
_INTERVALS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": _SECOND, "MINUTE": 60 * _SECOND, "HOUR": 3600 * _SECOND}
_INTERVALS |= {"DAY": 24 * 3600 * _SECOND, "WEEK": 7 * 24 * 3600 * _SECOND}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def parse_filter(text: str) -> Expression:
    """Parse a filter, without binding it to a schema.

    Raises `InvalidFilterError`, which quotes the text and marks the `position` of the error.
    """
    return _untyped(_parse(SqlText(text, "filter")))


def parse_expression(text: str) -> Expression:
    """Parse a value, which may be a condition, without binding it to a schema.

    Raises `InvalidFilterError`, like `parse_filter`.
    """
    return _parse(SqlText(text, "expression"))


def _parse(text: SqlText) -> Expression:
    if (simple := parse_simple(text.sql)) is not None:
        return simple
    return parse_with_sqlglot(text)


def parse_with_sqlglot(text: SqlText) -> Expression:
    try:
        return _Reader(text).value(text.tree())
    except RecursionError:
        raise InvalidFilterError(f"the {text.noun} is nested too deeply; combine fewer conditions, or use IN") from None


class _Reader:
    """Converts sqlglot's tree to the kernel's."""

    def __init__(self, text: SqlText) -> None:
        self._text = text

    def _refuse(self, node: Node, reason: str) -> InvalidFilterError:
        return self._text.error(position_of(node), reason)

    def _unsupported(self, node: Node, what: str) -> InvalidFilterError:
        article = "a filter" if self._text.noun == "filter" else "an expression"
        return self._refuse(node, f"{what} is not supported in {article}")

    def _only(self, node: Node, *known: str) -> None:
        """Reject a node with a part that would otherwise be ignored."""
        for name, part in node.args.items():
            if part and name not in known:
                raise self._unsupported(node, name.upper())

    def value(self, node: Node) -> Expression:
        """A value, possibly a condition."""
        match node.key:
            case "paren":
                return self._inner(node)
            case "and" | "or":
                return self._chain(node)
            case "not":
                return Not(self._inner(node))
            case "nullsafeneq":
                return Not(self._comparison(node, "<=>"))
            case "is":
                return self._is(node)
            case "in":
                return self._in(node)
            case "between":
                return self._between(node)
            case "like" | "escape":
                return self._like(node)
            case "column" | "dot":
                return Column(self._path(node))
            case key if key in _COMPARISONS:
                return self._comparison(node, _COMPARISONS[key])
            case key if key in _ARITHMETIC:
                return self._arithmetic(node, _ARITHMETIC[key])
            case "neg" if not _is_constant(node):
                return -self._inner(node)
            case "neg" if node.this.key in ("cast", "trycast"):
                return self._negative_cast(node.this)
            case "cast" | "trycast":
                return self._cast(node)
            case "case":
                return self._case(node)
        return self._function(node)

    def _function(self, node: Node) -> Expression:
        """A function call, in the usual form or in SQL's special syntax."""
        match node.key:
            case "anonymous":
                self._only(node, "this", "expressions")
                return self._call(node, str(node.this).lower(), node.expressions)
            case "dpipe":
                self._only(node, "this", "expression", "safe")
                return Call("concat", (self.value(node.this), self.value(node.expression)))
            case "substring":
                self._only(node, "this", "start", "length")
                parts = [node.this, node.args.get("start"), node.args.get("length")]
                return self._call(node, "substring", [part for part in parts if part])
            case "floor" | "ceil":
                self._only(node, "this")
                return Call(node.key, (self.value(node.this),))
            case "trim":
                return self._trim(node)
            case "extract":
                return self._call(node, str(node.this.name).lower(), [node.expression])
            case "currenttimestamp" | "currentdate":
                self._only(node)
                return Call("current_date" if node.key == "currentdate" else "current_timestamp", ())
        return Literal(self._value(node))

    def _inner(self, node: Node) -> Expression:
        self._only(node, "this")
        return self.value(node.this)

    def _optional(self, node: Node | None) -> Expression:
        return Literal(None) if node is None else self.value(node)

    def _untyped(self, node: Node) -> Expression:
        return _untyped(self.value(node))

    def _chain(self, node: Node) -> Expression:
        """A chain of AND or OR as a balanced tree, so that long chains are not deep."""
        key, operands = node.key, []
        while node.key == key:
            self._only(node, "this", "expression")
            operands.append(self.value(node.expression))
            node = node.this
        operands.append(self.value(node))
        return chain(And if key == "and" else Or, operands[::-1])

    def _comparison(self, node: Node, op: CompareOp) -> Comparison:
        self._only(node, "this", "expression")
        return Comparison(op, self._untyped(node.this), self._untyped(node.expression))

    def _arithmetic(self, node: Node, op: ArithmeticOp) -> Expression:
        self._only(node, "this", "expression", "typed", "safe")
        if op in ("+", "-") and node.expression.key == "interval":
            return self._interval(self.value(node.this), node.expression, -1 if op == "-" else 1)
        return Arithmetic(op, self.value(node.this), self.value(node.expression))

    def _interval(self, moment: Expression, node: Node, sign: int) -> Expression:
        self._only(node, "this", "unit")
        unit = str(getattr(node.args.get("unit"), "name", "")).upper().removesuffix("S")
        if unit not in _INTERVALS | _MONTHS or not _is_constant(node.this):
            raise self._refuse(node, "an interval is written like INTERVAL 2 HOURS")
        amount = sign * self._convert(node, int, self._value(node.this))
        if unit in _MONTHS:
            return Call("add_months", (moment, Literal(amount * _MONTHS[unit])))
        return Call("add_time", (moment, Literal(amount * _INTERVALS[unit])))

    def _case(self, node: Node) -> Expression:
        self._only(node, "this", "ifs", "default")
        compared = None if node.this is None else self._untyped(node.this)
        branches = tuple(self._branch(branch, compared) for branch in node.args["ifs"])
        return Case(branches, self._optional(node.args.get("default")))

    def _branch(self, node: Node, compared: Expression | None = None) -> tuple[Expression, Expression]:
        self._only(node, "this", "true")
        when = self._untyped(node.this)
        return (when if compared is None else Comparison("=", compared, when)), self.value(node.args["true"])

    def _trim(self, node: Node) -> Expression:
        self._only(node, "this", "expression", "position")
        position = str(node.args.get("position") or "BOTH").upper()
        name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
        return self._call(node, name, [part for part in (node.this, node.expression) if part])

    def _call(self, node: Node, written: str, args: list[Node]) -> Expression:
        name = ALIASES.get(written, written)
        match name, args:
            case (("startswith" | "endswith" | "contains"), [text, part]):
                return _containing(name, self.value(text), self._string(part))
            case "nullif", [a, b]:
                value = self.value(a)
                return Case(((Comparison("=", value, self._untyped(b)), Literal(None)),), value)
            case "if", [when, then, *rest] if len(rest) < 2:
                return Case(((self._untyped(when), self.value(then)),), self._optional(next(iter(rest), None)))
            case "mod", [a, b]:
                return Arithmetic("%", self.value(a), self.value(b))
            case cast, [a] if cast in _CAST_FUNCTIONS:
                return Cast(self.value(a), _CAST_FUNCTIONS[cast])
        if name not in FUNCTIONS:
            raise self._unsupported(node, f"the function {written}")
        if not FUNCTIONS[name].accepts(len(args)):
            raise self._refuse(node, f"{written} does not take {len(args)} arguments")
        return Call(name, tuple(self.value(arg) for arg in args))

    def _is(self, node: Node) -> Expression:
        self._only(node, "this", "expression")
        match node.expression.key:
            case "null":
                return IsNull(self._untyped(node.this))
            case "boolean":
                return Comparison("<=>", self._untyped(node.this), Literal(self._value(node.expression)))
        raise self._refuse(node.expression, "IS takes NULL, TRUE or FALSE")

    def _in(self, node: Node) -> Expression:
        if node.args.get("query"):
            raise self._unsupported(node, "a subquery")
        self._only(node, "this", "expressions")
        if not node.expressions:
            raise self._refuse(node, "IN needs a list of values in parentheses")
        return In(self._untyped(node.this), tuple(self._untyped(value) for value in node.expressions))

    def _between(self, node: Node) -> Expression:
        self._only(node, "this", "low", "high")
        operand = self._untyped(node.this)
        low, high = self._untyped(node.args["low"]), self._untyped(node.args["high"])
        return And(Comparison(">=", operand, low), Comparison("<=", operand, high))

    def _like(self, node: Node) -> Expression:
        escape = "\\"
        if node.key == "escape":
            self._only(node, "this", "expression")
            escape, node = self._string(node.expression), node.this
            if node.key != "like" or len(escape) != 1:
                raise self._refuse(node, "ESCAPE takes one character, after LIKE")
        self._only(node, "this", "expression", "negate")
        pattern = with_backslashes(self._string(node.expression), escape)
        like = Like(self.value(node.this), pattern)
        return Not(like) if node.args.get("negate") else like

    def _path(self, node: Node) -> tuple[str, ...]:
        if node.key == "dot":
            return (*self._path(node.this), *self._names([node.expression]))
        if node.key != "column":
            raise self._refuse(node, "only a column has fields")
        self._only(node, "this", "table", "db", "catalog")
        return self._names([node.args.get(part) for part in ("catalog", "db", "table", "this")])

    def _names(self, parts: list[Node]) -> tuple[str, ...]:
        for part in parts:
            if part is not None and part.key != "identifier":
                raise self._refuse(part, "a column name is expected")
        return tuple(part.this for part in parts if part is not None)

    def _string(self, node: Node) -> str:
        value = self._value(node)
        if not isinstance(value, str):
            raise self._refuse(node, "a string in quotes is expected")
        return value

    def _value(self, node: Node) -> Any:
        """The value of a literal."""
        match node.key:
            case "null":
                return None
            case "boolean":
                return bool(node.this)
            case "literal" if not node.is_string:
                return self._convert(node, parse_number, node.this)
            case "literal" | "rawstring":
                return node.this
            case "hexstring":
                return self._convert(node, bytes.fromhex, node.this)
            case "paren":
                self._only(node, "this")
                return self._value(node.this)
            case "neg":
                return self._negative(node)
            case "cast" | "trycast":
                return self._constant_cast(node)
        raise self._unsupported(node, describe(node))

    def _convert(self, node: Node, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError) as error:
            raise self._refuse(node, f"{str(value)[:50]!r} does not fit: {error}") from error

    def _negative(self, node: Node) -> Any:
        inner = node.this
        if inner.key in ("cast", "trycast") and inner.this.key == "literal":
            return self._constant_cast(inner, sign="-")
        value = self._value(inner)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self._refuse(node, "a number is expected after the minus")
        return negated(value)

    def _cast(self, node: Node) -> Expression:
        self._only(node, "this", "to", "safe")
        if _is_constant(node.this):
            return self._typed_constant(node)
        if node.args.get("safe"):
            raise self._unsupported(node, "TRY_CAST")
        return Cast(self.value(node.this), self._type(node.args["to"]).name)

    def _typed_constant(self, node: Node) -> Expression:
        """CAST of a literal, evaluated if lossless. Text and integers must be values of the type."""
        data_type, inner = self._type(node.args["to"]), node.this
        if inner.key == "literal":
            is_number = data_type.name in _NUMBERS.values() or data_type.decimal is not None
            if inner.is_string or (is_number and inner.this.isdigit()):
                return _typed(self._constant_cast(node), data_type)
            number = self._convert(inner, parse_number, inner.this)
            if is_number and data_type.name not in INTEGER_BITS and _is_value_of(data_type, number):
                return _typed(self._constant_cast(node), data_type)
        return Cast(self.value(inner), data_type.name)

    def _negative_cast(self, node: Node) -> Expression:
        """A type's least integer has no positive counterpart, so the sign belongs to the literal."""
        if node.this.key == "literal" and node.this.this.isdigit():
            return _typed(self._constant_cast(node, sign="-"), self._type(node.args["to"]))
        match self.value(node):
            case Literal(float() | Decimal() as value):
                return Literal(negated(value))
            case Cast(Literal(float() | Decimal() as value), name):
                return Cast(Literal(negated(value)), name)
            case other:
                return -other

    def _constant_cast(self, node: Node, sign: str = "") -> Any:
        self._only(node, "this", "to", "safe")
        data_type, inner = self._type(node.args["to"]), node.this
        if inner.key == "literal" and (inner.is_string or data_type.name in _NUMBERS.values() or data_type.decimal):
            value: Any = sign + inner.this
        else:
            value = self._value(inner)
        return None if value is None else self._convert(node, partial(_exactly, data_type), value)

    def _type(self, node: Node) -> PrimitiveType:
        self._only(node, "this", "expressions")
        name = getattr(node.this, "name", str(node.this))
        if name == "DECIMAL":
            sizes = [part.name for part in node.expressions] or ["10"]
            decimal: PrimitiveType = self._convert(node, parse_type_name, f"decimal({','.join([*sizes, '0'][:2])})")
            return decimal
        if name not in _TYPES:
            raise self._unsupported(node, f"the type {name}")
        return PrimitiveType(_TYPES[name])


def _is_constant(node: Node) -> bool:
    """Whether a node is a literal, possibly signed, in parentheses or cast."""
    while node.key in ("paren", "neg", "cast", "trycast"):
        node = node.this
    return node.key in ("literal", "rawstring", "hexstring", "null", "boolean")


def _typed(value: Any, data_type: PrimitiveType) -> Expression:
    return Literal(value) if literal_type(value) == data_type else Cast(Literal(value), data_type.name)


def _untyped(expression: Expression) -> Expression:
    """Remove a literal's cast type, so that the other side of the comparison decides."""
    match expression:
        case Cast(Literal(value) as literal, name) if value is None or _is_value_of(PrimitiveType(name), value):
            return literal
    return expression


def _is_value_of(data_type: PrimitiveType, value: Any) -> bool:
    try:
        return not isinstance(value, str) and place_literal(value, data_type)[1] == "at"
    except (ValueError, OverflowError):
        return False


def _containing(name: str, text: Expression, part: str) -> Like:
    """startswith, endswith and contains as LIKE."""
    begins = text.startswith(part)
    return begins if name == "startswith" else Like(text, "%" + begins.pattern[: None if name == "contains" else -1])


def _exactly(data_type: PrimitiveType, value: Any) -> Any:
    result, place = place_literal(value, data_type)
    if place != "at":
        raise ValueError(f"it is not a {data_type.name}")
    return result
