"""Arithmetic over Arrow data, as in Spark's ANSI mode: overflow and division by zero are errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.engine.expressions.casts import to_decimal
from lakeport.engine.expressions.nodes import Datum, Kernel, by_row
from lakeport.errors import UnsupportedExpressionError
from lakeport.kernel.expressions import decimal_result, round_decimal
from lakeport.kernel.values import scalar_of

_WIDE = Context(prec=120)
_QUOTIENT = Decimal(1).scaleb(-39)
"""Spark divides decimals to this many places before rounding to those of the result."""

_CHECKED: dict[str, Kernel] = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_IEEE: dict[str, Kernel] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_EXACT: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _WIDE.add,
    "-": _WIDE.subtract,
    "*": _WIDE.multiply,
    "/": lambda a, b: _WIDE.divide(a, b).quantize(_QUOTIENT, ROUND_HALF_UP, _WIDE),
    "%": _WIDE.remainder,
}


def arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> tuple[Kernel, pa.DataType, bool]:
    """The kernel for operands of bound types, its result type, and whether it succeeds for all values.

    Raises `UnsupportedExpressionError`."""
    if types.is_decimal(left) and types.is_decimal(right):
        return _decimal_arithmetic(op, left, right)
    if left == right and types.is_signed_integer(left):
        return _integer_kernel(op, left), left, False
    if left == right and types.is_floating(left):
        return _float_kernel(op, left), left, op in _IEEE
    raise UnsupportedExpressionError(f"this engine cannot evaluate {left} {op} {right}")


def _integer_kernel(op: str, data_type: pa.DataType) -> Kernel:
    if op == "div":
        return pc.divide_checked  # type: ignore[no-any-return]  # pyarrow has no types
    if op in _CHECKED:
        return _CHECKED[op]
    one, minus_one = scalar_of(1, data_type), scalar_of(-1, data_type)

    def remainder(a: Datum, b: Datum) -> Datum:
        # The remainder for -1 equals that for 1, which cannot overflow.
        divisor = pc.if_else(pc.equal(b, minus_one), one, b)
        return pc.subtract(a, pc.multiply(pc.divide_checked(a, divisor), divisor))

    return remainder


def _float_kernel(op: str, data_type: pa.DataType) -> Kernel:
    if op == "/":
        return pc.divide_checked  # type: ignore[no-any-return]  # pyarrow has no types
    return _IEEE.get(op) or (lambda a, b: by_row(_float_remainder, data_type, a, b))


def _float_remainder(a: float, b: float) -> float:
    if b == 0:
        raise ZeroDivisionError("division by zero")
    return math.nan if math.isinf(a) else math.fmod(a, b)


def _decimal_arithmetic(op: str, left: pa.DataType, right: pa.DataType) -> tuple[Kernel, pa.DataType, bool]:
    if op == "div":
        return (lambda a, b: by_row(_whole_quotient, pa.int64(), a, b)), pa.int64(), False
    result = pa.decimal128(*decimal_result(op, (left.precision, left.scale), (right.precision, right.scale)))
    needed = _exact_precision(op, left, right)
    if needed is None or needed > 76:
        exact = _EXACT[op]
        return (lambda a, b: by_row(lambda x, y: _rounded(exact, x, y, result), result, a, b)), result, False
    kernel = _IEEE[op]
    if needed <= 38:
        return kernel, result, True
    wide = [pa.decimal256(operand.precision, operand.scale) for operand in (left, right)]
    return (lambda a, b: to_decimal(kernel(pc.cast(a, wide[0]), pc.cast(b, wide[1])), result)), result, False


def _exact_precision(op: str, left: pa.DataType, right: pa.DataType) -> int | None:
    """How many digits the exact result may have; None if Arrow cannot compute it."""
    if op == "*":
        return int(left.precision + right.precision + 1)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return int(whole + max(left.scale, right.scale) + 1) if op in _IEEE else None


def _rounded(exact: Callable[[Decimal, Decimal], Decimal], a: Decimal, b: Decimal, result: pa.DataType) -> Decimal:
    if not b and exact in (_EXACT["/"], _EXACT["%"]):
        raise ZeroDivisionError("division by zero")
    return round_decimal(exact(a, b), result.precision, result.scale)


def _whole_quotient(a: Decimal, b: Decimal) -> int:
    if not b:
        raise ZeroDivisionError("division by zero")
    return int(_WIDE.divide_int(a, b))
