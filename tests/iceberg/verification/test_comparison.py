"""Streams that are cut into parts in different ways are compared by what is in them."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.iceberg.verification.comparison import first_other_position, first_other_row

positions = st.sets(st.integers(0, 40)).map(sorted)
cuts = st.lists(st.integers(0, 40), max_size=4).map(sorted)


def cut(values: list[int], places: list[int]) -> list[np.ndarray]:
    return np.split(np.array(values, dtype=np.uint64), places)


@given(positions, positions, cuts, cuts)
def test_the_first_position_of_one_stream_alone_is_found(
    one: list[int], other: list[int], ones: list[int], others: list[int]
) -> None:
    alone = set(one) ^ set(other)
    assert first_other_position(cut(one, ones), cut(other, others)) == min(alone, default=None)
    assert first_other_position(cut(one, ones), cut(one, others)) is None


def pieces(values: list[int | None], places: list[int]) -> list[pa.RecordBatch]:
    batch = pa.record_batch({"a": pa.array(values, pa.int64())})
    bounds = [0, *(min(place, len(values)) for place in places), len(values)]
    return [batch.slice(start, end - start) for start, end in pairwise(bounds)]


@given(st.lists(st.integers(0, 2) | st.none()), st.lists(st.integers(0, 2) | st.none()), cuts, cuts)
def test_the_first_row_that_differs_is_found(
    one: list[int | None], other: list[int | None], ones: list[int], others: list[int]
) -> None:
    found = first_other_row(pieces(one, ones), pieces(other, others))
    longest = max(len(one), len(other))
    same = [one[i : i + 1] == other[i : i + 1] for i in range(longest)]
    assert (None if found is None else found[0]) == (same.index(False) if False in same else None)
    assert first_other_row(pieces(one, ones), pieces(one, others)) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.array([1, None], pa.int8()), pa.array([1, None], pa.int32()), id="integers"),
        pytest.param(pa.array(["a"]), pa.array(["a"], pa.large_string()), id="texts"),
        pytest.param(pa.array([[b"a"]]), pa.array([[b"a"]], pa.large_list(pa.large_binary())), id="lists"),
        pytest.param(
            pa.array([None, [{"x": 1}]]),
            pa.array([[], [{"x": 1}]], pa.list_(pa.struct([("x", pa.int64())]))),
            id="structs",
        ),
        pytest.param(pa.array([{"x": float("nan")}]), pa.array([{"x": float("nan")}]), id="nan"),
        pytest.param(
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
            pa.array([[("k", 1)]], pa.map_(pa.large_string(), pa.int32())),
            id="maps",
        ),
        pytest.param(
            pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            id="decimals",
        ),
    ],
)
def test_the_same_values_of_other_types_are_the_same(left: pa.Array, right: pa.Array) -> None:
    assert first_other_row([pa.record_batch({"a": left})], [pa.record_batch({"a": right})]) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(pa.array([1]), pa.array([None], pa.int64()), id="null"),
        pytest.param(pa.array([float("nan")]), pa.array([1.0]), id="nan"),
        pytest.param(pa.array([{"x": 1}]), pa.array([{"x": 2}]), id="nested"),
        pytest.param(pa.array(["1"]), pa.array([1]), id="text and number"),
        pytest.param(pa.array([[]], pa.list_(pa.int64())), pa.array([None], pa.list_(pa.int64())), id="empty and null"),
    ],
)
def test_other_values_are_not_the_same(left: pa.Array, right: pa.Array) -> None:
    found = first_other_row([pa.record_batch({"a": left})], [pa.record_batch({"a": right})])
    assert found == (0, "the column 'a' differs")


def test_a_column_that_is_missing_is_named() -> None:
    one, other = pa.record_batch({"a": [1], "b": [2]}), pa.record_batch({"a": [1]})
    assert first_other_row([one], [other]) == (0, "there is no column 'b'")
    assert first_other_row([other], [one]) == (0, "there is an extra column 'b'")
