"""Filters as SQL text, in Spark's dialect: `parse_filter("amount > 100 AND day = DATE '2026-01-01'")`.

    x = 1   x <> 1   x <= 1   x <=> NULL   x IN (1, 2)   x BETWEEN 1 AND 9   x IS NOT NULL   x IS DISTINCT FROM 1
    s LIKE 'a%'   s LIKE '10!%' ESCAPE '!'   startswith(s, 'a')   a.b = 1   `odd name` = 1   flag AND NOT (p OR q)

Literals: 1, 1.5 (a decimal), 1e3, 'text', "text", TRUE, NULL, X'41', DATE '…', TIMESTAMP '…', TIMESTAMP_NTZ '…' and
CAST(literal AS type). Everything else is refused, with the place in the text.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

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
)
from lakeport.kernel.literals import place_literal
from lakeport.kernel.schema import PrimitiveType

if TYPE_CHECKING:
    from sqlglot.errors import ParseError

Token: TypeAlias = Any  # sqlglot.tokens.Token
Node: TypeAlias = Any  # sqlglot.exp.Expression, told apart by `key`: the name of its class in lower case

_COMPARISONS: dict[str, CompareOp] = {
    "eq": "=",
    "neq": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "nullsafeeq": "<=>",
}
_NUMBERS = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long", "FLOAT": "float"}
_NUMBERS |= {"DOUBLE": "double"}
_TYPES = {
    **_NUMBERS,
    **dict.fromkeys(["TEXT", "VARCHAR", "CHAR"], "string"),
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"], "timestamp"),
    **{"TIMESTAMPNTZ": "timestamp_ntz", "DATE": "date", "BOOLEAN": "boolean", "BINARY": "binary"},
}
_NAMES = {
    **dict.fromkeys(["column", "dot"], "a column in this place"),
    **dict.fromkeys(["add", "sub", "mul", "div", "intdiv", "mod"], "arithmetic"),
    **dict.fromkeys(["subquery", "select", "exists"], "a subquery"),
    **{"bracket": "an element of an array or a map", "placeholder": "a parameter", "parameter": "a parameter"},
}
_SHOWN = 100
"""How many characters of a long line an error quotes."""


def parse_filter(text: str) -> Expression:
    """The filter that the text spells, not yet bound to a schema.

    Raises `InvalidFilterError`, which quotes the text and marks the `position` of what is wrong in it.
    """
    try:
        return _Reader(text).condition(_parse(text))
    except RecursionError:
        raise InvalidFilterError("the filter is nested too deeply; combine fewer conditions, or use IN") from None


def _parse(text: str) -> Node:
    from sqlglot import ErrorLevel, exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, TokenError

    dialect = Dialect.get_or_raise("spark")
    try:
        # Parsed as a condition, never as a statement: a statement that sqlglot does not know would be logged.
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        tokens = _join_doubled_quotes(dialect.tokenize(text), text)
        parsed = [node for node in parser.parse_into(exp.Condition, tokens, text) if node]
    except TokenError:
        raise _error(text, len(text), "a quote or a comment is not closed") from None
    except ParseError as error:
        raise _explained(text, error) from None
    except (ValueError, ArithmeticError) as error:  # sqlglot works out some literals while it parses
        raise _error(text, 0, f"a part of it makes no sense: {error}") from None
    if not parsed:
        raise _error(text, 0, "the filter is empty")
    if len(parsed) > 1:
        raise _error(text, _position(parsed[1]), "one condition is expected, and here a second begins")
    return parsed[0]


def _join_doubled_quotes(tokens: list[Token], text: str) -> list[Token]:
    """'it''s' is one string with a quote in it, as in Spark 4 and standard SQL; sqlglot takes it for two strings."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else token
        both_strings = token.token_type.name == last.token_type.name == "STRING"
        if both_strings and last.end + 1 == token.start and text[last.end] == text[token.start]:
            content = last.text + text[token.start] + token.text
            token = type(token)(token.token_type, content, token.line, token.col, last.start, token.end)
            joined.pop()
        joined.append(token)
    return joined


def _explained(text: str, error: ParseError) -> InvalidFilterError:
    details = error.errors[0] if error.errors else {}
    token, description = str(details.get("highlight", "")), str(details.get("description", ""))
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: int(details.get("line", 1)) - 1])
    position = before + int(details.get("col", 0)) - len(token)
    if description.startswith("Expecting"):
        return _error(text, position + len(token), description.replace("Expecting", "there should be a", 1))
    if description.startswith("Required"):
        return _error(text, position, f"something is missing at {token!r}")
    return _error(text, position, f"{token!r} is not expected")


