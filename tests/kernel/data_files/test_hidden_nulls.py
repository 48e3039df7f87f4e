"""Nulls in required fields of structs that are null themselves: nobody can see them, and no writer may stumble."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeport
from lakeport import tables
from lakeport.kernel.data_files import without_hidden_nulls
from lakeport.kernel.schema import PrimitiveType, StructField, StructType

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, 1, 2]),
    (pa.string(), [None, "a", "b"]),
    (pa.bool_(), [None, True, False]),
    (pa.decimal128(10, 2), [None, 1, 2]),
    (pa.list_(pa.int64()), [None, [1], [2, None]]),
    (pa.map_(pa.string(), pa.int64()), [None, [("a", 1)], [("b", None)]]),
    (pa.struct([pa.field("x", pa.int64(), nullable=False)]), [None, {"x": 1}, {"x": 2}]),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda part: str(part)[:20])
def test_the_values_stay_and_parquet_takes_them(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    required = [pa.field("x", kind, nullable=False)]
    structs = pa.StructArray.from_arrays([pa.array(values, kind)], fields=required, mask=pa.array([True, False, False]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3]), structs)
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 3]), pa.array(["p", "q", "r"]), structs)
    for array in (structs, structs[1:], structs[:2], lists, lists[1:], maps, maps[1:]):
        cleaned = without_hidden_nulls(array)
        cleaned.validate(full=True)
        assert cleaned.to_pylist() == array.to_pylist()
        pq.write_table(pa.table({"a": cleaned}), tmp_path / "a.parquet")
        assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == array.to_pylist()


def test_a_null_struct_of_polars_goes_into_a_table_whose_struct_has_a_required_field(tmp_path: Path) -> None:
    point = StructType((StructField("x", PrimitiveType("double"), nullable=False),))
    frame = pl.DataFrame({"point": [None, {"x": 1.0}]})
    tables.create(str(tmp_path), frame, schema=StructType((StructField("point", point),)))
    assert lakeport.scan(str(tmp_path)).to_arrow().to_pylist() == [{"point": None}, {"point": {"x": 1.0}}]
