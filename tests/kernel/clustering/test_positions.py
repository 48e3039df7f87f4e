"""Rows are placed by the rank of their values, of every type."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.kernel.clustering import RowOrder


def places(values: pa.Array, sample: pa.Array | None = None) -> list[int]:
    order = RowOrder.of("zorder", [values if sample is None else sample])
    return [int(place) for place in order.places([values])]


ORDERED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int8(), [None, -128, -1, 0, 127]),
    "floats": (pa.float64(), [None, float("-inf"), -0.5, 0.0, 1e300, float("inf"), float("nan")]),
    "decimals": (pa.decimal128(38, 2), [None, Decimal("-1.5"), Decimal(0), Decimal("99999999999999999999.25")]),
    "dates": (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "times": (pa.timestamp("us", "UTC"), [None, datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
    "texts": (pa.string(), [None, "", "a", "a\x00b", "ab", "z", "é", "北京", "\U0001f600"]),
}


@pytest.mark.parametrize("name", ORDERED)
def test_values_are_placed_in_their_order_and_nulls_first(name: str) -> None:
    kind, values = ORDERED[name]
    found = places(pa.array(values, kind))
    assert found == sorted(found)
    assert len(set(found)) == len(values)


def test_a_slice_and_a_dictionary_have_the_places_of_their_values() -> None:
    texts = pa.array(["x", "b", None, "a", "b", "c"])
    expected = places(texts)[2:]
    assert places(texts.slice(2), texts) == expected
    assert places(texts.dictionary_encode().slice(2), texts) == expected


def test_a_bit_divides_the_rows_evenly_however_values_are_distributed() -> None:
    flags = pa.array([0] * 50 + [1] * 50)
    assert set(places(flags)) == {0, 1 << 15}
    skewed = pa.array([2**number for number in range(60)])
    assert sum(place < 1 << 15 for place in places(skewed)) == 30


def test_values_outside_the_sample_are_placed_at_its_ends() -> None:
    sample = pa.array(range(10, 20))
    low, first, last, high = places(pa.array([-5, 10, 19, 1000]), sample)
    assert (low, last) == (first, high)


def test_a_column_without_values_decides_nothing() -> None:
    nulls, numbers = pa.nulls(3, pa.string()), pa.array([3, 1, 2])
    order = RowOrder.of("hilbert", [nulls, numbers])
    found = order.places([pa.array(["x", None, "y"]), numbers])
    assert len(set(found.tolist())) == 3


def test_many_columns_fit_one_key() -> None:
    columns = [pa.array(range(8)) for _ in range(32)]
    assert RowOrder.of("zorder", columns).bits == 2
