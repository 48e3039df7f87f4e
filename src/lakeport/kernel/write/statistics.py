"""Collect a data file's statistics while it is written, in Spark's format."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lakeport.kernel.data_files import CUT_LENGTH, put_at
from lakeport.kernel.definition import INDEXED_COLUMNS, STATS_COLUMNS, Configuration
from lakeport.kernel.schema import PrimitiveType, StructField, StructType, leaves_of

_LAST_CHARACTER = "\U0010ffff"
_EPOCH = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)
_BOUNDED = (types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_timestamp, types.is_string)

_TREES = ("minValues", "maxValues", "nullCount")
_Path = tuple[str, ...]
_Way = tuple[StructField, ...]


def stats_columns(
    schema: StructType,
    partition_columns: Collection[str],
    mapping_mode: str,
    properties: Configuration,
    clustering_columns: Collection[_Path] = (),
) -> tuple[_Path, ...]:
    """The physical paths of the columns with statistics, in schema order.

    Covers `delta.dataSkippingStatsColumns`, or else the first `delta.dataSkippingNumIndexedCols`, and always the
    clustering columns (given as physical paths). Void columns are never stored, so they have none."""
    leaves = [way for way in leaves_of(schema) if way[0].name not in partition_columns]
    wanted = {_physical(way, mapping_mode) for way in _chosen(leaves, properties)} | set(clustering_columns)
    stored = [_physical(way, mapping_mode) for way in leaves if way[-1].type != PrimitiveType("void")]
    return tuple(path for path in stored if path in wanted)


def _chosen(leaves: list[_Way], properties: Configuration) -> list[_Way]:
    if (columns := STATS_COLUMNS.of(properties)) is not None:
        return _named(leaves, columns)
    limit = INDEXED_COLUMNS.of(properties)
    return leaves if limit < 0 else leaves[:limit]


def _named(leaves: list[_Way], columns: Iterable[_Path]) -> list[_Way]:
    """The leaves at or inside any of the columns; missing columns are ignored."""
    names = {tuple(part.lower() for part in path) for path in columns}
    lowered = ((way, tuple(f.name.lower() for f in way)) for way in leaves)
    return [way for way, path in lowered if any(path[:depth] in names for depth in range(1, len(path) + 1))]


def _physical(way: _Way, mapping_mode: str) -> _Path:
    return tuple(f.physical_name(mapping_mode) for f in way)


class StatsCollector:
    """Collects the statistics of one data file from the batches written to it."""

    def __init__(self, columns: Iterable[_Path], bounded: Collection[_Path] = ()) -> None:
        """`columns` are physical paths; each must be in every batch. The bounds of `bounded` ones are not looked for:
        `add_bounds` gives them."""
        self._columns = {path: _Summary() for path in columns}
        self._bounded = frozenset(bounded)
        self.num_records = 0
        """The number of rows added."""

    def add(self, batch: pa.RecordBatch, *, look_at_all: bool = False) -> None:
        """Add rows with physical names and the table's column types. With `look_at_all`, finds the bounds of `bounded`
        columns, too."""
        self.num_records += batch.num_rows
        for path, summary in self._columns.items():
            top = batch.column(path[0])
            column = pc.struct_field(top, path[1:]) if path[1:] else top  # unlike field(), keeps parents' nulls
            summary.add(column, look=look_at_all or path not in self._bounded)

    def add_bounds(self, path: _Path, bounds: tuple[Any, Any] | None) -> None:
        """Add the least and greatest of a `bounded` column's values in the batches; None if there are none."""
        if bounds is not None:
            self._columns[path].widen(*bounds)

    def to_json(self, tight: bool | None = True) -> str:
        """The text for an add action. `tight` says whether the bounds are tight; None omits it, as in tables without
        deletion vectors."""
        trees: dict[str, Any] = {name: {} for name in _TREES}
        self.add_to(trees)
        known: dict[str, Any] = {"numRecords": self.num_records} | {name: t for name, t in trees.items() if t}
        return msgspec.json.encode(known if tight is None else {**known, "tightBounds": tight}).decode()

    def add_to(self, trees: dict[str, Any]) -> None:
        """Put what is known of the columns into `_TREES`."""
        for path, summary in self._columns.items():
            for name, value in zip(_TREES, summary.statistics(), strict=True):
                if value is not None:
                    put_at(trees[name], path, value)


def replace_stats(stats_json: str | None, num_records: int, columns: Mapping[str, StatsCollector]) -> str:
    """A file's statistics after some columns have changed: what their collectors have of these, and what was known of
    the others."""
    known = _decoded(stats_json)
    trees = {name: _without(known.pop(name, None), columns) for name in _TREES}
    for collector in columns.values():
        collector.add_to(trees)
    found = {name: tree for name, tree in trees.items() if tree}
    return msgspec.json.encode({**known, "numRecords": num_records, **found}).decode()


