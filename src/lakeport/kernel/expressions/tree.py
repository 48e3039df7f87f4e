"""Filters and values: a small tree of columns, literals, predicates with SQL's three-valued logic, and computed values.

    col("day") == date(2026, 1, 1)        col("a.b") > 3        col("name").startswith("x")
    (p & q) | ~r                          col("x").is_null()    col("x").isin([1, 2])
    col("price") * col("amount") + 1      col("x").cast("long") Call("upper", (col("name"),))

Comparisons with NaN are false, except `!=` (IEEE 754), as in Arrow. `bind` binds a filter to a schema, `bind_value` a
value: names resolve ignoring case, and literals take the type they are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from typing import Literal as OneOf

from lakeport.kernel.schema import format_path, parse_path
from lakeport.kernel.values import FarDate, FarTime


class Expression:
    """The base class of all nodes; its operators build predicates and values."""

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

    def __add__(self, other: Any) -> Arithmetic:
        return Arithmetic("+", self, _wrap(other))

    def __radd__(self, other: Any) -> Arithmetic:
        return Arithmetic("+", _wrap(other), self)

    def __sub__(self, other: Any) -> Arithmetic:
        return Arithmetic("-", self, _wrap(other))

    def __rsub__(self, other: Any) -> Arithmetic:
        return Arithmetic("-", _wrap(other), self)

    def __mul__(self, other: Any) -> Arithmetic:
        return Arithmetic("*", self, _wrap(other))

    def __rmul__(self, other: Any) -> Arithmetic:
        return Arithmetic("*", _wrap(other), self)

    def __truediv__(self, other: Any) -> Arithmetic:
        return Arithmetic("/", self, _wrap(other))

    def __rtruediv__(self, other: Any) -> Arithmetic:
        return Arithmetic("/", _wrap(other), self)

    def __mod__(self, other: Any) -> Arithmetic:
        return Arithmetic("%", self, _wrap(other))

    def __rmod__(self, other: Any) -> Arithmetic:
        return Arithmetic("%", _wrap(other), self)

    def __neg__(self) -> Call:
        return Call("negative", (self,))

    def __and__(self, other: Expression) -> And:
        return And(self, other)

    def __or__(self, other: Expression) -> Or:
        return Or(self, other)

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value: combine filters with & | ~, not with and, or, not")

    def equals_null_safe(self, other: Any) -> Comparison:
        """`<=>`: true if both sides are null, and never null."""
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

    def cast(self, type_name: str) -> Cast:
        """Cast to a type by its protocol name: `integer`, `decimal(10,2)` …"""
        return Cast(self, type_name)


CompareOp = OneOf["=", "<>", "<", "<=", ">", ">=", "<=>"]
ArithmeticOp = OneOf["+", "-", "*", "/", "%", "div"]


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A column by its path: `("a", "b")` is the field b of the struct a."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Expression):
    """A constant: None, bool, int, float, Decimal, str, bytes, date or datetime, NumPy's numbers and `datetime64`.

    `kernel.values.moments` has dates and timestamps outside Python's range of years."""

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
    """SQL's IN: null if nothing matches and the list contains a null."""

    child: Expression
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Like(Expression):
    r"""SQL's LIKE: `%` any text, `_` one character, `\` escapes the next character."""

    child: Expression
    pattern: str

    @property
    def prefix(self) -> str:
        """The literal prefix of every match."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic(Expression):
    """Two numbers, or a date and a number of days. `/` never rounds to an integer; `div` always does, towards zero."""

    op: ArithmeticOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expression):
    """Cast to a primitive type by its protocol name; an error if a value does not fit."""

    child: Expression
    type_name: str


@dataclass(frozen=True, slots=True, eq=False)
class Case(Expression):
    """The value of the first branch whose condition is true. Other branches are not evaluated for the row."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression = Literal(None)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """A function call by name; `functions` lists the functions."""

    name: str
    args: tuple[Expression, ...]


def col(name: str | tuple[str, ...]) -> Column:
    """A column by name; dots lead into structs, backticks keep a dot: "a.b", "`a.b`.c", ("a.b", "c")."""
    return Column(name if isinstance(name, tuple) else parse_path(name))


def lit(value: Any) -> Literal:
    """A value in an expression: None, a number, text, bytes, a date, a time, a decimal."""
    return Literal(value)


def _wrap(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Literal(value)


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Comparison(_, left, right) | And(left, right) | Or(left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Not(child) | IsNull(child) | Like(child, _) | Cast(child, _):
            return (child,)
        case In(child, values):
            return (child, *values)
        case Case(branches, default):
            return (*(part for branch in branches for part in branch), default)
        case Call(_, args):
            return args
    return ()


def _with_children(expression: Expression, parts: tuple[Expression, ...]) -> Expression:
    match expression:
        case Comparison(op, _, _):
            return Comparison(op, *parts)
        case Arithmetic(arithmetic, _, _):
            return Arithmetic(arithmetic, *parts)
        case And() | Or() | Not() | IsNull():
            return type(expression)(*parts)
        case Like(_, pattern):
            return Like(parts[0], pattern)
        case Cast(_, type_name):
            return Cast(parts[0], type_name)
        case In():
            return In(parts[0], parts[1:])
        case Case():
            return Case(tuple(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1])
        case Call(name, _):
            return Call(name, parts)
    return expression


def columns_in(expression: Expression) -> list[Column]:
    """Every column in the expression, in order, with repetitions."""
    found, todo = [], [expression]
    while todo:
        node = todo.pop()
        if isinstance(node, Column):
            found.append(node)
        todo += reversed(children(node))
    return found


def operands(expression: Expression, kind: type[And | Or]) -> list[Expression]:
    """The operands of a chain of AND or OR; the expression itself if it is not such a chain."""
    found, todo = [], [expression]
    while todo:
        node = todo.pop()
        if isinstance(node, kind):
            todo += (node.right, node.left)
        else:
            found.append(node)
    return found


def conjuncts(expression: Expression) -> list[Expression]:
    """The operands of a chain of AND."""
    return operands(expression, And)


def chain(kind: type[And | Or], parts: Sequence[Expression]) -> Expression:
    """Connect one or more parts into a tree of minimal depth, so that long chains are not deep."""
    middle = len(parts) // 2
    return kind(chain(kind, parts[:middle]), chain(kind, parts[middle:])) if middle else parts[0]


def all_of(expressions: Iterable[Expression]) -> Expression | None:
    """The conjunction; None if there are no expressions."""
    parts = list(expressions)
    return chain(And, parts) if parts else None


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Apply `change` to every node, leaves first; works at any depth."""
    done: list[Expression] = []
    todo = [(expression, False)]
    while todo:
        node, parts_are_done = todo.pop()
        parts = children(node)
        if parts and not parts_are_done:
            todo.append((node, True))
            todo += [(part, False) for part in reversed(parts)]
        else:
            first = len(done) - len(parts)
            done[first:] = [change(_with_children(node, tuple(done[first:])))]
    return done[0]


