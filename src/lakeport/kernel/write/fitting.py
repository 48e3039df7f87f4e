"""Fit user rows to a table's columns: names ignoring case, values converted to the table's types.

A value keeps its meaning or is rejected: numbers are never rounded to integers or truncated. Exceptions: doubles are
rounded to floats, and times are truncated to microseconds, Delta's precision. Time without a zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.errors import InvalidDataError
from lakeport.kernel.data_files import cast_moments
from lakeport.kernel.schema import is_variant_field
from lakeport.kernel.values import (
    child_arrays,
    child_fields,
    child_names,
    is_any_list,
    is_bytes,
    is_number,
    is_text,
    item_offsets,
    to_mask,
    visible_children,
    with_children,
    with_items,
)

_ALL_INTEGERS = pa.decimal128(20, 0)
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class RowName:
    """How error messages refer to a row."""

    text: str
    number: int | None = None
    """Position in the input, from 0; None for a row from elsewhere."""


RowNames = Callable[[int], RowName]
"""Names a row by its position in a batch."""


def count_from(first_row: int) -> RowNames:
    """For the rows of a stream after the first `first_row`."""
    return lambda row: RowName(f"row {first_row + row}", first_row + row)


def match_columns(names: list[str], fields: pa.Schema, parent: str = "") -> list[int | None]:
    """For each field, the index of the matching input column; None if it is missing. `parent` is the enclosing struct.

    Raises `InvalidDataError` for an unknown column and for a duplicate."""
    known = {field.name.lower(): index for index, field in enumerate(fields)}
    found: list[int | None] = [None] * len(fields)
    for index, name in enumerate(names):
        place = known.get(name.lower())
        full = f"{parent}.{name}" if parent else name
        if place is None:
            raise InvalidDataError(
                f"the table has no column {full!r}: {parent or 'it'} has {', '.join(fields.names)}; leave it out, or "
                "pass merge_schema=True to add it to the table",
                column=full,
            )
        if found[place] is not None:
            raise InvalidDataError(f"the column {full!r} is given twice", column=full)
        found[place] = index
    return found


def fit_column(array: pa.Array, target: pa.Field, name_row: RowNames) -> pa.Array:
    """Convert `array` to the type of `target`.

    Raises `InvalidDataError` naming the column and row that do not fit."""
    return _fit(array, target, target.name, name_row)


def _fit(array: pa.Array, target: pa.Field, name: str, row_of: RowNames) -> pa.Array:
    """`row_of` maps a position in the array to its row."""
    if types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if types.is_dictionary(array.type):
        array = _without_views(array.dictionary).take(array.indices)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == target.type:
        return array
    if types.is_nested(target.type) and not types.is_null(array.type):
        return _fit_nested(array, target, name, row_of)
    return _fit_values(array, target.type, name, row_of)


def _without_views(array: pa.Array) -> pa.Array:
    """Arrow cannot take items from view arrays."""
    if types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if types.is_binary_view(array.type) else array


def _fit_nested(array: pa.Array, target: pa.Field, name: str, row_of: RowNames) -> pa.Array:
    wanted, given = target.type, array.type
    if types.is_struct(wanted) and types.is_struct(given):
        return _fit_struct(array, target, name, row_of)
    is_list = types.is_list(wanted) and is_any_list(given)
    if not is_list and not (types.is_map(wanted) and types.is_map(given)):
        raise _misfit(name, given, wanted)
    offsets = item_offsets(array)
    children = [
        _fit(items, inner, f"{name}.{label}", _row_of_items(offsets, row_of))
        for items, inner, label in zip(visible_children(array), child_fields(wanted), child_names(wanted), strict=True)
    ]
    return with_items(array, wanted, offsets, children)


def _fit_struct(array: pa.StructArray, target: pa.Field, name: str, row_of: RowNames) -> pa.StructArray:
    places = match_columns([f.name for f in array.type], pa.schema(list(target.type)), name)
    if is_variant_field(target) and None in places:
        raise _misfit(name, array.type, target.type)
    given = visible_children(array)
    children = [
        pa.nulls(len(array), inner.type) if place is None else _fit(given[place], inner, f"{name}.{inner.name}", row_of)
        for inner, place in zip(target.type, places, strict=True)
    ]
    return with_children(array, target.type, children)


def _row_of_items(offsets: npt.NDArray[np.int64], row_of: Callable[[int], _Row]) -> Callable[[int], _Row]:
    return lambda item: row_of(int(np.searchsorted(offsets, item, side="right")) - 1)


def _fit_values(array: pa.Array, target: pa.DataType, name: str, row_of: RowNames) -> pa.Array:
    if types.is_null(array.type):
        return pa.nulls(len(array), target)
    if not _may_become(array.type, target):
        raise _misfit(name, array.type, target)
    cast = _time_cast(target) if types.is_timestamp(target) else _plain_cast(target)
    try:
        return cast(array)
    except pa.ArrowInvalid as error:
        index = _first_failure(array, cast)
        row = row_of(index)
        raise InvalidDataError(
            f"{row.text}: {format_cell(array[index])!r} in column {name!r} does not fit the table's type {target}: "
            f"{str(error).splitlines()[0]}; round or convert it first",
            column=name,
            row=row.number,
        ) from error


def format_cell(value: pa.Scalar) -> str:
    """Format a value for a message."""
    try:
        return str(value)[:80]
    except (OverflowError, ValueError):  # a time outside Python's range
        return str(value.value)


def format_row(rows: pa.RecordBatch, row: int, names: Sequence[str]) -> str:
    """Format some columns of a row for a message."""
    return f"({', '.join(f'{name} = {format_cell(rows.column(name)[row])}' for name in names)})"[:300]


def _plain_cast(target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def cast(array: pa.Array) -> pa.Array:
        if types.is_decimal(target) and types.is_integer(array.type):
            array = array.cast(_ALL_INTEGERS)  # from here on values decide, not the range of their type
        # Unsafe only from float to float, which rounds to the nearest value.
        return array.cast(target, safe=not (types.is_floating(target) and types.is_floating(array.type)))

    return cast


def _time_cast(target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def cast(array: pa.Array) -> pa.Array:
        if types.is_date(array.type):
            return array.cast(pa.timestamp("us")).view(target)
        return cast_moments(array, target, safe=True)

    return cast


def _may_become(source: pa.DataType, target: pa.DataType) -> bool:
    if is_number(target):
        return is_number(source)
    if types.is_timestamp(target):
        return bool(types.is_timestamp(source) or (types.is_date(source) and target.tz is None))
    if types.is_date(target):
        return bool(types.is_date(source))
    if types.is_string(target) or types.is_binary(target):
        return is_text(source) if types.is_string(target) else is_text(source) or is_bytes(source)
    return bool(source == target)


def _first_failure(array: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> int:
    """Find the first row that does not cast, by binary search."""
    start, end = 0, len(array)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            cast(array.slice(start, middle - start))
            start = middle
        except pa.ArrowInvalid:
            end = middle
    return start


def first_null(array: pa.Array, field: pa.Field) -> tuple[str, int] | None:
    """The first null where `field` is required, as dotted column name and row."""
    if not field.nullable and array.null_count:
        return field.name, int(to_mask(array.is_null()).argmax())
    children = child_fields(field.type)
    if is_variant_field(field) or not children:
        return None
    if types.is_struct(field.type):
        living = array.drop_null() if array.null_count else array
        found = next(filter(None, map(first_null, child_arrays(living), children)), None)
        return found and (f"{field.name}.{found[0]}", _row_of(array, found[1]))
    found = first_null(visible_children(array)[-1], children[-1])  # a map's keys are never null
    return found and (f"{field.name}.{found[0]}", _row_of_items(item_offsets(array), int)(found[1]))


def _row_of(array: pa.Array, living_row: int) -> int:
    """The row of the n-th non-null value."""
    return int(to_mask(array.is_valid()).nonzero()[0][living_row])


def _misfit(name: str, given: pa.DataType, wanted: pa.DataType) -> InvalidDataError:
    return InvalidDataError(
        f"the column {name!r} is {given} in the data, but {wanted} in the table; convert it first", column=name
    )
