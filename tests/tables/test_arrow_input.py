"""Whatever speaks Arrow is data, and so are plain Python values; a stream stays a stream."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakeport.tables.arrow_input import to_reader

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
TABLE = pa.table({"id": [1, 2], "name": ["a", None]})


class ArrowArray:
    """An object of a library of its own that exports one batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


class ArrowStream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_batches(),
        iter(TABLE.to_batches()),
        [TABLE.slice(0, 1), TABLE.slice(1)],
        {"id": [1, 2], "name": ["a", None]},
        ROWS,
        iter(ROWS),
        tuple(ROWS),
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}, index=[7, 8]),
        pl.DataFrame({"id": [1, 2], "name": ["a", None]}),
        ArrowStream(),
        ArrowArray(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_everything_that_holds_rows_is_read(data: Any) -> None:
    assert to_reader(data).read_all().to_pylist() == ROWS


def test_a_duckdb_relation_is_read() -> None:
    relation = duckdb.sql("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t(id, name)")
    assert to_reader(relation).read_all().to_pylist() == ROWS


def test_rows_with_different_keys_lose_nothing() -> None:
    read = to_reader([{"id": 1}, {"name": "b", "id": 2}, {}]).read_all().to_pylist()
    assert read == [{"id": 1, "name": None}, {"id": 2, "name": "b"}, {"id": None, "name": None}]


def test_a_stream_is_taken_batch_by_batch() -> None:
    taken: list[int] = []

    def stream() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            taken.append(number)
            yield pa.record_batch({"id": [number]})

    reader = to_reader(stream())
    assert len(taken) == 1, "the first one tells the columns"
    assert reader.read_next_batch().to_pylist() == [{"id": 0}]
    assert len(taken) <= 2


@pytest.mark.parametrize("data", ["a.parquet", b"bytes", 7, None, [1, 2], [[1]], pl.LazyFrame({"id": [1]}), object()])
def test_what_is_no_data_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"is not data|has Arrow batches or dicts, all of one kind, not"):
        to_reader(data)


def test_nothing_at_all_has_no_columns() -> None:
    with pytest.raises(ValueError, match="there is no data: not even its columns are known"):
        to_reader([])
    assert to_reader(TABLE.schema.empty_table()).read_all().num_rows == 0


def test_a_stream_that_changes_its_mind_is_refused() -> None:
    with pytest.raises(ValueError, match="has Arrow batches or dicts, all of one kind, not dict"):
        to_reader([TABLE.to_batches()[0], ROWS[0]]).read_all()
    with pytest.raises(ValueError, match="has Arrow batches or dicts, all of one kind, not RecordBatch"):
        to_reader([ROWS[0], TABLE.to_batches()[0]]).read_all()