def replace_now(expression: Expression, now_ms: int) -> Expression:
    """Replace `current_timestamp()` and `current_date()` by literals: one time, in milliseconds since the epoch, for a
    whole statement."""
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    values = {"current_timestamp": Literal(now), "current_date": Literal(now.date())}
    return rewrite(expression, lambda node: values.get(node.name, node) if isinstance(node, Call) else node)


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
        case (Arithmetic(a), Arithmetic(b)) | (Cast(_, a), Cast(_, b)) | (Call(a), Call(b)) if a != b:
            return False
    ours, theirs = children(left), children(right)
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def format_expression(expression: Expression) -> str:
    """Format the expression as SQL text for messages."""
    match expression:
        case Column(path):
            return format_path(path)
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
        case Arithmetic(op, left, right):
            return f"{_operand_text(left)} {op} {_operand_text(right)}"
        case Call("negative", (child,)):
            return f"-{_operand_text(child)}"
        case Call("trim" | "ltrim" | "rtrim" as name, (text, characters)):
            side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
            return f"TRIM({side} {_value_text(characters)} FROM {_value_text(text)})"
        case Call(name, args):
            return f"{name}({', '.join(map(_value_text, args))})"
        case Cast(child, type_name):
            return f"CAST({_value_text(child)} AS {_SQL_TYPES.get(type_name, type_name).upper()})"
        case Case(branches, default):
            whens = "".join(f" WHEN {format_expression(when)} THEN {_value_text(then)}" for when, then in branches)
            return f"CASE{whens} ELSE {_value_text(default)} END"
    raise TypeError(f"not an expression: {expression!r}")


_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def _operand_text(expression: Expression) -> str:
    text = _value_text(expression)
    bare = isinstance(expression, Column | Call | Cast | Case) or (isinstance(expression, Literal) and text[0] != "-")
    return text if bare else f"({text})"


def _value_text(expression: Expression) -> str:
    """Format a value; unlike in a comparison, its literals must show their type."""
    match expression:
        case Literal(datetime() | FarTime() as moment):
            kind = "TIMESTAMP_NTZ" if moment.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{moment}'"
        case Literal(date() | FarDate() as day):
            return f"DATE '{day}'"
        case Literal(Decimal() as number) if number.is_finite():
            text = f"{number:f}"
            return text if "." in text else f"{text}BD"
        case Literal(float() as number):
            return f"{number!r}D" if number - number == 0 else f"CAST('{number}' AS DOUBLE)"
        case Literal(str() as text):
            return _format_literal(text.replace("\\", "\\\\"))
    return format_expression(expression)


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
