"""What `update` and `merge` set columns to: what is given keeps its meaning, and no digit is lost unasked."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import lit, tables
from lakeport.errors import InvalidDataError, InvalidFilterError
from tests.properties import VECTORS

MONEY = pa.decimal128(10, 2)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("l", pa.list_(pa.int32())),
        ("st", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("x", pa.string())])))])),
        ("m", pa.map_(pa.string(), pa.struct([("y", pa.float64())]))),
    ]
)


def table_with(tmp_path: Path, kind: pa.DataType) -> str:
    """A table with a row of `id` 3 and `v` null."""
    path = str(tmp_path / "t")
    tables.create(path, schema=pa.schema([("id", pa.int64()), ("v", kind)]), properties=VECTORS)
    tables.append(path, {"id": [3]})
    return path


def values_of(path: str) -> list[Any]:
    found: list[Any] = lakeport.scan(path).to_arrow().sort_by("id")["v"].to_pylist()
    return found


def set_by_update(path: str, value: Any) -> None:
    tables.update(path, {"v": value})


def set_by_merge(path: str, value: Any) -> None:
    tables.merge(path, {"key": [3]}, "target.id = source.key").when_matched_update({"v": value}).execute()


def set_by_insert(path: str, value: Any) -> None:
    """The new row takes the place of the old one."""
    merge = tables.merge(path, {"id": [3], "no": [0]}, "target.id = source.no")
    merge.when_not_matched_insert({"id": "source.id", "v": value}).when_not_matched_by_source_delete().execute()


each_way = pytest.mark.parametrize("set_value", [set_by_update, set_by_merge, set_by_insert])


@each_way
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 7.9),
        (pa.int32(), Decimal("7.9")),
        (pa.int32(), 2**40),
        (pa.int32(), lit(7.9)),
        (pa.int32(), "7.9"),
        (pa.int32(), "id / 2"),
        (pa.int32(), "CASE WHEN id > 0 THEN 0.5 ELSE 1 END"),
        (pa.int8(), "id * 100"),
        (MONEY, Decimal("1.005")),
        (MONEY, "id * 1.005"),
        (pa.date32(), NOON),
        (pa.date32(), "TIMESTAMP'2026-01-02 12:00:00'"),
        (pa.string(), 5),
        (pa.string(), "id"),
        (pa.timestamp("us", "UTC"), date(2026, 1, 2)),
    ],
)
def test_what_would_not_be_the_same_in_the_column_is_refused(
    tmp_path: Path, set_value: Any, kind: pa.DataType, value: Any
) -> None:
    path = table_with(tmp_path, kind)
    with pytest.raises(InvalidDataError, match="'v'") as caught:
        set_value(path, value)
    assert caught.value.column == "v"
    assert values_of(path) == [None]


@each_way
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int32(), 7.0, 7),
        (pa.int32(), "7.0", 7),
        (pa.int32(), "id * 2 / 2", 3),
        (pa.int32(), "CAST(7.9 AS INT)", 7),
        (pa.int32(), "id div 2", 1),
        (MONEY, 7, Decimal(7)),
        (MONEY, "id * 1.5", Decimal("4.5")),
        (MONEY, "round(id * 1.005, 2)", Decimal("3.02")),
        (MONEY, "CAST(id * 1.005 AS DECIMAL(10, 2))", Decimal("3.02")),
        (MONEY, "id * 1.1e0", Decimal("3.3")),
        (pa.decimal128(38, 20), "1e-1", Decimal("0.1")),
        (pa.float64(), "1.1", 1.1),
        (pa.float64(), 5, 5.0),
        (pa.float32(), 0.5, 0.5),
        (pa.string(), "id + 0", "3"),
        (pa.date32(), "'2026-01-02'", date(2026, 1, 2)),
        (pa.date32(), lit("2026-01-02"), date(2026, 1, 2)),
        (pa.date32(), "CAST(TIMESTAMP'2026-01-02 12:00:00' AS DATE)", date(2026, 1, 2)),
        (pa.timestamp("us", "UTC"), "DATE'2026-01-02'", datetime(2026, 1, 2, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), NOON, NOON),
    ],
)
def test_what_is_the_same_or_asked_for_is_taken(
    tmp_path: Path, set_value: Any, kind: pa.DataType, value: Any, expected: Any
) -> None:
    path = table_with(tmp_path, kind)
    set_value(path, value)
    assert values_of(path) == [expected]


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int32(), pa.array([1.0, 1.9])),
        (MONEY, pa.array([Decimal("1.000"), Decimal("1.005")])),
        (pa.float64(), pa.array([1, 2**53 + 1])),
    ],
)
@pytest.mark.parametrize("id_of_bad", [3, 4], ids=["matched", "not matched"])
def test_a_source_is_taken_as_append_takes_data(
    tmp_path: Path, kind: pa.DataType, given: pa.Array, id_of_bad: int
) -> None:
    path = table_with(tmp_path, kind)
    source = pa.table({"id": [7 - id_of_bad, id_of_bad], "v": given})
    with pytest.raises(InvalidDataError, match="row 1") as of_append:
        tables.append(path, source)
    merge = tables.merge(path, source, "target.id = source.id")
    every = merge.when_matched_update_all().when_not_matched_insert_all()
    named = merge.when_matched_update({"v": "source.v"}).when_not_matched_insert({"id": "source.id", "v": "source.v"})
    for each in (every, named):
        with pytest.raises(InvalidDataError, match=r"row 1 of the source: .* in column 'v' does not fit") as of_merge:
            each.execute()
        assert (of_merge.value.row, of_merge.value.column) == (of_append.value.row, of_append.value.column)
    assert values_of(path) == [None]
    good = tables.merge(path, source.slice(0, 1), "target.id = source.id")
    good.when_matched_update_all().when_not_matched_insert_all().execute()
    assert 1 in values_of(path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"l": [9, None]}, {"l": [9, None]}),
        ({"l": []}, {"l": []}),
        ({"st": {"a": 2, "b": [{"x": "y"}]}}, {"st": {"a": 2, "b": [{"x": "y"}]}}),
        ({"st": {"B": [{"X": "y"}, None]}}, {"st": {"a": None, "b": [{"x": "y"}, None]}}),
        ({"st.b": [{"x": "z"}]}, {"st": {"a": 1, "b": [{"x": "z"}]}}),
        ({"m": {"k": {"y": 1}, "n": None}}, {"m": [("k", {"y": 1.0}), ("n", None)]}),
        ({"l": None, "m": {}}, {"l": None, "m": []}),
    ],
)
@pytest.mark.parametrize("way", ["update", "merge"])
def test_lists_and_dicts_are_values_of_nested_columns(
    tmp_path: Path, values: dict[str, Any], expected: dict[str, Any], way: str
) -> None:
    path = str(tmp_path / "t")
    row = {"id": 1, "l": [1], "st": {"a": 1, "b": None}, "m": [("a", {"y": 0.5})]}
    tables.create(path, pa.Table.from_pylist([row], NESTED), properties=VECTORS)
    if way == "update":
        tables.update(path, values)
    else:
        tables.merge(path, {"k": [1]}, "target.id = source.k").when_matched_update(values).execute()
    assert lakeport.scan(path).to_arrow().to_pylist() == [row | expected]


def test_lists_and_dicts_are_inserted_by_a_merge(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, schema=NESTED)
    merge = tables.merge(path, {"k": [1, 2]}, "target.id = source.k")
    merge.when_not_matched_insert({"id": "k", "l": [1], "st": {"a": 1}, "m": {"z": {"y": 2.5}}}).execute()
    new = {"l": [1], "st": {"a": 1, "b": None}, "m": [("z", {"y": 2.5})]}
    assert lakeport.scan(path).to_arrow().sort_by("id").to_pylist() == [{"id": 1, **new}, {"id": 2, **new}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id": [9]}, r"the column 'id' cannot be set: expected int64, got \[9\]"),
        ({"l": {"a": 1}}, "the column 'l' cannot be set: expected list"),
        ({"l": ["x"]}, "the column 'l' cannot be set: expected int32, got 'x'"),
        ({"l": [2**40]}, "the column 'l' cannot be set"),
        ({"l": 9}, "the column 'l' is int64 in the data"),
        ({"st": {"c": 1}}, "no column 'st.c': st has a, b"),
        ({"m": {"k": {"z": 1}}}, "no column 'm.value.z': m.value has y"),
        ({"id": object()}, "the column 'id' cannot be set: .* has no Arrow type"),
    ],
)
def test_a_python_value_of_another_shape_is_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = str(tmp_path / "t")
    tables.create(path, schema=NESTED)
    with pytest.raises(InvalidDataError, match=message):
        tables.update(path, values)


def test_types_that_have_nothing_in_common_are_refused_before_a_row_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, schema=pa.schema([("v", pa.int32()), ("text", pa.string())]))
    with pytest.raises(InvalidFilterError, match="text is string, but integer is needed"):
        tables.update(path, {"v": "text"})


def test_a_field_that_the_struct_gets_from_the_source_can_be_set(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tables.create(path, pa.table({"id": [1], "s": [{"a": 1}]}))
    source = pa.table({"id": [1, 2], "s": [{"a": 7, "b": 8}] * 2, "new": [{"c": 9, "d": 9}] * 2})
    merge = tables.merge(path, source, "target.id = source.id", merge_schema=True)
    values = {"s.b": "source.s.b + 1", "new.c": "source.new.c"}
    merge.when_matched_update(values).when_not_matched_insert_all().execute()
    assert lakeport.scan(path).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "s": {"a": 1, "b": 9}, "new": {"c": 9, "d": None}},
        {"id": 2, "s": {"a": 7, "b": 8}, "new": {"c": 9, "d": 9}},
    ]
