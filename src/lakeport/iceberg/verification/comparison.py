"""Comparison of two streams of positions or rows, however they are split into batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from lakeport.kernel.values import is_any_list, is_bytes, is_text

_NAN = "not a number"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def first_other_position(one: Iterable[npt.NDArray[np.uint64]], other: Iterable[npt.NDArray[np.uint64]]) -> int | None:
    """The first position that is in only one of two ascending streams; None if they are equal."""
    left = right = np.zeros(0, dtype=np.uint64)
    ones, others = (iter(part for part in parts if len(part)) for parts in (one, other))
    while True:
        left = next(ones, left) if not len(left) else left
        right = next(others, right) if not len(right) else right
        length = min(len(left), len(right))
        if not length:
            rest = left if len(left) else right
            return int(rest[0]) if len(rest) else None
        differing = np.flatnonzero(left[:length] != right[:length])
        if len(differing):
            return int(min(left[differing[0]], right[differing[0]]))
        left, right = left[length:], right[length:]


def other_columns(one: pa.Schema, other: pa.Schema) -> str | None:
    """How the columns of the second schema differ, in order too; None if they are equal. Types differ only if they hold
    different values."""
    if what := _other_names(one.names, other.names):
        return what
    if one.names != other.names:
        return f"the columns are in the order {', '.join(other.names)}"
    for field, found in zip(one, other, strict=True):
        if _kind(field.type) != _kind(found.type):
            return f"the column {field.name!r} is of the type {found.type}, not {field.type}"
    return None


def first_other_row(one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]) -> tuple[int, str] | None:
    """The first row, counted from 0, in which two streams differ, and the difference; None if they are equal.

    Columns are compared by name, in any order, and by value, not by Arrow type. NaN equals NaN. A null list or map of
    structs equals an empty one: pyiceberg (0.12) turns one into the other."""
    row = 0
    for left, right in _side_by_side(one, other):
        if left is None or right is None:
            return row, "there is no such row" if right is None else "there are more rows"
        if what := _other_names(left.schema.names, right.schema.names):
            return row, what
        for name in left.schema.names:
            if (index := _first_difference(left.column(name), right.column(name))) is not None:
                return row + index, f"the column {name!r} differs"
        row += left.num_rows
    return None


def _other_names(one: list[str], other: list[str]) -> str | None:
    for name in one:
        if name not in other:
            return f"there is no column {name!r}"
    for name in other:
        if name not in one:
            return f"there is an extra column {name!r}"
    return None


def _side_by_side(
    one: Iterable[pa.RecordBatch], other: Iterable[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
    """Both streams in batches of equal length; None for the one that ends first."""
    ones, others = (iter(batch for batch in batches if batch.num_rows) for batches in (one, other))
    left, right = next(ones, None), next(others, None)
    while left is not None and right is not None:
        length = min(left.num_rows, right.num_rows)
        yield left.slice(0, length), right.slice(0, length)
        left = left.slice(length) if left.num_rows > length else next(ones, None)
        right = right.slice(length) if right.num_rows > length else next(others, None)
    if left is not None or right is not None:
        yield left, right


def _first_difference(left: pa.Array, right: pa.Array) -> int | None:
    if _as(right, left.type).equals(left):
        return None
    pairs = zip(map(comparable, left), map(comparable, right), strict=True)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), None)


def _as(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The array in another type of the same kind, if Arrow can cast it; other arrays are compared value by value."""
    try:
        return array.cast(data_type) if _kind(array.type) == _kind(data_type) else array
    except pa.ArrowException:
        return array


def _kind(data_type: pa.DataType) -> Any:
    """Equal for types that differ only in width, and that Arrow casts without loss."""
    if types.is_integer(data_type) or types.is_decimal(data_type):
        return "decimal" if types.is_decimal(data_type) else "integer"
    if is_text(data_type):
        return "text"
    if is_bytes(data_type):
        return "bytes"
    if is_any_list(data_type):
        return [_kind(data_type.value_type)]
    if types.is_map(data_type):
        return _kind(data_type.key_type), _kind(data_type.item_type)
    if types.is_struct(data_type):
        return [(field.name, _kind(field.type)) for field in data_type]
    return str(data_type)


def without_views(column: pa.Array) -> pa.Array:
    """The column in a type that all Arrow functions support."""
    if types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if types.is_binary_view(column.type) else column


def comparable(scalar: pa.Scalar) -> Any:
    """Equal for values that `first_other_row` treats as equal. Times are numbers: Python lacks some of them."""
    data_type = scalar.type
    if not scalar.is_valid:
        return [] if _holds_structs(data_type) else None
    if types.is_map(data_type):
        return [(comparable(entry[0]), comparable(entry[1])) for entry in scalar.values]
    if is_any_list(data_type):
        return [comparable(item) for item in scalar.values]
    if types.is_struct(data_type):
        return {field.name: comparable(scalar[field.name]) for field in data_type}
    if types.is_timestamp(data_type):
        return scalar.value * _NANOSECONDS[data_type.unit]
    if types.is_date32(data_type):
        return scalar.value
    value = scalar.as_py()
    return _NAN if isinstance(value, float) and math.isnan(value) else value


def _holds_structs(data_type: pa.DataType) -> bool:
    if types.is_map(data_type):
        return bool(types.is_struct(data_type.item_type))
    return is_any_list(data_type) and bool(types.is_struct(data_type.value_type))
