"""Filters and values: their trees, their SQL text, and binding to a table's columns.

May import `schema` and `values`.
"""

from lakeport.kernel.expressions.filter_binding import bind, bind_value, normalize
from lakeport.kernel.expressions.functions import FORMAT_LETTERS
from lakeport.kernel.expressions.literals import cast_text, round_decimal
from lakeport.kernel.expressions.sql import parse_expression, parse_filter
from lakeport.kernel.expressions.tree import (
    And, Arithmetic, Call, Case, Cast, Column, CompareOp, Comparison, Expression, In, IsNull, Like, Literal, Not, Or,
    all_of, chain, children, col, columns_in, conjuncts, format_expression, lit, operands, replace_now, rewrite,
)  # fmt: skip
from lakeport.kernel.expressions.value_binding import as_written, convert, plain, type_of
from lakeport.kernel.expressions.value_types import (
    DATE, FLOATS, LONG, TIMESTAMP, TIMESTAMP_NTZ, common_type, decimal_of, decimal_result, digits_of, is_integer,
    is_number, rounded_digits,
)  # fmt: skip
