"""Data skipping: check a predicate against the minimum, maximum and null count of many files.

`may_match` decides for each file (or row group) whether any of its rows can satisfy the predicate. Unknown means
possible: a file is skipped only if no row in it can match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.kernel.expressions import And, Column, Comparison, Expression, In, IsNull, Like, Literal, Not, Or
from lakeport.kernel.values import own_scalar, scalar_of, to_mask

Mask = npt.NDArray[np.bool_]
_ZERO = scalar_of(0, pa.int64())


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one column in each of many files; a null in any of these arrays means unknown."""

    lower: pa.Array | None
    upper: pa.Array | None
    nulls: pa.Array | None
    """The number of nulls, if reliable."""
    rows: pa.Array | None
    """The number of rows."""
    exact: bool = False
    """Whether a file whose bounds both equal v holds only v (and null)."""


BoundsOf = Callable[[Column], Bounds | None]


def may_match(predicate: Expression, bounds_of: BoundsOf, count: int) -> Mask:
    """For each of `count` files, whether any row can satisfy the bound and normalised predicate."""
    return _Skipper(bounds_of, count).may(predicate)


class _Skipper:
    """Evaluates the bounds of a column once, however many terms of the predicate use it."""

    def __init__(self, bounds_of: BoundsOf, count: int) -> None:
        self._count = count
        self._bounds = cache(lambda path: bounds_of(Column(path)))
        self._values = cache(self._find_values)

    def may(self, predicate: Expression) -> Mask:
        match predicate:
            case And(left, right):
                return self.may(left) & self.may(right)
            case Or(left, right):
                return self.may(left) | self.may(right)
            case Literal(value):
                return self._all(value is True)
            case Column():
                return self._compare("=", predicate, True)
            case Not(Column() as column):
                return self._compare("=", column, False)
            case Comparison(op, Column() as column, Literal(value)):
                return self._compare(op, column, value)
            case In(Column() as column, values):
                return self._any_of(column, [v.value for v in values if isinstance(v, Literal)], len(values))
            case Like(Column() as column, _):
                return self._prefix(column, predicate.prefix)
            case IsNull(Column() as column):
                return self._has_null(column)
            case Not(IsNull(Column() as column)):
                return self._has_value(column)
        return self._all(True)

    def _all(self, answer: bool) -> Mask:
        return np.full(self._count, answer)

    def _known_true(self, array: pa.Array | None) -> Mask:
        """Where the result is known to be true."""
        if array is None:
            return self._all(False)
        return to_mask(array)

    def _has_null(self, column: Column) -> Mask:
        bounds = self._bounds(column.path)
        if bounds is None or bounds.nulls is None:
            return self._all(True)
        return ~self._known_true(pc.equal(bounds.nulls, _ZERO))

    def _has_value(self, column: Column) -> Mask:
        return self._values(column.path)

    def _find_values(self, path: tuple[str, ...]) -> Mask:
        bounds = self._bounds(path)
        if bounds is None or bounds.nulls is None or bounds.rows is None:
            return self._all(True)
        return ~self._known_true(pc.equal(bounds.nulls, bounds.rows))

    def _compare(self, op: str, column: Column, value: Any) -> Mask:
        if value is None:
            return self._has_null(column) if op == "<=>" else self._all(False)
        bounds = self._bounds(column.path)
        if bounds is None:
            return self._all(True)
        return self._has_value(column) & ~self._excluded(op, bounds, value)

    def _excluded(self, op: str, bounds: Bounds, value: Any) -> Mask:
        """Where the bounds rule out the comparison for all values."""
        match op:
            case "=" | "<=>":
                return self._test(pc.greater, bounds.lower, value) | self._test(pc.less, bounds.upper, value)
            case "<":
                return self._test(pc.greater_equal, bounds.lower, value)
            case "<=":
                return self._test(pc.greater, bounds.lower, value)
            case ">":
                return self._test(pc.less_equal, bounds.upper, value)
            case ">=":
                return self._test(pc.less, bounds.upper, value)
            case "<>" if bounds.exact:
                return self._test(pc.equal, bounds.lower, value) & self._test(pc.equal, bounds.upper, value)
        return self._all(False)

    def _test(self, compare: Callable[[Any, Any], Any], bound: pa.Array | None, value: Any) -> Mask:
        if bound is None:
            return self._all(False)
        try:
            return self._known_true(compare(bound, own_scalar(value)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError):
            return self._all(False)

    def _any_of(self, column: Column, values: list[Any], count: int) -> Mask:
        if len(values) < count:
            return self._all(True)
        possible = self._all(False)
        for value in values:
            possible |= self._compare("=", column, value)
        return possible

    def _prefix(self, column: Column, prefix: str) -> Mask:
        bounds = self._bounds(column.path)
        if bounds is None:
            return self._all(True)
        begins = None
        if bounds.lower is not None and pa.types.is_string(bounds.lower.type):
            begins = pc.utf8_slice_codeunits(bounds.lower, 0, len(prefix)) if prefix else None
        excluded = self._test(pc.greater, begins, prefix) | self._test(pc.less, bounds.upper, prefix)
        return self._has_value(column) & ~excluded
