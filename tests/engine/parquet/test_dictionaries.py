"""Columns whose values repeat get a dictionary, others none; row groups are neither too large nor too short."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport.engine.parquet.writing import encode_parquet

ROWS = 100_000
RANDOM = np.random.default_rng(1)


def written(rows: pa.Table) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(encode_parquet(rows.to_batches(), rows.schema)))


def with_dictionary(rows: pa.Table) -> set[str]:
    group = written(rows).row_group(0)
    columns = (group.column(index) for index in range(group.num_columns))
    return {column.path_in_schema for column in columns if column.has_dictionary_page}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(ROWS), False),
        (RANDOM.integers(0, 1 << 60, ROWS), False),
        (RANDOM.integers(0, 10_000, ROWS), True),
        (np.arange(ROWS) // 40, True),
        (RANDOM.random(ROWS), False),
        (np.char.add("unique ", np.arange(ROWS).astype(str)), False),
        (np.char.add("repeated ", RANDOM.integers(0, 100, ROWS).astype(str)), True),
        (["a long text " * 20 + "ab"[number % 2] for number in range(ROWS)], True),
        ([None] * (ROWS - 100) + list(range(100)), True),
        (np.arange(1000), True),
    ],
)
def test_a_dictionary_is_for_values_that_repeat(values: Sequence[Any], expected: bool) -> None:
    assert bool(with_dictionary(pa.table({"a.b": pa.array(values)}))) == expected
    pieces = pa.chunked_array([pa.array(values[start::3]) for start in range(3)])
    assert bool(with_dictionary(pa.table({"a.b": pieces}))) == expected


def test_a_column_is_decided_apart_from_others() -> None:
    element = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
    nested = [{"x": number % 3, "y": ["t"]} for number in range(ROWS)]
    rows = pa.table(
        {
            "unique": np.arange(ROWS),
            "repeated": np.arange(ROWS) % 7,
            "s": pa.array(nested, element),
            "l": pa.array([[item] for item in nested], pa.list_(element)),
            "m": pa.array([[("k", item)] for item in nested], pa.map_(pa.string(), element)),
        }
    )
    inner = {"x", "y.list.element"}
    expected = {f"s.{leaf}" for leaf in inner} | {f"l.list.element.{leaf}" for leaf in inner}
    expected |= {"m.key_value.key"} | {f"m.key_value.value.{leaf}" for leaf in inner}
    assert with_dictionary(rows) == expected | {"repeated"}


def test_equal_rows_make_equal_files() -> None:
    rows = pa.table({"a": RANDOM.integers(0, 100_000, ROWS)})
    assert encode_parquet(rows.to_batches(), rows.schema) == encode_parquet(rows.to_batches(7_000), rows.schema)


@pytest.mark.parametrize(
    ("columns", "expected"), [(4, [1 << 20, 151_424]), (64, [65_536, 34_464]), (512, [32_768, 32_768])]
)
def test_row_groups_are_smaller_in_wide_tables_but_not_too_short(columns: int, expected: list[int]) -> None:
    """32 MB, but at least 65,536 rows, unless that takes more than 128 MB."""
    column = pa.array(np.zeros(sum(expected), np.int64))
    metadata = written(pa.table({f"c{number}": column for number in range(columns)}))
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == expected
