"""Whatever speaks Arrow is data, and so are plain Python values; a stream stays a stream."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakeport
from lakeport import tables
from lakeport.errors import InvalidDataError, MissingFileError
from lakeport.kernel.schema import PrimitiveType, StructField, StructType
from lakeport.tables.input.rows import to_reader

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
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}).set_index("id"),
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}).set_index(["id", "name"]),
        pl.DataFrame({"id": [1, 2], "name": ["a", None]}),
        pa.array(ROWS),
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
    with pytest.raises(ValueError, match=r"is not data|must have only Arrow batches or only dicts, not"):
        to_reader(data)


def test_nothing_at_all_has_no_columns() -> None:
    with pytest.raises(ValueError, match="the data is empty and has no columns"):
        to_reader([])
    assert to_reader(TABLE.schema.empty_table()).read_all().num_rows == 0


def test_an_empty_list_has_the_columns_of_the_table() -> None:
    table = StructType((StructField("id", PrimitiveType("long"), nullable=False),))
    nothing: list[Any] = []
    for data in (nothing, iter(nothing)):
        read = to_reader(data, table)
        assert (read.schema.names, read.read_all().num_rows) == (["id"], 0)
    assert to_reader([{"x": 1}], table).schema.names == ["x"]


def test_rows_without_a_value_are_rows() -> None:
    assert to_reader([{}, {}]).read_all().num_rows == 2


def test_levels_of_an_index_without_a_name_are_left_out() -> None:
    index = pd.MultiIndex.from_tuples([(7, "a"), (8, "b")], names=["id", None])
    assert to_reader(pd.DataFrame({"x": [1, 2]}, index)).read_all().to_pylist() == [
        {"id": 7, "x": 1},
        {"id": 8, "x": 2},
    ]
    twice = pd.DataFrame({"id": [1]}, pd.Index([1], name="id"))
    with pytest.raises(InvalidDataError, match="'id' as a column and as its index"):
        to_reader(twice)


@pytest.mark.parametrize(
    "column",
    [pd.Series([1], name="id"), pd.Index([1]), pl.Series("id", [1]), pa.chunked_array([[1]]), pa.array([1])],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_one_column_is_no_table(column: Any) -> None:
    with pytest.raises(ValueError, match=r"is one column, not a table: give it a name"):
        to_reader(column)
    assert to_reader({"id": column}).read_all().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"id": [2**63]}, "column 'id' cannot be read: .* too large .*at most 64 bits"),
        ([{"id": 2**70}], "column 'id' cannot be read: .* too large"),
        ({"id": [1, "a"]}, "column 'id' cannot be read: Could not convert 'a'.*one type"),
        (pd.DataFrame({"id": [1, "a"]}), "the frame cannot be read: Could not convert 'a'.*column id"),
        ({"id": [1, 2], "name": ["a"]}, "not have the same number of rows: id has 2, name has 1"),
        ({"id": 1}, "the column 'id' is a single value, 1: pass a list"),
        ({"id": "abc"}, "the column 'id' is a single value, 'abc'"),
        ({"id": {"a": 1}}, "the column 'id' is a single value"),
        ({"id": None}, "the column 'id' is a single value, None"),
        ({5: [1]}, "the name of a column must be text, not 5"),
        ([{5: 1}], "the name of a column must be text, not 5"),
    ],
    ids=str,
)
def test_values_that_are_no_columns_are_refused_by_name(data: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        to_reader(data)


def test_what_a_scan_gives_is_data_and_its_errors_stay_what_they_are(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    tables.create(source, TABLE, properties={"delta.enableChangeDataFeed": "true"})
    frame = lakeport.scan(source).where("id = 2")
    assert to_reader(frame).read_all().to_pylist() == [{"id": 2, "name": None}]
    assert to_reader(lakeport.scan(source).changes(start=0)).read_all().num_rows == 2
    tables.create(target, lakeport.scan(source))
    merge = tables.merge(target, frame, "target.id = source.id").when_matched_delete()
    assert merge.execute().metrics["numTargetRowsDeleted"] == 1
    assert pl.DataFrame(frame).rows() == [(2, None)]
    for file in Path(source).glob("*.parquet"):
        file.unlink()
    with pytest.raises(MissingFileError, match="it may have been vacuumed"):
        tables.append(target, lakeport.scan(source))


def test_a_stream_that_changes_its_mind_is_refused() -> None:
    with pytest.raises(ValueError, match="must have only Arrow batches or only dicts, not dict"):
        to_reader([TABLE.to_batches()[0], ROWS[0]]).read_all()
    with pytest.raises(ValueError, match="must have only Arrow batches or only dicts, not RecordBatch"):
        to_reader([ROWS[0], TABLE.to_batches()[0]]).read_all()
