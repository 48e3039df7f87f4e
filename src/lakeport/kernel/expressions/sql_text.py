"""SQL text as sqlglot's tree, with positions in the text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeport.errors import InvalidFilterError

if TYPE_CHECKING:
    from sqlglot.errors import ParseError

Token: TypeAlias = Any  # sqlglot.tokens.Token
Node: TypeAlias = Any  # sqlglot.exp.Expression, distinguished by `key`: its class name in lower case

_NAMES = {
    **dict.fromkeys(["column", "dot"], "a column in this place"),
    **dict.fromkeys(["add", "sub", "mul", "div", "intdiv", "mod"], "arithmetic in this place"),
    **{"interval": "an INTERVAL other than after + or -"},
    **dict.fromkeys(["subquery", "select", "exists"], "a subquery"),
    **{"bracket": "an element of an array or a map", "placeholder": "a parameter", "parameter": "a parameter"},
}
_SHOWN = 100
"""Maximum number of characters of a long line quoted in errors."""


@dataclass(frozen=True, slots=True)
class SqlText:
    """SQL text and its intended meaning."""

    sql: str
    noun: str

    def tree(self) -> Node:
        """Parse it as a single expression. Raises `InvalidFilterError` with the position of the error."""
        from sqlglot.dialects.dialect import Dialect
        from sqlglot.errors import ParseError, TokenError

        dialect = Dialect.get_or_raise("spark")
        try:
            tokens = _join_doubled_quotes(dialect.tokenize(self.sql), self.sql)
            parsed = [node for node in _parse_tokens(dialect, tokens, self.sql) if node]
        except TokenError:
            raise self.error(len(self.sql), "a quote or a comment is not closed") from None
        except ParseError as error:
            raise self._explained(error) from None
        except (ValueError, ArithmeticError) as error:  # sqlglot evaluates some literals while parsing
            raise self.error(0, f"a part of it is invalid: {error}") from None
        if not parsed:
            raise self.error(0, f"the {self.noun} is empty")
        if len(parsed) > 1:
            raise self.error(position_of(parsed[1]), "a second condition begins here, but only one is allowed")
        return parsed[0]

    def _explained(self, error: ParseError) -> InvalidFilterError:
        details = error.errors[0] if error.errors else {}
        token, description = str(details.get("highlight", "")), str(details.get("description", ""))
        lines = self.sql.split("\n")
        before = sum(len(line) + 1 for line in lines[: int(details.get("line", 1)) - 1])
        position = before + int(details.get("col", 0)) - len(token)
        if description.startswith("Expecting"):
            return self.error(position + len(token), description.replace("Expecting", "expected a", 1))
        if description.startswith("Required"):
            return self.error(position, f"something is missing at {token!r}")
        return self.error(position, f"{token!r} is not expected")

    def error(self, position: int, reason: str) -> InvalidFilterError:
        """An error with the reason and the line of text, with a caret under the position."""
        text = self.sql
        position = min(max(position, 0), len(text))
        begin = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        line, column = text[begin : end if end >= 0 else len(text)], position - begin
        cut = max(0, column - _SHOWN // 2)
        shown = "".join(char if char.isprintable() else " " for char in line[cut : cut + _SHOWN])
        marked = f"{shown}\n  {' ' * (column - cut)}^"
        return InvalidFilterError(f"the {self.noun} cannot be read: {reason}\n  {marked}", position=position)


def _parse_tokens(dialect: Any, tokens: list[Token], text: str) -> list[Node]:
    from sqlglot import ErrorLevel, exp

    # Parsed as a condition, never as a statement: sqlglot logs statements that it does not know.
    parser = _parser_class()(dialect=dialect, error_level=ErrorLevel.IMMEDIATE)
    parsed: list[Node] = parser.parse_into(exp.Condition, tokens, text)
    return parsed


@cache
def _parser_class() -> Any:
    """Spark's parser without its function knowledge: names and arguments stay as written."""
    from sqlglot.dialects.spark import Spark

    only_case = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    return type("_Parser", (Spark.Parser,), {"FUNCTIONS": {}, "NO_PAREN_FUNCTION_PARSERS": only_case})


def _join_doubled_quotes(tokens: list[Token], text: str) -> list[Token]:
    """'it''s' is one string with a quote in it, as in Spark 4 and standard SQL; sqlglot reads two strings."""
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


def position_of(node: Node) -> int:
    """The position of the node in the text or, if not recorded, of the part around it."""
    while node is not None:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        node = node.parent
    return 0


def describe(node: Node) -> str:
    """Describe a node for messages."""
    from sqlglot import exp

    if isinstance(node, exp.Func) and node.key not in _NAMES:
        name = node.this if isinstance(node, exp.Anonymous) else node.sql_name()
        return f"the function {str(name).lower()}"
    return _NAMES.get(node.key) or type(node).__name__.upper()


def parse_number(text: str) -> int | float | Decimal:
    """Parse like Spark: a double with an exponent, a decimal with a point, else an integer."""
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def negated(value: int | float | Decimal) -> int | float | Decimal:
    if isinstance(value, Decimal):
        return value.copy_negate() if value else value  # `-value` rounds to the context's precision
    return -value


def with_backslashes(pattern: str, escape: str) -> str:
    """Replace another escape character in the pattern by backslashes."""
    if escape == "\\":
        return pattern
    result, characters = "", iter(pattern)
    for char in characters:
        result += "\\" + next(characters, "") if char == escape else char.replace("\\", "\\\\")
    return result
