"""Filters: a small tree of columns, literals and predicates with SQL's three-valued logic.

    col("day") == date(2026, 1, 1)        col("a.b") > 3        col("name").startswith("x")
    (p & q) | ~r                          col("x").is_null()    col("x").isin([1, 2])

Comparisons with NaN are false, except `!=` (IEEE 754), as in Arrow. `bind` fits a filter to a schema:
names are resolved regardless of case, and literals take the type of what they are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf


class Expression:
    """The root of the tree; its operators build predicates."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]  # builds a predicate
        return Comparison("=", self, _wrap(other))

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]  # builds a predicate
        return Comparison("<>", self, _wrap(other))

    def __lt__(self, other: Any) -> Comparison:
        return Comparison("<", self, _wrap(other))

    def __le__(self, other: Any) -> Comparison:
        return Comparison("<=", self, _wrap(other))

    def __gt__(self, other: Any) -> Comparison:
        return Comparison(">", self, _wrap(other))

    def __ge__(self, other: Any) -> Comparison:
        return Comparison(">=", self, _wrap(other))

    def __and__(self, other: Expression) -> And:
        return And(self, other)

    def __or__(self, other: Expression) -> Or:
        return Or(self, other)

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value: combine filters with & | ~, not with and, or, not")

    def equals_null_safe(self, other: Any) -> Comparison:
        """`<=>`: true also where both sides are null, and never null."""
        return Comparison("<=>", self, _wrap(other))

    def is_null(self) -> IsNull:
        return IsNull(self)

    def is_not_null(self) -> Not:
        return Not(IsNull(self))

    def isin(self, values: Iterable[Any]) -> In:
        return In(self, tuple(_wrap(value) for value in values))

    def startswith(self, prefix: str) -> Like:
        return Like(self, prefix.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_") + "%")

    def like(self, pattern: str) -> Like:
        return Like(self, pattern)


CompareOp = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A column by its path: `("a", "b")` is the field b of the struct a."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant: None, bool, int, float, Decimal, str, bytes, date or datetime."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Expression):
    op: CompareOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class And(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Or(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Not(Expression):
    child: Expression


@dataclass(frozen=True, slots=True, eq=False)
class IsNull(Expression):
    child: Expression


@dataclass(frozen=True, slots=True, eq=False)
class In(Expression):
    """SQL's IN: null if nothing matches and the list holds a null."""

    child: Expression
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Like(Expression):
    r"""SQL's LIKE: `%` any text, `_` one character, `\` takes the next character as it is."""

    child: Expression
    pattern: str

    @property
    def prefix(self) -> str:
        """The text that every match begins with."""
        text, escaped = "", False
        for char in self.pattern:
            if escaped:
                text, escaped = text + char, False
            elif char == "\\":
                escaped = True
            elif char in "%_":
                break
            else:
                text += char
        return text


def col(name: str | tuple[str, ...]) -> Column:
    """A column by name; dots lead into structs, backticks keep a dot: "a.b", "`a.b`.c", ("a.b", "c")."""
    return Column(name if isinstance(name, tuple) else parse_path(name))


def lit(value: Any) -> Literal:
    return Literal(value)


def _wrap(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Literal(value)


def parse_path(name: str) -> tuple[str, ...]:
    """The parts of a dotted name; backticks keep a dot, and two of them between backticks are one."""
    parts, quoted, last = [""], False, ""
    for char in name:
        if char == "`":
            quoted = not quoted
            if quoted and last == "`":
                parts[-1] += char
        elif char == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += char
        last = char
    return tuple(parts)


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Comparison(_, left, right) | And(left, right) | Or(left, right):
            return (left, right)
        case Not(child) | IsNull(child) | Like(child, _):
            return (child,)
        case In(child, values):
            return (child, *values)
    return ()


def columns_in(expression: Expression) -> list[Column]:
    """Every column that the expression mentions, in order, with repetitions."""
    found, todo = [], [expression]
    while todo:
        node = todo.pop()
        if isinstance(node, Column):
            found.append(node)
        todo += reversed(children(node))
    return found


def operands(expression: Expression, kind: type[And | Or]) -> list[Expression]:
    """The parts of a chain of AND, or of OR; the expression itself if it is no such chain."""
    found, todo = [], [expression]
    while todo:
        node = todo.pop()
        if isinstance(node, kind):
            todo += (node.right, node.left)
        else:
            found.append(node)
    return found


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts that must all hold."""
    return operands(expression, And)


def chain(kind: type[And | Or], parts: Sequence[Expression]) -> Expression:
    """The parts, of which there is at least one, connected into a tree as flat as can be: a long chain is not deep."""
    middle = len(parts) // 2
    return kind(chain(kind, parts[:middle]), chain(kind, parts[middle:])) if middle else parts[0]


def all_of(expressions: Iterable[Expression]) -> Expression | None:
    """The conjunction; None if there is nothing to hold."""
    parts = list(expressions)
    return chain(And, parts) if parts else None


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The tree with `change` applied to every node, leaves first."""
    match expression:
        case Comparison(op, left, right):
            expression = Comparison(op, rewrite(left, change), rewrite(right, change))
        case And(left, right):
            expression = And(rewrite(left, change), rewrite(right, change))
        case Or(left, right):
            expression = Or(rewrite(left, change), rewrite(right, change))
        case Not(child):
            expression = Not(rewrite(child, change))
        case IsNull(child):
            expression = IsNull(rewrite(child, change))
        case Like(child, pattern):
            expression = Like(rewrite(child, change), pattern)
        case In(child, values):
            expression = In(rewrite(child, change), tuple(rewrite(value, change) for value in values))
    return change(expression)


def same(left: Expression | None, right: Expression | None) -> bool:
    """Whether two trees are equal (`==` builds a predicate instead)."""
    if type(left) is not type(right) or left is None or right is None:
        return left is right
    match left, right:
        case Column(a), Column(b):
            return a == b
        case Literal(a), Literal(b):
            return type(a) is type(b) and bool(a == b)
        case (Comparison(a), Comparison(b)) | (Like(_, a), Like(_, b)) if a != b:
            return False
    ours, theirs = children(left), children(right)
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def format_expression(expression: Expression) -> str:
    """SQL text of the expression, for people."""
    match expression:
        case Column(path):
            return ".".join(part if part.isidentifier() else f"`{part.replace('`', '``')}`" for part in path)
        case Literal(value):
            return _format_literal(value)
        case Comparison(op, left, right):
            return f"{format_expression(left)} {op} {format_expression(right)}"
        case And(left, right):
            return f"{format_expression(left)} AND {format_expression(right)}"
        case Or(left, right):
            return f"({format_expression(left)} OR {format_expression(right)})"
        case Not(IsNull(child)):
            return f"{format_expression(child)} IS NOT NULL"
        case Not(child):
            return f"NOT ({format_expression(child)})"
        case IsNull(child):
            return f"{format_expression(child)} IS NULL"
        case Like(child, pattern):
            return f"{format_expression(child)} LIKE {_format_literal(pattern)}"
        case In(child, values):
            return f"{format_expression(child)} IN ({', '.join(map(format_expression, values))})"
    raise TypeError(f"not a filter: {expression!r}")


def _format_literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = str(value)
    return "'" + text.replace("'", "''") + "'"
