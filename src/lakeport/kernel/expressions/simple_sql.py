"""Read simple conditions without sqlglot, whose import takes longer than many a filtered read.

    id = 7 AND (`odd name` <> 'x' OR a.b IN (1, -2.5)) AND NOT day BETWEEN DATE '2026-01-01' AND DATE '2026-01-31'

Gives the same tree as `sql`, or None: for a text that needs sqlglot, and for an invalid one, which sqlglot can explain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from lakeport.kernel.expressions.literals import place_literal
from lakeport.kernel.expressions.sql_text import negated, parse_number
from lakeport.kernel.expressions.tree import (
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
from lakeport.kernel.schema import PrimitiveType

_Result = TypeVar("_Result")
_Token = tuple[str, str]
"""Its kind and its text. The kind `word` is one of `_OWN_WORDS`, in upper case."""

_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|`[^`\\\x00-\x1f]+`)"
_NAMES = re.compile(_NAME)
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    (?P<number>[0-9]{{1,100}}(?:\.[0-9]{{1,100}})?(?:[eE][+-]?[0-9]{{1,3}})?)(?![\w.])
    |(?P<type>(?i:DATE|TIMESTAMP)(?=[ \t\r\n]*['"]))
    |(?P<column>{_NAME}(?:\.{_NAME})*)
    |(?P<text>'(?:[^'\\\x00-\x1f]|'')*'|"(?:[^"\\\x00-\x1f]|"")*")
    |(?P<op><=>|<>|!=|<=|>=|==|=|<|>)
    |(?P<mark>[(),-])
    |(?P<end>\Z))""",
    re.VERBOSE,
)
_OPERATORS: dict[str, CompareOp] = {
    **{"=": "=", "==": "=", "<>": "<>", "!=": "<>"},
    **{"<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"},
}
_OWN_WORDS = frozenset({"AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE"})
_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}
_WORDS_OF_SQL = """
    ALL ALTER ANY ARRAY AS ASYMMETRIC CALL CASE COLLATE CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER DESCRIBE DISTINCT DIV DROP ELSE ESCAPE EXCEPT EXECUTE EXISTS EXPLAIN FETCH FOR FROM GLOB GRANT
    HAVING ILIKE INNER INSERT INTERSECT INTERVAL INTO ISNULL JOIN LATERAL LIST LOCALTIME LOCALTIMESTAMP MAP MINUS
    NOTNULL NULLABLE OBJECT ON OPERATOR OPTIMIZE OUTER OVERLAPS PARTITIONED_BY PREPARE PRIOR QUALIFY RANGE REGEXP RENAME
    RETURNING REVOKE RLIKE ROLLBACK SELECT SERDEPROPERTIES SESSION_USER SHOW SIMILAR SOME STRUCT SYMMETRIC TABLESAMPLE
    THEN UNCACHE UNION UNNEST USING VACUUM VALUES WHEN WHERE WITH XOR
"""
RESERVED = _OWN_WORDS.union(_WORDS_OF_SQL.split())
"""Words that mean something in SQL, at least in places: they are names only in backticks."""
_DEEPEST = 30


class _NotSimpleError(Exception):
    """The text needs sqlglot."""


def parse_simple(text: str) -> Expression | None:
    try:
        return _Reader(text).condition()
    except _NotSimpleError:
        return None


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while (match := _TOKEN.match(text, place)) is not None:
        kind, token, place = str(match.lastgroup), match[match.lastgroup or 0], match.end()
        word = token.upper()
        if word in _OWN_WORDS:
            kind, token = "word", word
        elif kind == "column" and not RESERVED.isdisjoint(_NAMES.findall(word)):
            raise _NotSimpleError
        yield kind, token
        if kind == "end":
            return
    raise _NotSimpleError


class _Reader:
    """Reads the tokens of a condition from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next, self._depth = next(self._tokens), 0

    def condition(self) -> Expression:
        """The whole text."""
        whole = self._any_of()
        self._expect("end", "")
        return whole

    def _take(self) -> _Token:
        taken = self._next
        self._next = next(self._tokens, ("end", ""))
        return taken

    def _skip(self, kind: str, token: str) -> bool:
        if self._next != (kind, token):
            return False
        self._take()
        return True

    def _expect(self, kind: str, token: str) -> None:
        if not self._skip(kind, token):
            raise _NotSimpleError

    def _inner(self, read: Callable[[], _Result]) -> _Result:
        """One level deeper, but never as deep as Python's stack."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotSimpleError
        result = read()
        self._depth -= 1
        return result

    def _any_of(self) -> Expression:
        parts = [self._all_of()]
        while self._skip("word", "OR"):
            parts.append(self._all_of())
        return chain(Or, parts)

    def _all_of(self) -> Expression:
        parts = [self._term()]
        while self._skip("word", "AND"):
            parts.append(self._term())
        return chain(And, parts)

    def _term(self) -> Expression:
        if self._skip("word", "NOT"):
            return Not(self._inner(self._term))
        if self._skip("mark", "("):
            group = self._inner(self._any_of)
            self._expect("mark", ")")
            return group
        return self._predicate(self._operand())

    def _predicate(self, operand: Expression) -> Expression:
        if self._next[0] == "op":
            return Comparison(_OPERATORS[self._take()[1]], operand, self._operand())
        if self._skip("word", "IS"):
            negated = self._skip("word", "NOT")
            self._expect("word", "NULL")
            return Not(IsNull(operand)) if negated else IsNull(operand)
        negated = self._skip("word", "NOT")
        if self._skip("word", "IN"):
            result: Expression = In(operand, self._list())
        elif self._skip("word", "BETWEEN"):
            result = self._between(operand)
        elif self._skip("word", "LIKE"):
            result = Like(operand, self._text())
        elif negated:
            raise _NotSimpleError
        else:
            return operand
        return Not(result) if negated else result

    def _list(self) -> tuple[Expression, ...]:
        self._expect("mark", "(")
        values = [self._literal()]
        while self._skip("mark", ","):
            values.append(self._literal())
        self._expect("mark", ")")
        return tuple(values)

    def _between(self, operand: Expression) -> Expression:
        low = self._literal()
        self._expect("word", "AND")
        return And(Comparison(">=", operand, low), Comparison("<=", operand, self._literal()))

    def _operand(self) -> Expression:
        return (
            Column(tuple(name.strip("`") for name in _NAMES.findall(self._take()[1])))
            if self._next[0] == "column"
            else self._literal()
        )

    def _literal(self) -> Literal:
        match self._take():
            case "number", digits:
                return Literal(parse_number(digits))
            case "mark", "-" if self._next[0] == "number":
                return Literal(negated(parse_number(self._take()[1])))
            case "text", quoted:
                return Literal(_content(quoted))
            case "word", name if name in _CONSTANTS:
                return Literal(_CONSTANTS[name])
            case "type", name:
                return self._typed(PrimitiveType(name.lower()))
        raise _NotSimpleError

    def _typed(self, data_type: PrimitiveType) -> Literal:
        try:
            value, place = place_literal(self._text(), data_type)
        except (ValueError, ArithmeticError):
            raise _NotSimpleError from None
        if place != "at":
            raise _NotSimpleError
        return Literal(value)

    def _text(self) -> str:
        kind, token = self._take()
        if kind != "text":
            raise _NotSimpleError
        return _content(token)


def _content(quoted: str) -> str:
    """The content of a text in quotes, in which a doubled quote is one."""
    return quoted[1:-1].replace(quoted[0] * 2, quoted[0])