def _error(text: str, position: int, reason: str) -> InvalidFilterError:
    """The reason, and the line of the text with a caret under the position."""
    position = min(max(position, 0), len(text))
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line, column = text[begin : end if end >= 0 else len(text)], position - begin
    cut = max(0, column - _SHOWN // 2)
    shown = "".join(char if char.isprintable() else " " for char in line[cut : cut + _SHOWN])
    return InvalidFilterError(
        f"the filter cannot be read: {reason}\n  {shown}\n  {' ' * (column - cut)}^", position=position
    )


def _position(node: Node) -> int:
    """Where the node begins in the text; where it is not recorded, where the part around it begins."""
    while node is not None:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return 0


class _Reader:
    """Turns sqlglot's tree into the kernel's."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refuse(self, node: Node, reason: str) -> InvalidFilterError:
        return _error(self._text, _position(node), reason)

    def _only(self, node: Node, *known: str) -> None:
        """Refuse a node with a part that would otherwise be overlooked."""
        for name, part in node.args.items():
            if part and name not in known:
                raise self._refuse(node, f"{name.upper()} is not supported in a filter")

    def condition(self, node: Node) -> Expression:
        """A condition, or one side of a comparison."""
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
            case "startswith":
                self._only(node, "this", "expression")
                return self.condition(node.this).startswith(self._string(node.expression))
            case "column" | "dot":
                return Column(self._path(node))
            case key if key in _COMPARISONS:
                return self._comparison(node, _COMPARISONS[key])
        return Literal(self._value(node))

    def _inner(self, node: Node) -> Expression:
        self._only(node, "this")
        return self.condition(node.this)

    def _chain(self, node: Node) -> Expression:
        """A chain of AND or OR as a balanced tree, so that a long one is not a deep one."""
        key, operands = node.key, []
        while node.key == key:
            self._only(node, "this", "expression")
            operands.append(self.condition(node.expression))
            node = node.this
        operands.append(self.condition(node))
        return chain(And if key == "and" else Or, operands[::-1])

    def _comparison(self, node: Node, op: CompareOp) -> Comparison:
        self._only(node, "this", "expression")
        return Comparison(op, self.condition(node.this), self.condition(node.expression))

    def _is(self, node: Node) -> Expression:
        self._only(node, "this", "expression")
        match node.expression.key:
            case "null":
                return IsNull(self.condition(node.this))
            case "boolean":
                return Comparison("<=>", self.condition(node.this), Literal(self._value(node.expression)))
        raise self._refuse(node.expression, "IS takes NULL, TRUE or FALSE")

    def _in(self, node: Node) -> Expression:
        if node.args.get("query"):
            raise self._refuse(node, "a subquery is not supported in a filter")
        self._only(node, "this", "expressions")
        if not node.expressions:
            raise self._refuse(node, "IN needs a list of values in parentheses")
        return In(self.condition(node.this), tuple(self.condition(value) for value in node.expressions))

    def _between(self, node: Node) -> Expression:
        self._only(node, "this", "low", "high")
        operand = self.condition(node.this)
        low, high = self.condition(node.args["low"]), self.condition(node.args["high"])
        return And(Comparison(">=", operand, low), Comparison("<=", operand, high))

    def _like(self, node: Node) -> Expression:
        escape = "\\"
        if node.key == "escape":
            self._only(node, "this", "expression")
            escape, node = self._string(node.expression), node.this
            if node.key != "like" or len(escape) != 1:
                raise self._refuse(node, "ESCAPE takes one character, after LIKE")
        self._only(node, "this", "expression", "negate")
        pattern = _with_backslashes(self._string(node.expression), escape)
        like = Like(self.condition(node.this), pattern)
        return Not(like) if node.args.get("negate") else like

    def _path(self, node: Node) -> tuple[str, ...]:
        if node.key == "dot":
            return (*self._path(node.this), *self._names([node.expression]))
        if node.key != "column":
            raise self._refuse(node, "a field can only be taken of a column")
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
                return self._convert(node, _number, node.this)
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
                return self._cast(node)
        raise self._refuse(node, f"{_described(node)} is not supported in a filter")

    def _convert(self, node: Node, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError) as error:
            raise self._refuse(node, f"{str(value)[:50]!r} does not fit: {error}") from error

    def _negative(self, node: Node) -> Any:
        inner = node.this
        if inner.key in ("cast", "trycast") and inner.this.key == "literal":
            return self._cast(inner, sign="-")
        value = self._value(inner)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise self._refuse(node, "a number is expected after the minus")
        return -value

    def _cast(self, node: Node, sign: str = "") -> Any:
        """CAST of a literal, where it loses nothing."""
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
            return PrimitiveType(f"decimal({','.join([*sizes, '0'][:2])})")
        if name not in _TYPES:
            raise self._refuse(node, f"the type {name} is not supported in a filter")
        return PrimitiveType(_TYPES[name])


def _number(text: str) -> int | float | Decimal:
    """As Spark reads it: with an exponent a double, with a point a decimal, else an integer."""
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _exactly(data_type: PrimitiveType, value: Any) -> Any:
    result, place = place_literal(value, data_type)
    if place != "at":
        raise ValueError(f"it is no {data_type.name}")
    return result


def _with_backslashes(pattern: str, escape: str) -> str:
    """The pattern with another escape character replaced."""
    if escape == "\\":
        return pattern
    result, characters = "", iter(pattern)
    for char in characters:
        result += "\\" + next(characters, "") if char == escape else char.replace("\\", "\\\\")
    return result


def _described(node: Node) -> str:
    from sqlglot import exp

    if isinstance(node, exp.Func) and node.key not in _NAMES:
        name = node.this if isinstance(node, exp.Anonymous) else node.sql_name()
        return f"the function {str(name).lower()}"
    return _NAMES.get(node.key) or type(node).__name__.upper()
