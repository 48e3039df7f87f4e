"""Files that hold other types than the table has: Spark's reader gives what it converts exactly, Python the rest."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import lakeport
from lakeport.kernel.schema import ArrayType, DataType, PrimitiveType
from lakeport.spark import explain, load
from lakeport.spark.native.frames import why_not_native
from lakeport.testing.builder import TableBuilder, struct
from tests.acceptance.comparing import assert_same_rows
from tests.spark.native.reading import built, native, scans_of, setting

pytestmark = pytest.mark.usefixtures("native_jar")

UTC_NS, NS = pa.timestamp("ns", "UTC"), pa.timestamp("ns")
OTHERS: Mapping[str, tuple[str | DataType, pa.Array]] = {
    "nanoseconds": ("timestamp", pa.array([-1500, 1999, None], UTC_NS)),
    "local nanoseconds": ("timestamp_ntz", pa.array([-1500, 1999, None], NS)),
    "long for integer": ("integer", pa.array([1, -2, None], pa.int64())),
    "int for byte": ("byte", pa.array([1, -128, None], pa.int32())),
    "unsigned byte": ("byte", pa.array([1, 127, None], pa.uint8())),
    "unsigned long": ("long", pa.array([1, 2**63 - 1, None], pa.uint64())),
    "unsigned int": ("integer", pa.array([1, 2**31 - 1, None], pa.uint32())),
    "unsigned digits": ("decimal(12,2)", pa.array([1, 255, None], pa.uint8())),
    "fixed text": ("string", pa.array([b"ab", None, b"cd"], pa.binary(2))),
    "more digits": ("decimal(10,2)", pa.array([Decimal("1.50"), None, Decimal(7)], pa.decimal128(20, 2))),
    "finer digits": ("decimal(10,2)", pa.array([Decimal("1.50"), None, Decimal(7)], pa.decimal128(10, 4))),
    "in a list": (ArrayType(PrimitiveType("timestamp")), pa.array([[1999, None], [], None], pa.list_(UTC_NS))),
    "in a struct": (struct(x="integer"), pa.array([{"x": 5}, None, {"x": None}], pa.struct({"x": pa.int64()}))),
}


def of_others(tmp_path: Path, *names: str) -> TableBuilder:
    """A table with columns that its file holds in another type, beside one that is as it should be."""
    table = built(tmp_path, struct(id="long", **{name: OTHERS[name][0] for name in names}), (), "none", "timestampNtz")
    columns = {"id": pa.array([1, 2, 3]), **{name: OTHERS[name][1] for name in names}}
    return table.commit(table.add(pa.table(columns), stats=None))


@pytest.mark.parametrize("name", OTHERS)
def test_a_type_that_sparks_reader_does_not_convert_leads_to_the_python_path(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    root = of_others(tmp_path, name).root
    assert f"a file has the column '{name}' as" in str(why_not_native(lakeport.scan(root), spark))
    assert f"reader    Python: a file has the column '{name}'" in explain(root, spark)


def test_the_rows_of_such_a_table_are_the_kernels(spark: SparkSession, tmp_path: Path) -> None:
    root = of_others(tmp_path, *OTHERS).root
    assert_same_rows(load(spark, root).toArrow(), lakeport.scan(root).to_arrow())


def test_such_a_column_does_not_matter_where_it_is_not_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    frame = lakeport.scan(of_others(tmp_path, "nanoseconds").root)
    rows = native(spark, frame.select("id").where("id > 1"))
    assert sorted(row.id for row in rows.collect()) == [2, 3]
    assert why_not_native(frame.select("id").where("nanoseconds IS NULL"), spark) is not None


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("name", ["nanoseconds", "int for byte", "unsigned byte", "in a list", "more digits"])
def test_a_file_among_many_is_an_error_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, name: str, vectorized: str
) -> None:
    kind, odd = OTHERS[name]
    table = built(tmp_path, struct(id="long", c=kind))
    files = [table.add({"id": [number], "c": [None]}) for number in range(40)]
    files[1] = table.add(pa.table({"id": [100, 101, 102], "c": odd}), stats=None)
    table.commit(*files)
    rows = native(spark, lakeport.scan(table.root))  # not all files are looked at
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        assert rows.select("id").count() == 42
        with pytest.raises(Exception, match=r"has the column 'c' as .*load the table.* with reader='python'"):
            rows.collect()
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    if vectorized == "true":
        found = load(spark, table.root, reader="python").toArrow()
        assert_same_rows(found, lakeport.scan(table.root).to_arrow())


def test_a_reader_can_be_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, struct(id="long"))
    table.commit(table.add({"id": [1, 2]}))
    frame = lakeport.scan(table.root)
    assert scans_of(frame.to_spark(spark))
    for rows in (frame.to_spark(spark, reader="python"), load(spark, table.root, reader="python")):
        assert not scans_of(rows)
        assert sorted(row.id for row in rows.collect()) == [1, 2]
    with pytest.raises(ValueError, match="reader must be 'python' or left out, not 'java'"):
        load(spark, table.root, reader="java")  # type: ignore[arg-type]


# Types that were widened

DAYS = [date(1969, 12, 31), date(2026, 1, 31), None]
MOMENTS = [datetime(1969, 12, 31, 1, 2, 3, 4), datetime(2026, 1, 31), None]
WIDENED: Mapping[str, tuple[str, str, list[Any], list[Any]]] = {
    "byte to long": ("byte", "long", [-128, 5, None], [2**40, 5, None]),
    "short to integer": ("short", "integer", [-5, 5, None], [2**31 - 1, 5, None]),
    "integer to long": ("integer", "long", [-(2**31), 5, None], [2**40, 5, None]),
    "integer to double": ("integer", "double", [2**31 - 1, 5, None], [1.5, 5.0, None]),
    "float to double": ("float", "double", [1.5, 0.1, None], [1e300, 0.1, None]),
    "date to timestamp": ("date", "timestamp_ntz", DAYS, MOMENTS),
    "digits": ("decimal(5,2)", "decimal(10,2)", [Decimal("1.50"), 5, None], [Decimal("12345678.90"), 5, None]),
    "finer": ("decimal(9,2)", "decimal(20,6)", [Decimal("-1.50"), 5, None], [Decimal("1.123456"), 5, None]),
    "many digits": ("decimal(18,2)", "decimal(38,4)", [Decimal("1.50"), 5, None], [Decimal("12e30"), 5, None]),
    "integer to digits": ("integer", "decimal(12,2)", [-7, 5, None], [Decimal("1.25"), 5, None]),
    "long to digits": ("long", "decimal(22,2)", [-(2**63), 5, None], [Decimal("1.25"), 5, None]),
}


def test_files_from_before_and_after_types_were_widened_are_read_by_sparks_reader(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = struct(age="string", **{name: kinds[0] for name, kinds in WIDENED.items()})
    table = built(tmp_path, before, (), "none", "typeWidening", "timestampNtz")
    table.commit(table.add({"age": ["old"] * 3, **{name: kinds[2] for name, kinds in WIDENED.items()}}))
    table.schema = struct(age="string", **{name: kinds[1] for name, kinds in WIDENED.items()})
    new = {"age": ["new"] * 3, **{name: kinds[3] for name, kinds in WIDENED.items()}}
    table.commit(table.metadata, table.add(new))
    frame = lakeport.scan(table.root)
    assert explain(frame, spark).endswith("reader    Spark's own")
    rows = native(spark, frame)
    assert_same_rows(rows.toArrow(), frame.to_arrow())
    conditions = [f"`{name}` = 5" for name in WIDENED if name not in ("date to timestamp", "float to double")]
    conditions += ["`integer to long` < 0", "`integer to digits` < 0", "`float to double` > 1", "`digits` < 2"]
    conditions += ["`date to timestamp` = TIMESTAMP_NTZ'2026-01-31 00:00:00'"]
    for condition in conditions:
        found = sorted(row.age for row in rows.where(condition).collect())
        assert found == sorted(frame.where(condition).to_arrow().column("age").to_pylist()), condition


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "INT96"])
def test_files_in_javas_old_calendar_are_read_alike(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    parquet, table = "spark.sql.parquet", built(tmp_path, struct(id="long", day="date", at="timestamp"))
    days, moments = "date_add(DATE '0001-01-01', cast(id * 37 AS INT))", "timestamp_seconds(id * 3600000 - 62000000000)"
    with ExitStack() as stack:
        stack.enter_context(setting(spark, f"{parquet}.outputTimestampType", kind))
        for calendar in ("datetime", "int96"):
            stack.enter_context(setting(spark, f"{parquet}.{calendar}RebaseModeInWrite", "LEGACY"))
        rows = spark.range(18_000).selectExpr("id", f"{days} AS day", f"{moments} AS at").coalesce(1)
        rows.write.parquet(str(tmp_path / "written"))
    (file,) = (tmp_path / "written").glob("*.parquet")
    add = table.add({"id": [], "day": [], "at": []}, name="file.parquet", stats=None)
    size = table.write(f"{table.root}/file.parquet", file.read_bytes())
    table.commit({"add": add["add"] | {"size": size}})
    frame = lakeport.scan(table.root)
    assert_same_rows(native(spark, frame).toArrow(), frame.to_arrow())
    assert pc.min(frame.to_arrow()["day"]).as_py() == date(1, 1, 1)