def _decoded(stats_json: str | msgspec.Raw | None) -> dict[str, Any]:
    """An object whose values stay text, so that decimals keep their digits. Empty if it is missing or unreadable."""
    try:
        return msgspec.json.decode(stats_json or "", type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _without(tree: msgspec.Raw | None, columns: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in _decoded(tree).items() if name not in columns}


@dataclass(slots=True)
class _Summary:
    """Running statistics of one column. Dates and timestamps are Arrow's stored integers."""

    nulls: int = 0
    least: Any = None
    greatest: Any = None
    has_nan: bool = False
    type: pa.DataType | None = None

    def add(self, array: pa.Array, *, look: bool) -> None:
        self.type = array.type
        self.nulls += array.null_count
        if not look or array.null_count == len(array) or not any(is_a(array.type) for is_a in _BOUNDED):
            return
        least, greatest = _float_bounds(array) if types.is_floating(array.type) else _bounds(array)
        if greatest != greatest:
            self.has_nan = True
            least, greatest = _bounds(array)  # of the non-NaN values
        if least != least:  # all values are NaN
            return
        self.widen(least, greatest)

    def widen(self, least: Any, greatest: Any) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def statistics(self) -> tuple[Any, Any, int]:
        """The least and greatest value for JSON (None without a bound) and the number of nulls."""
        if self.type is None or self.least is None:
            return None, None, self.nulls
        # NaN is greater than all numbers: then no number is the greatest value, but the least is still a bound.
        greatest = None if self.has_nan else _format_bound(self.greatest, self.type, is_max=True)
        return _format_bound(self.least, self.type, is_max=False), greatest, self.nulls


def _bounds(array: pa.Array) -> tuple[Any, Any]:
    """The least and greatest value, ignoring NaN unless there is nothing else."""
    bounds = pc.min_max(array)
    return _ordered(bounds["min"]), _ordered(bounds["max"])


def _ordered(scalar: pa.Scalar) -> Any:
    """A Python value that sorts like the column: text by code point, the same order as its UTF-8 bytes."""
    return scalar.value if types.is_temporal(scalar.type) else scalar.as_py()


def _float_bounds(array: pa.Array) -> tuple[float, float]:
    """The least and greatest value; NaN if any is NaN. numpy is eight times as fast here as `pc.min_max`."""
    array = array.drop_null() if array.null_count else array
    kind = np.dtype(f"f{array.type.bit_width // 8}")
    values = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)
    return float(values.min()), float(values.max())


def _format_bound(value: Any, data_type: pa.DataType, *, is_max: bool) -> Any:
    """A bound as a JSON value; None if JSON or its readers cannot represent it."""
    if isinstance(value, str):
        return _cut_text(value, is_max)
    if types.is_timestamp(data_type):
        return _format_timestamp(value, data_type)
    if types.is_date(data_type):
        return _format_date(value)
    if isinstance(value, float):
        return _format_float(value, is_max)
    # Plain digits: not every reader accepts an exponent in a decimal.
    return msgspec.Raw(f"{value:f}".encode()) if isinstance(value, Decimal) else value


def _cut_text(text: str, is_max: bool) -> str | None:
    if len(text) <= CUT_LENGTH:
        return text
    if not is_max:
        return text[:CUT_LENGTH]
    # Replace the rest by the last of all characters, which must be greater than the text there.
    return None if text[CUT_LENGTH] == _LAST_CHARACTER else text[:CUT_LENGTH] + _LAST_CHARACTER


def _format_timestamp(microseconds: int, data_type: pa.DataType) -> str | None:
    """Truncated to milliseconds, even for the greatest value: readers widen it."""
    try:
        moment = _EPOCH + microseconds // 1000 * _MILLISECOND
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds") + ("" if data_type.tz is None else "Z")


def _format_date(days: int) -> str | None:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()
    except (OverflowError, ValueError):
        return None


def _format_float(value: float, is_max: bool) -> float | None:
    if not math.isfinite(value):
        return None
    return value or (0.0 if is_max else -0.0)  # readers disagree on whether the zeros are equal


def widen_stats(stats_json: str | None) -> str | None:
    """The statistics of a file that gets a deletion vector: its bounds are no longer tight.

    None for missing or unreadable statistics."""
    try:
        known = msgspec.json.decode(stats_json or "", type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return None
    return msgspec.json.encode({**known, "tightBounds": False}).decode()
