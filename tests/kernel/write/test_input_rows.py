"""Rows that people give keep their meaning in the table's types, or are refused with the column and the row."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import InvalidDataError
from lakeport.kernel.write import fit_column, match_columns
from lakeport.kernel.write.fitting import count_from, first_null

UTC_TIME = pa.timestamp("us", "UTC")
NTZ = pa.timestamp("us")
NOON = datetime(2026, 1, 1, 12, 0, 0, 123456)


def fit(array: pa.Array, target: pa.DataType, first_row: int = 0) -> pa.Array:
    fitted = fit_column(array, pa.field("c", target), count_from(first_row))
    assert fitted.type == target
    fitted.validate(full=True)
    return fitted


def refused(array: pa.Array, target: pa.DataType, first_row: int = 0) -> InvalidDataError:
    with pytest.raises(InvalidDataError) as caught:
        fit(array, target, first_row)
    return caught.value


@pytest.mark.parametrize(
    ("given", "target", "expected"),
    [
        (pa.array([1, None], pa.int8()), pa.int64(), [1, None]),
        (pa.array([1, None], pa.int64()), pa.int8(), [1, None]),
        (pa.array([2**63 - 1], pa.uint64()), pa.int64(), [2**63 - 1]),
        (pa.array([2.0, -3.0]), pa.int32(), [2, -3]),
        (pa.array([0.1]), pa.float32(), [pytest.approx(0.1)]),
        (pa.array([7]), pa.float64(), [7.0]),
        (pa.array([7]), pa.decimal128(5, 2), [Decimal("7.00")]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), pa.decimal128(38, 18), [Decimal("1.5")]),
        (pa.array([Decimal("1.50")], pa.decimal256(40, 2)), pa.decimal128(3, 1), [Decimal("1.5")]),
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array(["a", "ü"], pa.string_view()), pa.string(), ["a", "ü"]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), pa.string(), ["a", "b", "a", None]),
        (
            pa.DictionaryArray.from_arrays([1, None, 0], pa.array(["a", "b"], pa.string_view())),
            pa.string(),
            ["b", None, "a"],
        ),
        (pa.DictionaryArray.from_arrays([1, 0], pa.array([b"a", b"b"], pa.binary_view())), pa.binary(), [b"b", b"a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode().slice(1), pa.string(), ["b", "a"]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), pa.string(), ["a", "a", "b"]),
        (pa.array([b"a"], pa.large_binary()), pa.binary(), [b"a"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (pa.array([b"ab"], pa.binary_view()), pa.binary(), [b"ab"]),
        (pa.array(["a"]), pa.binary(), [b"a"]),
        (pa.nulls(2), pa.date32(), [None, None]),
        (pa.nulls(1), pa.list_(pa.int64()), [None]),
        (pa.array([date(2026, 1, 2)], pa.date64()), pa.date32(), [date(2026, 1, 2)]),
        (pa.array([True, None]), pa.bool_(), [True, None]),
    ],
)
def test_a_value_keeps_its_meaning_in_the_tables_type(
    given: pa.Array, target: pa.DataType, expected: list[Any]
) -> None:
    assert fit(given, target).to_pylist() == expected


@pytest.mark.parametrize(
    ("given", "target", "expected"),
    [
        (pa.array([NOON], pa.timestamp("us", "Europe/Oslo")), UTC_TIME, NOON.replace(tzinfo=UTC)),
        (pa.array([NOON], pa.timestamp("us")), UTC_TIME, NOON.replace(tzinfo=UTC)),
        (pa.array([NOON], pa.timestamp("us", "UTC")), NTZ, NOON),
        (pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")), UTC_TIME, 1_700_000_000_123_456),
        (pa.array([-1], pa.timestamp("ns")), NTZ, -1),
        (pa.array([1_700_000_000_123], pa.timestamp("ms", "+02:00")), UTC_TIME, 1_700_000_000_123_000),
        (pa.array([1_700_000_000], pa.timestamp("s")), NTZ, 1_700_000_000_000_000),
        (pa.array([date(1969, 12, 31)]), NTZ, -86_400_000_000),
    ],
)
def test_times_are_counted_in_microseconds_and_zones_only_label_them(
    given: pa.Array, target: pa.DataType, expected: Any
) -> None:
    fitted = fit(pa.concat_arrays([given, pa.nulls(1, given.type)]), target)
    assert fitted[1].as_py() is None
    assert fitted[0].value == expected if isinstance(expected, int) else fitted[0].as_py() == expected


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (pa.array([0, 1, 128]), pa.int8()),
        (pa.array([0, 1, -(2**31) - 1]), pa.int32()),
        (pa.array([0, 1, 2**63], pa.uint64()), pa.int64()),
        (pa.array([0.0, 1.0, 1.5]), pa.int64()),
        (pa.array([0.0, 1.0, float("nan")]), pa.int64()),
        (pa.array([0, 1, 1000]), pa.decimal128(5, 2)),
        (pa.array([Decimal("0.00"), Decimal("1.10"), Decimal("1.15")]), pa.decimal128(5, 1)),
        (pa.array([0, 1, 2**62], pa.timestamp("s")), NTZ),
        (pa.array([b"", b"a", b"\xff"]), pa.string()),
        (pa.array(["", "a", "b"]), pa.int64()),
    ],
)
def test_a_value_that_does_not_fit_is_refused(given: pa.Array, target: pa.DataType) -> None:
    error = refused(given, target, first_row=100)
    assert error.column == "c"
    if error.row is None:
        assert f"is {given.type} in the data, but {target} in the table" in str(error)
    else:
        assert error.row == 102
        assert str(error).startswith("row 102: ")
        assert f"in column 'c' does not fit the table's type {target}: " in str(error)


@pytest.mark.parametrize("target", [pa.string(), pa.bool_(), pa.date32(), UTC_TIME, pa.binary(), pa.list_(pa.int64())])
def test_kinds_of_types_do_not_mix(target: pa.DataType) -> None:
    error = refused(pa.array([1, 2]), target)
    assert str(error) == f"the column 'c' is int64 in the data, but {target} in the table; convert it first"
    refused(pa.array([{"x": 1}]), target)


def test_a_date_is_no_moment() -> None:
    refused(pa.array([date(2026, 1, 1)]), UTC_TIME)


POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])


def test_fields_of_structs_are_matched_by_name_and_missing_ones_are_null() -> None:
    assert fit(pa.array([{"Y": 1}, None, {"Y": None}]), POINT).to_pylist() == [
        {"x": None, "y": 1},
        None,
        {"x": None, "y": None},
    ]
    error = refused(pa.array([{"x": 1, "z": 2}]), POINT)
    assert error.column == "c.z"


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_lists_of_every_kind_become_lists(kind: Any) -> None:
    rows = [[1, None], None, [], [3]]
    assert fit(pa.array(rows, kind(pa.int64())), pa.list_(pa.int16())).to_pylist() == rows


def test_lists_of_fixed_size_become_lists() -> None:
    rows = [[1, 2], None, [3, 4]]
    assert fit(pa.array(rows, pa.list_(pa.int64(), 2)), pa.list_(pa.int64())).to_pylist() == rows


@pytest.mark.parametrize(
    ("rows", "target", "column"),
    [
        ([[1, 2], None, [], [3, 300], [400]], pa.list_(pa.int8()), "c.element"),
        ([{"x": 1}, None, {"x": None}, {"x": 2**40}, {"x": 2**41}], POINT, "c.x"),
        ([[{"x": 1}], None, [], [None, {"x": 2**40}], []], pa.list_(POINT), "c.element.x"),
        ([[[1]], [None], [[], None], [[2], [], [300]], [[400]]], pa.list_(pa.list_(pa.int8())), "c.element.element"),
    ],
)
def test_a_nested_value_that_does_not_fit_is_told_with_its_row(rows: Any, target: pa.DataType, column: str) -> None:
    error = refused(pa.array(rows), target, first_row=10)
    assert (error.row, error.column) == (13, column)


@pytest.mark.parametrize(("key", "value", "column"), [(2**40, 1, "c.key"), (1, 2**40, "c.value")], ids=["key", "value"])
def test_an_entry_of_a_map_that_does_not_fit_is_told_with_its_row(key: int, value: int, column: str) -> None:
    maps = pa.array([[(1, 1)], None, [], [(2, 2), (key, value)]], pa.map_(pa.int64(), pa.int64()))
    error = refused(maps, pa.map_(pa.int32(), pa.int32()), first_row=10)
    assert (error.row, error.column) == (13, column)


def test_what_a_slice_or_a_null_hides_is_not_looked_at() -> None:
    lists = pa.array([[300], [1], [2], [400]]).slice(1, 2)
    assert fit(lists, pa.list_(pa.int8())).to_pylist() == [[1], [2]]
    maps = pa.array([[(300, 1)], [(1, 1)], [(400, 1)]], pa.map_(pa.int64(), pa.int64())).slice(1, 1)
    assert fit(maps, pa.map_(pa.int8(), pa.int8())).to_pylist() == [[(1, 1)]]
    hidden = pa.StructArray.from_arrays([pa.array([300, 1])], ["x"], mask=pa.array([True, False]))
    assert fit(hidden, pa.struct([("x", pa.int8())])).to_pylist() == [None, {"x": 1}]
    under_null = pa.ListArray.from_arrays([0, 1, 2], pa.array([300, 1]), mask=pa.array([True, False]))
    assert fit(under_null, pa.list_(pa.int8())).to_pylist() == [None, [1]]


nested_values = st.lists(
    st.none() | st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-100, 100)}), max_size=3),
    max_size=6,
)


@given(rows=nested_values, data=st.data())
def test_any_part_of_nested_rows_survives(rows: list[Any], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    array = pa.array(rows, pa.list_(pa.struct([("x", pa.int64())])))
    fitted = fit(array.slice(start), pa.list_(pa.struct([("x", pa.int8())])))
    assert fitted.to_pylist() == rows[start:]


def test_columns_are_matched_regardless_of_case() -> None:
    fields = pa.schema([("Id", pa.int64()), ("name", pa.string())])
    assert match_columns(["NAME", "id"], fields) == [1, 0]
    assert match_columns(["name"], fields) == [None, 0]


def test_columns_that_are_unknown_or_given_twice_are_refused() -> None:
    fields = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with pytest.raises(
        InvalidDataError, match="the table has no column 'nam': it has id, name; leave it out"
    ) as caught:
        match_columns(["id", "nam"], fields)
    assert caught.value.column == "nam"
    with pytest.raises(InvalidDataError, match="the column 'ID' is given twice"):
        match_columns(["id", "ID"], fields)


def required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


@pytest.mark.parametrize(
    ("field", "rows", "expected"),
    [
        (required("c", pa.int64()), [1, None, None], ("c", 1)),
        (pa.field("c", pa.struct([required("x", pa.int64())])), [None, {"x": 1}, {"x": None}], ("c.x", 2)),
        (pa.field("c", pa.struct([required("x", pa.int64())])), [None, {"x": 1}], None),
        (pa.field("c", pa.list_(required("element", pa.int64()))), [None, [], [1], [2, None]], ("c.element", 3)),
        (
            pa.field("c", pa.list_(pa.field("element", pa.struct([required("x", pa.int64())])))),
            [None, [None], [{"x": 1}], [None, {"x": None}]],
            ("c.element.x", 3),
        ),
        (
            pa.field("c", pa.map_(pa.string(), required("value", pa.int64()))),
            [None, [("a", 1)], [], [("a", 1), ("b", None)]],
            ("c.value", 3),
        ),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_the_first_null_where_none_may_be_is_found(
    field: pa.Field, rows: list[Any], expected: tuple[str, int] | None, start: int
) -> None:
    nullable = pa.array(rows, _nullable(field.type))
    found = first_null(nullable.slice(start), field)
    assert found == (None if expected is None else (expected[0], expected[1] - start))


def _nullable(data_type: pa.DataType) -> pa.DataType:
    """The type with nulls allowed everywhere, so that pyarrow makes an array of them."""
    if pa.types.is_struct(data_type):
        return pa.struct([(f.name, _nullable(f.type)) for f in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, _nullable(data_type.item_type))
    return pa.list_(_nullable(data_type.value_type)) if pa.types.is_list(data_type) else data_type
