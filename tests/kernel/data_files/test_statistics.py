"""Statistics of files: how the columns are found in them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa

from lakeport.kernel.data_files import FileStatistics, conform_parsed, format_stats, whole_stats_type
from lakeport.kernel.expressions import Column
from lakeport.testing.builder import struct

_COLUMNS = 200
_NAMES = [f"c{number}" for number in range(_COLUMNS)]


def wide_statistics() -> pa.StructArray:
    """Of three files; the second has bounds of no column, though values lie below."""
    mask = pa.array([False, True, False])
    values = pa.StructArray.from_arrays([pa.array([1, 2, None])] * _COLUMNS, names=_NAMES, mask=mask)
    names = ["numRecords", "minValues", "maxValues", "nullCount"]
    return pa.StructArray.from_arrays([pa.array([3, 3, 3]), values, values, values], names=names)


def allocations(work: Callable[[], object]) -> int:
    pool = pa.default_memory_pool()
    before = pool.num_allocations()
    work()
    return int(pool.num_allocations() - before)


def test_the_work_grows_with_the_columns_and_not_with_their_square() -> None:
    parsed = wide_statistics()
    statistics = FileStatistics(parsed, struct(**dict.fromkeys(_NAMES, "long")), "none")
    assert allocations(lambda: [statistics.bounds_of(Column((name,))) for name in _NAMES]) < 20 * _COLUMNS
    assert allocations(lambda: conform_parsed(parsed, parsed.type)) < 20 * _COLUMNS


def test_what_a_null_struct_has_below_it_is_unknown() -> None:
    bounds = FileStatistics(wide_statistics(), struct(c7="long"), "none").bounds_of(Column(("c7",)))
    assert bounds is not None
    assert bounds.lower is not None
    assert bounds.lower.to_pylist() == [1, None, None]


def test_a_column_without_statistics_has_no_bounds() -> None:
    schema = struct(other="long", c7=struct(inner="long"))
    statistics = FileStatistics(wide_statistics(), schema, "none")
    for path in (("other",), ("c7", "inner")):
        bounds = statistics.bounds_of(Column(path))
        assert bounds is not None
        assert (bounds.lower, bounds.upper, bounds.nulls) == (None, None, None)


def test_parsed_statistics_of_far_years_have_a_text() -> None:
    """A checkpoint may have no other form of them."""
    days = pa.array([3789391], pa.int32()).cast(pa.date32())
    columns = {"id": pa.array([1]), "day": days, "at": days.cast(pa.timestamp("us", "UTC"))}
    fields = whole_stats_type(struct(id="long", day="date", at="timestamp"), (), "none")
    bounds = pa.StructArray.from_arrays(list(columns.values()), fields=list(fields.field("minValues").type))
    parsed = pa.StructArray.from_arrays([pa.array([1]), bounds, bounds], names=["numRecords", "minValues", "maxValues"])
    text = json.loads(format_stats(conform_parsed(parsed, fields))[0].as_py())
    assert text["minValues"] == text["maxValues"] == {"id": 1, "day": "+12345-01-01", "at": "+12345-01-01T00:00:00Z"}
