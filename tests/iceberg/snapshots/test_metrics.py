"""Metrics: what the statistics of Delta tell, as far as it is true."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lakeport.engine import memory_engine
from lakeport.iceberg.avro import decoder
from lakeport.iceberg.manifests.manifest import entry_schema
from lakeport.iceberg.snapshots.entries import MetricsEncoder
from lakeport.iceberg.table.partitions import decode_value
from lakeport.iceberg.table.schema import FieldIds, convert_schema
from lakeport.kernel.schema import ArrayType, PrimitiveType, StructType
from lakeport.testing.builder import mapped, struct

MAPS = [f for f in entry_schema(0, 2, [])["fields"][-1]["type"]["fields"] if f["name"].endswith(("counts", "bounds"))]
DECODE = decoder({"type": "record", "name": "metrics", "fields": MAPS})


def metrics(
    schema: StructType, stats: dict[str, Any] | str | None, mode: str = "none", skip: tuple[str, ...] = ()
) -> Any:
    """The rows of a file, and its metrics: by their kind, by the ids of columns."""
    converted = convert_schema(schema, mode, FieldIds(), 2)
    encoder = MetricsEncoder(memory_engine(), schema, mode, converted.fields, skip)
    text = stats if isinstance(stats, str | None) else json.dumps(stats)
    ((rows, data),) = encoder.encode([text])
    record, end = DECODE(memoryview(data), 0)
    assert end == len(data)
    return rows, {kind: {i["key"]: i["value"] for i in items or ()} for kind, items in record.items()}


def bounds(delta: str, low: Any, high: Any, **more: Any) -> tuple[Any, Any]:
    """The bounds of one column."""
    kind = convert_schema(struct(a=delta), "none", FieldIds(), 2).fields[0]["type"]
    stats = {"numRecords": 3, "minValues": {"a": low}, "maxValues": {"a": high}, "nullCount": {"a": 1}} | more
    _, found = metrics(struct(a=delta), stats)
    decoded = (found[side].get(1) for side in ("lower_bounds", "upper_bounds"))
    lower, upper = (None if data is None else decode_value(data, kind) for data in decoded)
    return lower, upper


def test_counts_and_bounds_come_by_field_id() -> None:
    schema = struct(id="long", s=struct(x="integer", tags=ArrayType(PrimitiveType("string"))))
    stats = {
        "numRecords": 10,
        "minValues": {"id": -1, "s": {"x": 2}},
        "maxValues": {"id": 8, "s": {"x": 3}},
        "nullCount": {"id": 0, "s": {"x": 4, "tags": 1}},
    }
    rows, found = metrics(schema, stats)
    assert rows == 10
    assert found["value_counts"] == {1: 10, 3: 10}
    assert found["null_value_counts"] == {1: 0, 3: 4}
    assert {key: decode_value(data, "long") for key, data in found["lower_bounds"].items()} == {1: -1, 3: 2}
    assert {key: len(data) for key, data in found["upper_bounds"].items()} == {1: 8, 3: 4}


def test_physical_names_are_looked_up() -> None:
    _, found = metrics(mapped(struct(a="long")), {"numRecords": 1, "minValues": {"col-1": 5}}, "name")
    assert decode_value(found["lower_bounds"][1], "long") == 5


def test_partition_columns_have_none() -> None:
    _, found = metrics(struct(a="long", b="long"), {"numRecords": 1, "nullCount": {"a": 0, "b": 0}}, skip=("a",))
    assert found["null_value_counts"] == {2: 0}


EXACT = [
    ("byte", -3, 4, (-3, 4)),
    ("date", "1969-12-31", "1970-01-02", (-1, 1)),
    ("decimal(5,2)", -1.25, 3.5, (-125, 350)),
    ("boolean", False, True, (False, True)),
    ("string", "a", "ü", ("a", "ü")),
]


@pytest.mark.parametrize(("delta", "low", "high", "expected"), EXACT, ids=[case[0] for case in EXACT])
def test_exact_bounds_are_taken_over(delta: str, low: Any, high: Any, expected: Any) -> None:
    assert bounds(delta, low, high) == expected


def test_a_long_text_that_may_be_cut_gets_an_upper_bound_above_it() -> None:
    lower, upper = bounds("string", "a" * 32, "b" * 32)
    assert lower == "a" * 32
    assert upper > "b" * 32 + "z" * 10


@pytest.mark.parametrize("delta", ["timestamp", "timestamp_ntz"])
def test_the_latest_time_is_rounded_up(delta: str) -> None:
    zone = "Z" if delta == "timestamp" else ""
    assert bounds(delta, f"1970-01-01T00:00:00.001{zone}", f"1970-01-01T00:00:00.002{zone}") == (1000, 2999)


@pytest.mark.parametrize("delta", ["float", "double"])
def test_floats_have_no_upper_bound_since_nan_may_be_above_it(delta: str) -> None:
    assert bounds(delta, 1.5, 2.5) == (1.5, None)
    lower, _ = bounds(delta, 0.0, 1.0)
    assert str(lower) == "-0.0"
    assert bounds(delta, "NaN", "NaN") == (None, None)


def test_bounds_that_may_have_been_rounded_are_widened() -> None:
    assert bounds("double", 0.7, 0.8) == (float(np.float32(0.7)), None)
    lower, upper = bounds("decimal(18,2)", 1234567890123456.8, 1234567890123456.8)
    assert 123456789012345500 < lower < 123456789012345678 < upper < 123456789012345900


def test_binary_columns_have_no_bounds() -> None:
    assert bounds("binary", "a", "b") == (None, None)


@pytest.mark.parametrize(("nulls", "told"), [(0, {1: 0}), (3, {1: 3}), (2, {})])
def test_with_wide_bounds_only_none_or_all_nulls_are_believed(nulls: int, told: dict[int, int]) -> None:
    stats = {"numRecords": 3, "nullCount": {"a": nulls}, "tightBounds": False}
    _, found = metrics(struct(a="long"), stats)
    assert found["null_value_counts"] == told
    assert set(found["value_counts"]) == set(told)


@pytest.mark.parametrize("stats", [None, "", "{", "[]", '{"numRecords": -1}', '{"numRecords": "x"}'])
def test_statistics_that_tell_nothing_are_no_metrics(stats: str | None) -> None:
    rows, found = metrics(struct(a="long"), stats)
    assert rows is None
    assert not any(found.values())


@pytest.mark.parametrize("nulls", [-1, 4])
def test_more_nulls_than_rows_are_not_believed(nulls: int) -> None:
    _, found = metrics(struct(a="long"), {"numRecords": 3, "nullCount": {"a": nulls}})
    assert found["null_value_counts"] == {}


def test_a_table_without_columns_that_have_metrics_has_none() -> None:
    rows, found = metrics(struct(a=ArrayType(PrimitiveType("long"))), {"numRecords": 2, "nullCount": {"a": 1}})
    assert rows == 2
    assert not any(found.values())
