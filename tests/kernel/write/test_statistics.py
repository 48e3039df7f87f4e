"""Statistics as they are written: what Spark would write, and bounds that hold every value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine import memory_engine
from lakeport.kernel.data_files import FileStatistics, may_match, stats_type
from lakeport.kernel.expressions import Column, Comparison, Not, col, lit
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructType, arrow_schema, arrow_type
from lakeport.kernel.values import to_mask
from lakeport.kernel.write import StatsCollector, replace_stats, stats_columns, widen_stats
from lakeport.testing.builder import mapped, spark_stats, struct, to_table
from tests.examples import examples

LAST = "\U0010ffff"


def collect(schema: pa.Schema, data: dict[str, list[Any]], columns: list[tuple[str, ...]], batch_size: int = 3) -> str:
    collector = StatsCollector(columns)
    for batch in to_table(data, schema).to_batches(batch_size):
        collector.add(batch)
    return collector.to_json(None)


def stats_of(kind: str, values: list[Any], batch_size: int = 3) -> dict[str, Any]:
    text = collect(arrow_schema(struct(c=kind)), {"c": values}, [("c",)], batch_size)
    stats: dict[str, Any] = json.loads(text)
    return stats


# Which columns


def test_the_first_columns_get_statistics_and_partition_columns_do_not_count() -> None:
    schema = struct(p="date", a="long", s=struct(x="long", y=struct(z="string")), b="long")
    assert stats_columns(schema, ["p"], "none", {"delta.dataSkippingNumIndexedCols": "3"}) == (
        ("a",),
        ("s", "x"),
        ("s", "y", "z"),
    )


def test_there_are_thirty_two_by_default_and_minus_one_means_all() -> None:
    schema = struct(**{f"c{i}": "long" for i in range(40)})
    assert len(stats_columns(schema, [], "none", {})) == 32
    assert len(stats_columns(schema, [], "none", {"delta.dataSkippingNumIndexedCols": "-1"})) == 40
    assert stats_columns(schema, [], "none", {"delta.dataSkippingNumIndexedCols": "0"}) == ()


def test_lists_maps_and_variants_are_one_column_and_void_is_none_but_counts() -> None:
    inner = struct(x="long", y="long")
    schema = struct(l=ArrayType(inner), m=MapType(PrimitiveType("string"), inner), v="variant", n="void", z="long")
    assert stats_columns(schema, [], "none", {}) == (("l",), ("m",), ("v",), ("z",))
    assert stats_columns(schema, [], "none", {"delta.dataSkippingNumIndexedCols": "4"}) == (("l",), ("m",), ("v",))


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("b", [("b",)]),
        ("B, s", [("b",), ("s", "x"), ("s", "y.z")]),
        ("s.x", [("s", "x")]),
        ("s.`y.z`,`a,b`", [("a,b",), ("s", "y.z")]),
        ("gone, b", [("b",)]),
        ("p,b", [("b",)]),
        ("", []),
    ],
)
def test_a_list_of_columns_comes_before_their_number(listed: str, expected: list[tuple[str, ...]]) -> None:
    schema = struct(**{"p": "long", "a,b": "long", "b": "long", "s": struct(**{"x": "long", "y.z": "long"})})
    properties = {"delta.dataSkippingStatsColumns": listed, "delta.dataSkippingNumIndexedCols": "1"}
    assert list(stats_columns(schema, ["p"], "none", properties)) == expected


def test_paths_are_physical_and_clustering_columns_always_among_them() -> None:
    schema = mapped(struct(a="long", s=struct(x="long"), b="long"))
    limited = {"delta.dataSkippingNumIndexedCols": "1"}
    assert stats_columns(schema, [], "name", limited) == (("col-1",),)
    assert stats_columns(schema, [], "id", limited, [("col-2", "col-3")]) == (("col-1",), ("col-2", "col-3"))
    assert stats_columns(schema, [], "none", limited) == (("a",),)


# What they say


def test_statistics_are_those_that_spark_writes() -> None:
    schema = struct(
        i="integer",
        t="string",
        d="decimal(38,10)",
        day="date",
        at="timestamp",
        local="timestamp_ntz",
        flag="boolean",
        raw="binary",
        s=struct(x="double", l=ArrayType(PrimitiveType("long"))),
    )
    now = datetime(2026, 1, 2, 3, 4, 5, 678901)
    data: dict[str, list[Any]] = {
        "i": [3, None, -5, 2**31 - 1],
        "t": ["é", None, "a" * 33, "z" * 40],
        "d": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001"), None, Decimal(0)],
        "day": [date(1, 1, 1), date(9999, 12, 31), None, None],
        "at": [now.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None, None],
        "local": [now, None, None, datetime(1, 1, 1, microsecond=1)],
        "flag": [True, None, False, None],
        "raw": [b"x", None, None, None],
        "s": [None, {"x": 1.5, "l": [1]}, {"x": None, "l": None}, {"x": -2.25, "l": []}],
    }
    ours = collect(arrow_schema(schema), data, list(stats_columns(schema, [], "none", {})))
    theirs = spark_stats(to_table(data, arrow_schema(schema)))
    expected = msgspec.json.Encoder(decimal_format="number").encode(theirs)
    assert json.loads(ours, parse_float=Decimal) == json.loads(expected, parse_float=Decimal)
    assert list(json.loads(ours)) == ["numRecords", "minValues", "maxValues", "nullCount"]


def test_tight_bounds_are_said_only_if_wanted() -> None:
    collector = StatsCollector([])
    assert [json.loads(collector.to_json(tight)) for tight in (True, False, None)] == [
        {"numRecords": 0, "tightBounds": True},
        {"numRecords": 0, "tightBounds": False},
        {"numRecords": 0},
    ]


def test_columns_of_nulls_and_no_rows_have_a_null_count_and_no_bounds() -> None:
    assert stats_of("long", [None, None]) == {"numRecords": 2, "nullCount": {"c": 2}}
    assert stats_of("string", []) == {"numRecords": 0, "nullCount": {"c": 0}}
    assert stats_of("double", [None, None, None, 1.0])["minValues"] == {"c": 1.0}


def test_a_variant_has_a_null_count() -> None:
    field = arrow_schema(struct(v="variant")).field("v")
    array = pa.array([{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None], field.type)
    collector = StatsCollector([("v",)])
    collector.add(pa.record_batch([array], schema=pa.schema([field])))
    assert json.loads(collector.to_json(None)) == {"numRecords": 2, "nullCount": {"v": 1}}


def test_values_under_a_null_struct_do_not_count() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 2, 99])], ["x"], mask=pa.array([False, False, True]))
    collector = StatsCollector([("s", "x")])
    collector.add(pa.record_batch([hidden], ["s"]).slice(1))
    expected = {
        "numRecords": 2,
        "minValues": {"s": {"x": 2}},
        "maxValues": {"s": {"x": 2}},
        "nullCount": {"s": {"x": 1}},
    }
    assert json.loads(collector.to_json(None)) == expected


@pytest.mark.parametrize(
    ("text", "least", "greatest"),
    [
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 33, "a" * 32, "a" * 32 + LAST),
        ("😀" * 33, "😀" * 32, "😀" * 32 + LAST),
        ("a" * 32 + LAST + "b", "a" * 32, None),
    ],
)
def test_long_text_is_cut_between_characters(text: str, least: str, greatest: str | None) -> None:
    stats = stats_of("string", [text])
    assert stats["minValues"] == {"c": least}
    assert stats.get("maxValues", {}).get("c") == greatest


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([1.0, NAN, -2.0], -2.0, None),
        ([NAN, NAN], None, None),
        ([NAN, NAN, NAN, 4.0], 4.0, None),
        ([-INF, 1.0], None, 1.0),
        ([1.0, INF], 1.0, None),
        ([0.5, -0.25], -0.25, 0.5),
    ],
)
def test_numbers_that_json_does_not_have_are_no_bounds(
    kind: str, values: list[float], least: float | None, greatest: float | None
) -> None:
    stats = stats_of(kind, values)
    assert (stats.get("minValues", {}).get("c"), stats.get("maxValues", {}).get("c")) == (least, greatest)


@pytest.mark.parametrize("values", [[0.0], [-0.0], [0.0, -0.0]])
def test_zero_is_bounded_by_its_two_signs(values: list[float]) -> None:
    text = collect(arrow_schema(struct(c="double")), {"c": values}, [("c",)])
    assert '"minValues":{"c":-0.0},"maxValues":{"c":0.0}' in text


@pytest.mark.parametrize(
    ("data_type", "unscaled"),
    [(pa.timestamp("us", "UTC"), 2**63 - 1), (pa.timestamp("us"), -(2**63)), (pa.date32(), -(2**31))],
)
def test_times_that_no_calendar_has_are_no_bounds(data_type: pa.DataType, unscaled: int) -> None:
    storage = pa.int32() if pa.types.is_date(data_type) else pa.int64()
    collector = StatsCollector([("c",)])
    collector.add(pa.record_batch([pa.array([unscaled], storage).view(data_type)], ["c"]))
    assert json.loads(collector.to_json(None)) == {"numRecords": 1, "nullCount": {"c": 0}}


def test_decimals_are_exact_and_plain() -> None:
    text = collect(arrow_schema(struct(c="decimal(38,37)")), {"c": [Decimal("1E-37"), Decimal(1)]}, [("c",)])
    assert f'"minValues":{{"c":0.{"0" * 36}1}},"maxValues":{{"c":1.{"0" * 37}}}' in text


def test_bounds_that_the_encoder_knows_are_those_that_values_have() -> None:
    schema = arrow_schema(struct(t="string", d="decimal(38,2)", n="long", f="double"))
    values: dict[str, list[Any]] = {"t": ["b", None, "a" * 40], "d": [Decimal("1.5"), None, Decimal(-2)]}
    values |= {"n": [1, 2, 3], "f": [0.0, NAN, 1.0]}
    columns = [(name,) for name in values]
    collector = StatsCollector(columns, bounded=[("t",), ("d",)])
    collector.add(to_table(values, schema).to_batches()[0])
    collector.add_bounds(("t",), ("a" * 40, "b"))
    collector.add_bounds(("d",), (Decimal(-2), Decimal("1.5")))
    assert json.loads(collector.to_json(None)) == json.loads(collect(schema, values, columns))
    collector = StatsCollector([("t",)], bounded=[("t",)])
    collector.add(pa.record_batch({"t": pa.array([None], pa.string())}))
    collector.add_bounds(("t",), None)
    assert json.loads(collector.to_json(None)) == {"numRecords": 1, "nullCount": {"t": 1}}


# Wide bounds


def test_wide_statistics_keep_every_digit() -> None:
    text = '{"numRecords":3,"minValues":{"c":1.000000000000000000000001},"tightBounds":true}'
    assert widen_stats(text) == text.replace("true", "false")
    assert widen_stats('{"numRecords":3}') == '{"numRecords":3,"tightBounds":false}'


@pytest.mark.parametrize("text", [None, "", "[]", '{"numRecords":'])
def test_statistics_that_cannot_be_read_have_no_wide_form(text: str | None) -> None:
    assert widen_stats(text) is None


# What readers make of them

_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_texts = st.text(max_size=3) | st.builds(
    lambda n, tail: "a" * n + tail,
    st.integers(30, 34),
    st.text(st.sampled_from(f"a\x7fé\ud7ff\ue000😀{LAST}"), max_size=3),
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(-128, 127),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")),
    "string": _texts,
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC))
    | st.integers(-3000, 3000).map(lambda n: _DAY + timedelta(0, 0, n)),
    "timestamp_ntz": st.datetimes(),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=2),
}


def read_back(schema: StructType, text: str, columns: list[Column]) -> FileStatistics:
    wanted = pa.schema(list(stats_type(schema, columns, "none")))
    parsed = memory_engine().json.parse_json(pa.array([text]), wanted)
    return FileStatistics(parsed.to_struct_array(), schema, "none")


@pytest.mark.parametrize("kind", _VALUES)
@examples(60)
@given(data=st.data())
def test_no_value_is_ever_ruled_out_by_its_own_statistics(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | _VALUES[kind], min_size=1, max_size=6))
    schema = struct(s=struct(c=kind))
    text = collect(arrow_schema(schema), {"s": [{"c": v} for v in values]}, [("s", "c")], data.draw(st.integers(1, 6)))
    column = col(("s", "c"))
    statistics = read_back(schema, text, [column])
    for value in values:
        tests = [column.is_null()] if value is None else [Not(column.is_null())]
        if value is not None and not (isinstance(value, float) and value != value):
            tests += [Comparison(op, column, lit(value)) for op in ("=", "<=", ">=", "<=>")]
        for predicate in tests:
            assert may_match(predicate, statistics.bounds_of, 1).all(), (predicate, text)


@pytest.mark.parametrize("kind", ["byte", "long", "string", "date", "timestamp", "timestamp_ntz", "decimal(38,10)"])
@examples(30)
@given(data=st.data())
def test_bounds_hold_every_value(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(_VALUES[kind], min_size=1, max_size=6))
    schema = struct(c=kind)
    text = collect(arrow_schema(schema), {"c": values}, [("c",)])
    bounds = read_back(schema, text, [col("c")]).bounds_of(col("c"))
    assert bounds is not None
    assert bounds.lower is not None
    array = pa.array(values, arrow_type(PrimitiveType(kind)))
    assert to_mask(pc.less_equal(bounds.lower[0], array)).all()
    if bounds.upper is not None and bounds.upper[0].is_valid:
        assert to_mask(pc.greater_equal(bounds.upper[0], array)).all()


def test_statistics_of_columns_with_new_values_replace_the_known_ones() -> None:
    known = (
        '{"numRecords":3,"minValues":{"a":1,"d":12345678901234567890.123,"s":{"x":1,"y":2}},"maxValues":{"a":9},'
        '"nullCount":{"a":0,"s":{"x":1}},"tightBounds":true}'
    )
    new = StatsCollector([("a",)])
    new.add(pa.record_batch({"a": pa.array([None, None, 7])}))
    assert replace_stats(known, 3, {"a": new, "s": StatsCollector([])}) == (
        '{"numRecords":3,"tightBounds":true,"minValues":{"d":12345678901234567890.123,"a":7},"maxValues":{"a":7},'
        '"nullCount":{"a":2}}'
    )


@pytest.mark.parametrize("known", [None, "", "{", "null", '{"minValues":5,"nullCount":null}'])
def test_unreadable_statistics_are_replaced(known: str | None) -> None:
    new = StatsCollector([("a",)])
    new.add(pa.record_batch({"a": pa.array([7])}))
    expected = {"numRecords": 1, "minValues": {"a": 7}, "maxValues": {"a": 7}, "nullCount": {"a": 0}}
    assert json.loads(replace_stats(known, 1, {"a": new})) == expected
