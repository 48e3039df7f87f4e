"""`tables.merge.matching`: the pairs that a condition joins, found by keys, are those that it holds for."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine import default_engine
from lakeport.kernel.expressions import Column, Expression, bind, col, format_expression, parse_filter
from lakeport.kernel.schema import schema_from_arrow
from lakeport.tables.merge.matching import KeyIndex, Matcher, split_condition
from lakeport.tables.merge.pruning import SeenKeys, target_filter
from lakeport.tables.merge.sides import Side, Sides
from lakeport.testing.rowwise import by_row

NAN = float("nan")
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-1, 2)),
    "long": (pa.int64(), st.integers(-1, 2)),
    "double": (pa.float64(), st.sampled_from([-1.0, -0.0, 0.0, 1.0, 1.5, NAN, float("inf")])),
    "float": (pa.float32(), st.sampled_from([-0.0, 0.0, 1.0, 1.5, NAN])),
    "decimal": (pa.decimal128(5, 2), st.sampled_from([Decimal("0.00"), Decimal("1.00"), Decimal("1.50")])),
    "wide decimal": (pa.decimal128(38, 1), st.sampled_from([Decimal("0.0"), Decimal("1.0"), Decimal("1.5")])),
    "string": (pa.string(), st.sampled_from(["", "a", "b"])),
    "binary": (pa.binary(), st.sampled_from([b"", b"a"])),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.sampled_from([date(2026, 1, 1), date(2026, 1, 2)])),
    "moment": (pa.timestamp("us", "UTC"), st.sampled_from([datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (0, 1)])),
    "local": (pa.timestamp("us"), st.sampled_from([datetime(2026, 1, 1, hour) for hour in (0, 1)])),
}
FAMILIES = [["byte", "long", "double", "float", "decimal", "wide decimal"], ["date", "moment", "local"]]
FAMILIES += [["string"], ["binary"], ["boolean"]]


@st.composite
def columns(draw: st.DrawFn, rows: int) -> tuple[pa.Array, pa.Array]:
    """A column of the target and one of the source that can be compared."""
    family = draw(st.sampled_from(FAMILIES))
    arrays = []
    for _ in range(2):
        data_type, values = TYPES[draw(st.sampled_from(family))]
        arrays.append(pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), data_type))
    return arrays[0], arrays[1]


def sides_of(target: pa.RecordBatch, source: pa.RecordBatch) -> Sides:
    schemas = [schema_from_arrow(rows.schema) for rows in (target, source)]
    return Sides(default_engine(), Side("target", schemas[0]), Side("source", schemas[1]))


def matcher_of(target: pa.RecordBatch, source: pa.RecordBatch, on: Expression) -> tuple[Matcher, Sides]:
    sides = sides_of(target, source)
    bound = sides.bind_condition(on, sides.target, sides.source)
    return Matcher(sides, split_condition(bound, sides), source), sides


def found_by(matcher: Matcher, target: pa.RecordBatch) -> list[tuple[int, int]]:
    return [
        pair for block in matcher.matches(target) for pair in zip(block[0].tolist(), block[1].tolist(), strict=True)
    ]


def expected_by(on: Expression, target: pa.RecordBatch, source: pa.RecordBatch) -> list[tuple[int, int]]:
    pairs = [(i, j) for i in range(target.num_rows) for j in range(source.num_rows)]
    ours, theirs = target.to_pylist(), source.to_pylist()
    return [(i, j) for i, j in pairs if by_row(on, {"target": ours[i], "source": theirs[j]}) is True]


def equality(left: Column, right: Column, null_safe: bool) -> Expression:
    return left.equals_null_safe(right) if null_safe else left == right


@given(data=st.data(), keys=st.integers(1, 3), null_safe=st.lists(st.booleans(), min_size=3, max_size=3))
def test_matches_by_keys_are_the_pairs_for_which_the_condition_holds(
    data: st.DataObject, keys: int, null_safe: list[bool]
) -> None:
    pairs = [data.draw(columns(rows=6)) for _ in range(keys)]
    names = [f"k{i}" for i in range(keys)]
    target = pa.record_batch([ours for ours, _ in pairs], names)
    source = pa.record_batch([theirs for _, theirs in pairs], names).slice(0, 5)
    on = equality(col("target.k0"), col("source.k0"), null_safe[0])
    for name, safe in zip(names[1:], null_safe[1:], strict=False):
        on = on & equality(col(("source", name)), col(("target", name)), safe)
    matcher, sides = matcher_of(target, source, on)
    found, expected = found_by(matcher, target), expected_by(on, target, source)
    assert sorted(found) == sorted(expected)
    kept = target_filter(sides, matcher.condition, [SeenKeys.of(keys) for keys in matcher.source_keys])
    if kept is not None:
        select = default_engine().expressions.evaluator(target.schema, bind(kept, sides.target.schema))
        possible = select(target).to_pylist()
        assert all(possible[i] is True for i, _ in expected), format_expression(kept)


def test_a_decimal_with_too_many_digits_in_common_is_compared_pair_by_pair() -> None:
    wide, fine = pa.array([Decimal(10**36), Decimal(1)], pa.decimal128(38, 0)), pa.array([Decimal("1.0")])
    target = pa.record_batch([wide], ["k"])
    source = pa.record_batch([fine.cast(pa.decimal128(20, 18))], ["k"])
    matcher, _ = matcher_of(target, source, col("target.k") == col("source.k"))
    assert matcher.condition.keys == ()
    assert found_by(matcher, target) == [(1, 0)]


def test_many_candidates_come_in_blocks_that_keep_the_matches_of_a_row_together() -> None:
    target = pa.record_batch({"a": range(1500)})
    source = pa.record_batch({"b": range(0, 3000, 6)})
    matcher, _ = matcher_of(target, source, parse_filter("a <= b AND b - a < 9"))
    blocks = list(matcher.matches(target))
    assert len(blocks) > 2
    assert not set(blocks[0][0].tolist()) & set(blocks[1][0].tolist())
    expected = [(a, b // 6) for a in range(1500) for b in range(0, 3000, 6) if 0 <= b - a < 9]
    assert found_by(matcher, target) == expected


def test_a_key_that_many_rows_have_gives_all_their_pairs() -> None:
    index = KeyIndex([pa.array(["x"] * 700 + ["y"])], [False], np.ones(701, np.bool_))
    blocks = list(index.candidates([pa.array(["x"] * 800 + ["z", None])], 802))
    assert sum(len(rows) for rows, _ in blocks) == 700 * 800
    assert max(len(rows) for rows, _ in blocks) < 700 * 800
    assert {row for rows, _ in blocks for row in rows.tolist()} == set(range(800))


@pytest.mark.parametrize(
    ("on", "known"),
    [
        ("target.a = source.b", "a IN (1, 3)"),
        ("target.a <=> source.b", "(a IN (1, 3) OR a IS NULL)"),
        ("target.a = source.b AND target.a > 2", "a > 2 AND a IN (1, 3)"),
        ("target.a = source.b AND c = 'y'", "a IN (3)"),
        ("target.a = source.b AND c = 'z'", "FALSE"),
        ("target.a < source.b", None),
        ("target.a + 1 = source.b", None),
    ],
)
def test_the_keys_of_the_source_tell_which_files_can_match(on: str, known: str | None) -> None:
    source = pa.record_batch({"b": [1, None, 3], "c": ["x", "x", "y"]})
    matcher, sides = matcher_of(pa.record_batch({"a": [1]}), source, parse_filter(on))
    found = target_filter(sides, matcher.condition, [SeenKeys.of(keys) for keys in matcher.source_keys])
    assert (None if found is None else format_expression(found)) == known


def test_many_keys_tell_their_least_and_greatest() -> None:
    source = pa.record_batch({"b": list(range(1000, 0, -1))})
    matcher, sides = matcher_of(pa.record_batch({"a": [1]}), source, parse_filter("a = b"))
    found = target_filter(sides, matcher.condition, [SeenKeys.of(keys) for keys in matcher.source_keys])
    assert found is not None
    assert format_expression(found) == "a >= 1 AND a <= 1000"
