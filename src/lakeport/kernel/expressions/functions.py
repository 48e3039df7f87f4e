"""The functions available in expressions: their parameters and result types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakeport.errors import InvalidFilterError
from lakeport.kernel.expressions.tree import Expression, Literal, format_expression
from lakeport.kernel.expressions.value_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    decimal_of,
    digits_of,
    is_integer,
    rounded_digits,
)
from lakeport.kernel.schema import DataType, PrimitiveType

Kind = PrimitiveType | str
"""The conversion of an argument: a type, or one of

    number   any number, unchanged                 moment    a date or a timestamp, unchanged
    text     a string, or a binary unchanged       alike     the common type of all arguments
    constant an integer literal                    joined    string, or binary if all arguments are
    unit     a literal unit of time                format    a literal pattern like yyyy-MM-dd
"""

Result = Callable[[Sequence[DataType], Sequence[Expression]], DataType]


@dataclass(frozen=True, slots=True)
class Function:
    """A signature. The last `optional` parameters may be omitted; with `repeated`, the last may repeat."""

    takes: tuple[Kind, ...]
    gives: PrimitiveType | Result
    optional: int = 0
    repeated: bool = False

    def accepts(self, count: int) -> bool:
        return count >= len(self.takes) - self.optional and (self.repeated or count <= len(self.takes))

    def kinds(self, count: int) -> tuple[Kind, ...]:
        return (*self.takes, *self.takes[-1:] * (count - len(self.takes)))[:count]

    def result_type(self, types: Sequence[DataType], args: Sequence[Expression]) -> DataType:
        return self.gives if isinstance(self.gives, PrimitiveType) else self.gives(types, args)


def constant_of(arg: Expression) -> int:
    """The value of a bound `constant`. Raises `InvalidFilterError` if it is not one."""
    if isinstance(arg, Literal) and isinstance(arg.value, int) and not isinstance(arg.value, bool):
        return arg.value
    raise InvalidFilterError(f"{format_expression(arg)} must be an integer literal")


def _same(types: Sequence[DataType], args: Sequence[Expression]) -> DataType:
    return types[0]


def _rounded(types: Sequence[DataType], args: Sequence[Expression]) -> DataType:
    digits = None if is_integer(types[0]) else digits_of(types[0])
    if digits is None:
        return types[0]
    return decimal_of(*rounded_digits(digits, constant_of(args[1]) if len(args) > 1 else 0))


def _whole(types: Sequence[DataType], args: Sequence[Expression]) -> DataType:
    digits = None if is_integer(types[0]) else digits_of(types[0])
    return LONG if digits is None else decimal_of(*rounded_digits(digits, 0)) if digits[1] else types[0]


_PART_OF_DATE, _PART_OF_DAY = Function((DATE,), INTEGER), Function((TIMESTAMP,), INTEGER)
_OF_DOUBLE = Function((DOUBLE,), DOUBLE)
_TEXT_TO_TEXT = Function((STRING,), STRING)
_TRIM = Function((STRING, STRING), STRING, optional=1)
_SHIFT = Function((DATE, INTEGER), DATE)
_CHOICE = Function(("alike", "alike"), _same, repeated=True)

FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(["upper", "lower", "reverse"], _TEXT_TO_TEXT),
    **dict.fromkeys(["trim", "ltrim", "rtrim"], _TRIM),
    "length": Function(("text",), INTEGER),
    "concat": Function(("joined",), _same, repeated=True),
    "substring": Function((STRING, INTEGER, INTEGER), STRING, optional=1),
    "left": Function((STRING, INTEGER), STRING),
    "right": Function((STRING, INTEGER), STRING),
    "replace": Function((STRING, STRING, STRING), STRING, optional=1),
    **dict.fromkeys(["abs", "negative"], Function(("number",), _same)),
    "round": Function(("number", "constant"), _rounded, optional=1),
    **dict.fromkeys(["floor", "ceil"], Function(("number",), _whole)),
    **dict.fromkeys(["sqrt", "exp"], _OF_DOUBLE),
    "power": Function((DOUBLE, DOUBLE), DOUBLE),
    "isnan": Function((DOUBLE,), BOOLEAN),
    "coalesce": Function(("alike",), _same, repeated=True),
    **dict.fromkeys(["greatest", "least"], _CHOICE),
    **dict.fromkeys(["year", "quarter", "month", "day"], _PART_OF_DATE),
    **dict.fromkeys(["dayofyear", "dayofweek", "weekday", "weekofyear"], _PART_OF_DATE),
    **dict.fromkeys(["hour", "minute", "second"], _PART_OF_DAY),
    "date_trunc": Function(("unit", TIMESTAMP), TIMESTAMP),
    "trunc": Function((DATE, "unit"), DATE),
    **dict.fromkeys(["date_add", "date_sub"], _SHIFT),
    "datediff": Function((DATE, DATE), INTEGER),
    "add_months": Function(("moment", INTEGER), _same),
    "add_time": Function(("moment", "constant"), _same),
    "date_format": Function((TIMESTAMP, "format"), STRING),
    "current_timestamp": Function((), TIMESTAMP),
    "current_date": Function((), DATE),
}
"""As in Spark. `add_time` adds microseconds; `+ INTERVAL 1 HOUR` is parsed to it."""

ALIASES = {
    "ucase": "upper",
    "lcase": "lower",
    **dict.fromkeys(["char_length", "character_length", "len"], "length"),
    "substr": "substring",
    **dict.fromkeys(["nvl", "ifnull"], "coalesce"),
    "ceiling": "ceil",
    "pow": "power",
    "dayofmonth": "day",
    "dateadd": "date_add",
    "date_diff": "datediff",
    "now": "current_timestamp",
    "curdate": "current_date",
}

UNITS = {
    **dict.fromkeys(["year", "yyyy", "yy"], "year"),
    "quarter": "quarter",
    **dict.fromkeys(["month", "mm", "mon"], "month"),
    "week": "week",
    **dict.fromkeys(["day", "dd"], "day"),
    **{unit: unit for unit in ("hour", "minute", "second", "millisecond", "microsecond")},
}
"""Names of time units, in lower case."""

DATE_UNITS = frozenset({"year", "quarter", "month", "week"})
"""The units to which `trunc` truncates a date."""

FORMAT_LETTERS = {"yyyy": 1, "MM": 2, "dd": 3, "HH": 4, "mm": 5, "ss": 6}
"""The fields supported by `date_format`, by position in `year-month-day hour:minute:second`."""
