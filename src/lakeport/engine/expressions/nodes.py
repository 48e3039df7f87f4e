"""Compiled expressions: evaluation over a batch or a subset of its rows, and error reporting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.errors import InvalidDataError
from lakeport.kernel.expressions import Cast, Expression, Literal, as_written, children, format_expression
from lakeport.kernel.values import array_of, from_numpy, python_value, scalar_of, to_mask

Datum = Any  # pa.Array | pa.Scalar
Kernel = Callable[..., Datum]
Positions = npt.NDArray[np.int64]


class Rows(Protocol):
    """The input of an expression: a record batch, or some of its rows."""

    @property
    def num_rows(self) -> int: ...

    def column(self, i: int, /) -> pa.Array: ...


@dataclass(frozen=True, slots=True)
class Node:
    """A compiled expression: its result type, and a function from rows to the result; a constant gives a scalar."""

    type: pa.DataType
    run: Callable[[Rows], Datum]
    total: bool = True
    """Whether every row has a result: nothing overflows, divides by zero or fails to fit."""


def as_array(datum: Datum, length: int) -> pa.Array:
    return pa.repeat(datum, length) if isinstance(datum, pa.Scalar) else datum


def constant(scalar: pa.Scalar) -> Node:
    return Node(scalar.type, lambda _: scalar)


def applied(kernel: Kernel, args: Sequence[Node], data_type: pa.DataType, whole: Expression, *, total: bool) -> Node:
    """A kernel over the results of other nodes; if it fails, the error names the expression and the values."""

    def run(rows: Rows) -> Datum:
        return _guarded(kernel, [arg.run(rows) for arg in args], data_type, whole)

    return Node(data_type, run, total and all(arg.total for arg in args))


def _guarded(kernel: Kernel, data: list[Datum], data_type: pa.DataType, whole: Expression) -> Datum:
    try:
        return kernel(*data)
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        row = _first_failing(kernel, data)
        raise InvalidDataError(_failure(whole, row, data_type, error)) from error


def _first_failing(kernel: Kernel, data: list[Datum]) -> list[pa.Scalar]:
    """The values of the first row for which the kernel fails."""
    length = max((len(datum) for datum in data if not isinstance(datum, pa.Scalar)), default=1)
    start, end = 0, length
    while end - start > 1:
        middle = (start + end) // 2
        try:
            kernel(*(_slice(datum, start, middle) for datum in data))
            start = middle
        except (ValueError, ArithmeticError, pa.ArrowException):
            end = middle
    return [datum if isinstance(datum, pa.Scalar) else datum[start] for datum in data]


def _slice(datum: Datum, start: int, end: int) -> Datum:
    return datum if isinstance(datum, pa.Scalar) else datum.slice(start, end - start)


def _failure(whole: Expression, row: list[pa.Scalar], data_type: pa.DataType, error: Exception) -> str:
    shown = whole if isinstance(whole, Cast) else as_written(whole)
    parts = zip(children(shown), row, strict=True)
    known = dict.fromkeys(
        f"{format_expression(part)} = {str(python_value(value))[:100]}"
        for part, value in parts
        if not isinstance(part, Literal)
    )
    where = f" where {' and '.join(known)}" if known else ""
    reason = {"overflow": f"the result does not fit {data_type}", "divide by zero": "division by zero"}.get(str(error))
    return f"{format_expression(shown)} cannot be computed{where}: {reason or str(error)[:200]}"


class _Subset:
    """Some rows of a batch; columns are taken lazily."""

    def __init__(self, rows: Rows, positions: Positions) -> None:
        self._rows, self._positions, self._taken = rows, from_numpy(positions), dict[int, pa.Array]()
        self.num_rows = len(positions)

    def column(self, i: int) -> pa.Array:
        if i not in self._taken:
            self._taken[i] = self._rows.column(i).take(self._positions)
        return self._taken[i]


def run_for(node: Node, rows: Rows, positions: Positions) -> pa.Array:
    """The values of the rows at these positions, in order."""
    some = rows if len(positions) == rows.num_rows else _Subset(rows, positions)
    return as_array(node.run(some), len(positions))


def all_positions(rows: Rows) -> Positions:
    return np.arange(rows.num_rows, dtype=np.int64)


def split_positions(positions: Positions, condition: pa.BooleanArray) -> tuple[Positions, Positions]:
    """The positions where the condition is true, and the others."""
    if not len(positions):
        return positions, positions
    mask = to_mask(condition)
    return positions[mask], positions[~mask]


def merged(pieces: Sequence[tuple[Positions, pa.Array]], data_type: pa.DataType) -> pa.Array:
    """Merge pieces of a column in row order; each row is in one of them."""
    known = [(positions, _of_type(values, data_type)) for positions, values in pieces if len(positions)]
    if len(known) == 1:
        return known[0][1]
    if not known:
        return pa.nulls(0, data_type)
    order = np.argsort(np.concatenate([positions for positions, _ in known]), kind="stable")
    return pa.concat_arrays([values for _, values in known]).take(from_numpy(order))


def _of_type(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    return pa.nulls(len(values), data_type) if pa.types.is_null(values.type) else values


def by_row(function: Callable[..., Any], data_type: pa.DataType, *args: Datum) -> Datum:
    """Apply a Python function to non-null values, where Arrow has no kernel; null where an argument is."""
    arrays = [arg for arg in args if not isinstance(arg, pa.Scalar)]
    if not arrays:
        values = [arg.as_py() for arg in args]
        return scalar_of(None if None in values else function(*values), data_type)
    columns = [as_array(arg, len(arrays[0])).to_pylist() for arg in args]
    rows = zip(*columns, strict=True)
    return array_of([None if None in row else function(*row) for row in rows], data_type)
