"""Nulls where the schema has none, through Spark's own reader: an error, or no matter, but never another value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakeport
from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from lakeport.spark.schemas import to_spark_schema
from lakeport.testing.builder import TableBuilder, struct
from tests.spark.native.reading import built, native, setting

pytestmark = pytest.mark.usefixtures("native_jar")

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


@pytest.fixture(params=["true", "false"])
def reading(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session that reads batches, and one that reads rows."""
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", request.param):
        yield spark


def required(**types: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind, nullable=False) for name, kind in types.items()))


def with_deleted(table: TableBuilder, rows: pa.Table, deleted: list[int]) -> TableBuilder:
    add = table.add(rows, stats=None)
    return table.commit(add).commit(*table.delete(add, deleted))


def test_nulls_in_a_file_with_deleted_rows_are_an_error(reading: SparkSession, tmp_path: Path) -> None:
    schema = StructType((*required(id=LONG, name=TEXT), StructField("n", LONG)))
    table = built(tmp_path, schema, (), "none", "deletionVectors")
    with_deleted(table, pa.table({"id": [1, None, 3], "name": ["a", "b", "c"], "n": [1, 2, 3]}), [0])
    rows = native(reading, lakeport.scan(table.root))
    assert sorted(map(tuple, rows.select("n", "name").collect())) == [(2, "b"), (3, "c")]
    with pytest.raises(Exception, match="has nulls in the column 'id'"):
        rows.collect()


def test_rows_that_are_deleted_may_have_nulls(reading: SparkSession, tmp_path: Path) -> None:
    fields = required(id=LONG, name=TEXT, s=required(x=LONG, t=TEXT), l=ArrayType(TEXT, False))
    table = built(tmp_path, fields, (), "none", "deletionVectors")
    columns: dict[str, Any] = {
        "id": [1, None, 3, 4, None],
        "name": ["a", None, "c", None, None],
        "s": [{"x": 1, "t": "a"}, None, {"x": 3, "t": "c"}, {"x": None, "t": None}, None],
        "l": [["a"], None, ["c", "c"], [None], []],
    }
    with_deleted(table, pa.table(columns), [1, 3, 4])
    rows = native(reading, lakeport.scan(table.root))
    assert rows.schema == to_spark_schema(fields)
    whole = [(1, "a", (1, "a"), ["a"]), (3, "c", (3, "c"), ["c", "c"])]
    assert sorted((row.id, row.name, tuple(row.s), row.l) for row in rows.collect()) == whole
    for condition in ("name > 'b'", "upper(name) = 'C'", "s.t = 'c'", "size(l) = 2", "l[0] = 'c'", "id > 1"):
        assert [row.id for row in rows.where(condition).collect()] == [3], condition
    assert sorted(row.t for row in rows.select("s.t").collect()) == ["a", "c"]


NESTED: dict[str, tuple[DataType, list[Any], list[Any]]] = {
    "field": (required(x=LONG, y=TEXT), [{"x": 1, "y": "a"}, None], [{"x": None, "y": "b"}]),
    "deep": (struct(s=required(x=TEXT)), [{"s": {"x": "a"}}, {"s": None}, None], [{"s": {"x": None}}]),
    "element": (ArrayType(LONG, False), [[1, 2], [], None], [[1, None]]),
    "value": (MapType(TEXT, TEXT, False), [[("k", "v")], [], None], [[("k", None)]]),
    "in elements": (ArrayType(required(x=LONG)), [[{"x": 1}, None], None], [[{"x": None}]]),
    "in values": (MapType(TEXT, required(x=LONG)), [[("k", {"x": 1}), ("l", None)], None], [[("k", {"x": None})]]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nulls_inside_a_column_are_an_error_where_the_schema_has_none(
    reading: SparkSession, tmp_path: Path, kind: str
) -> None:
    data_type, good, bad = NESTED[kind]
    is_map = isinstance(data_type, MapType)
    table = built(tmp_path, struct(id="long", c=data_type))
    stored = loosened(table.physical_schema())
    table.commit(table.add(pa.table({"id": list(range(len(good))), "c": good}, stored), stats=None))
    frame = lakeport.scan(table.root)
    assert native(reading, frame).schema == to_spark_schema(frame.selected)
    found = (
        native(reading, frame).orderBy("id").collect()
    )  # PySpark does not bring a null struct of such fields to Arrow
    assert [row.asDict(True)["c"] for row in found] == [dict(v) if is_map and v is not None else v for v in good]
    table.commit(table.add(pa.table({"id": [9] * len(bad), "c": bad}, stored), stats=None))
    rows = native(reading, lakeport.scan(table.root))
    assert rows.select("id").count() == len(good) + len(bad)
    with pytest.raises(Exception, match="has nulls in the column 'c'"):
        rows.collect()


def loosened(schema: pa.Schema) -> pa.Schema:
    """With nulls everywhere, as a writer has it that does not know better."""
    return pa.schema([pa.field(field.name, _loosened(field.type)) for field in schema])


def _loosened(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _loosened(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_loosened(data_type.value_type))
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, _loosened(data_type.item_type))
    return data_type
