"""Arrow's filters, read from their text: what is understood means the same, and the rest is left alone."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.kernel.expressions import format_expression
from lakeport.relations.arrow_filters import columns_in_arrow_filter, parse_arrow_filter

SCHEMA = pa.schema(
    {
        **{"id": pa.int64(), "small": pa.int8(), "s": pa.string(), "day": pa.date32(), "price": pa.decimal128(10, 2)},
        **{"at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "x": pa.float64(), "flag": pa.bool_()},
        **{"a b": pa.int64(), "and": pa.int64(), "is_valid": pa.int64(), "raw": pa.binary()},
    }
)
number, text = pc.field("id"), pc.field("s")


def isin(column: pc.Expression, values: pa.Array) -> pc.Expression:
    """As DuckDB writes IN."""
    found = pc.is_in(column, options=pc.SetLookupOptions(value_set=values, skip_nulls=False))
    return pc.if_else(column.is_valid(), found, pc.scalar(pa.scalar(None, pa.bool_())))


UNDERSTOOD: list[tuple[pc.Expression, str]] = [
    (number > 1, "id > 1"),
    (number != -5, "id <> -5"),
    ((number >= 1) & (number <= 9) | number.is_null(), "(id >= 1 AND id <= 9 OR id IS NULL)"),
    (number.is_valid() & (text == "x"), "id IS NOT NULL AND s = 'x'"),
    (text == 'a "b"\n\\ (and) é€\t', "s = 'a \"b\"\n\\ (and) é€\t'"),
    (text == "", "s = ''"),
    (pc.field("small") < pa.scalar(3, pa.int8()), "small < 3"),
    (pc.field("day") == date(2026, 1, 31), "day = '2026-01-31'"),
    (pc.field("price") > pa.scalar(Decimal("-1.50"), pa.decimal128(10, 2)), "price > '-1.50'"),
    (
        pc.field("at") <= pa.scalar(datetime(2026, 1, 1, 12, tzinfo=UTC), pa.timestamp("us", "UTC")),
        "at <= '2026-01-01 12:00:00+00:00'",
    ),
    (
        pc.field("local") < pa.scalar(datetime(2026, 1, 1, 0, 0, 0, 1), pa.timestamp("us")),
        "local < '2026-01-01 00:00:00.000001'",
    ),
    (isin(number, pa.array([1, 2])), "id IN (1, 2)"),
    (isin(text, pa.array(["a", "b, ]c"])), "s IN ('a', 'b, ]c')"),
    (isin(number, pa.array(range(12))) & (number < 5), f"id IN ({', '.join(map(str, range(12)))}) AND id < 5"),
]


@pytest.mark.parametrize(("filter", "expected"), UNDERSTOOD, ids=[expected for _, expected in UNDERSTOOD])
def test_a_filter_is_understood(filter: pc.Expression, expected: str) -> None:
    found = parse_arrow_filter(filter, SCHEMA)
    assert found is not None
    assert format_expression(found) == expected


LEFT_ALONE: dict[str, pc.Expression] = {
    "floats, which others order differently": pc.field("x") > 1.0,
    "a boolean": pc.field("flag") == True,  # noqa: E712  # builds an expression
    "binary": pc.field("raw") == b"a",
    "a constant of another type": number == pa.scalar(1, pa.int32()),
    "two columns": number == pc.field("small"),
    "a function": pc.utf8_lower(text) == "a",
    "a name with a space": pc.field("a b") == 1,
    "a name that is a word": (pc.field("and") == 1) & (number == 1) & (pc.field("is_valid") == 1),
    "a column that is not there": pc.field("other") == 1,
    "NOT": ~(number == 1),
    "nan as null": pc.field("x").is_null(nan_is_null=True),
    "a bare column": pc.field("flag"),
    "IN that finds null": pc.is_in(number, options=pc.SetLookupOptions(value_set=pa.array([1]), skip_nulls=True)),
    "too many values for the text": isin(number, pa.array(range(10_000))),
    "a list that Arrow cuts in a character": isin(text, pa.array(["\uffff" * 40, "a"])),
    "text with a character that the text does not show": text == "\0",
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_a_filter_that_is_not_understood_for_certain_is_left_alone(case: str) -> None:
    assert parse_arrow_filter(LEFT_ALONE[case], SCHEMA) is None


def test_a_filter_may_read_the_columns_that_its_text_names() -> None:
    assert columns_in_arrow_filter((number > 1) & (text == "day"), SCHEMA) == ["id", "s", "day", "and"]
    assert columns_in_arrow_filter(None, SCHEMA) == []
    assert columns_in_arrow_filter(LEFT_ALONE["a list that Arrow cuts in a character"], SCHEMA) == SCHEMA.names
