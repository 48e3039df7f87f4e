"""Every type of Delta arrives in Spark as it is: values, nullability and names, whatever the session's time zone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

import lakeport
from lakeport import tables
from lakeport.engine import default_engine
from lakeport.errors import UnknownColumnError
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from lakeport.kernel.variant import encode_variant
from lakeport.spark.frames import to_python_frame
from lakeport.spark.schemas import selected_columns, spark_arrow_schema, to_spark_schema
from lakeport.testing.builder import TableBuilder, protocol, struct
from tests.acceptance.comparing import assert_same_rows
from tests.examples import examples
from tests.spark.ways import read_lakeport, rows_by_way

ZONES = ("UTC", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Apia")
EPOCH = datetime(1970, 1, 1)
EVERY_FEATURE = protocol(features=["timestampNtz", "variantType", "columnMapping"])


def primitive(name: str) -> PrimitiveType:
    return PrimitiveType(name)


def build(root: Path, schema: StructType, rows: list[dict[str, Any]]) -> str:
    """A table of one file, written as it is."""
    builder = TableBuilder(default_engine(), str(root), schema, protocol=EVERY_FEATURE)
    data = {name: [row.get(name) for row in rows] for name in schema.names if not is_void(schema, name)}
    builder.create(builder.add(data, stats=False))
    return str(root)


def is_void(schema: StructType, name: str) -> bool:
    return schema.resolve((name,))[-1].type == PrimitiveType("void")


def both_ways(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    return {"lakeport": read_lakeport(spark, path), "frame": lakeport.scan(path).to_spark(spark)}


@contextmanager
def zone_of(spark: SparkSession, zone: str) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def variant(value: Any) -> dict[str, bytes]:
    metadata, content = encode_variant(value)
    return {"metadata": metadata, "value": content}


# Values, as Spark itself writes them.

LONG_DECIMAL = Decimal("-12345678901234567890.123456789012345678")
PLAIN: dict[str, tuple[Any, str]] = {
    "byte": (-128, "-128"),
    "short": (-32768, "-32768"),
    "integer": (-(2**31), "-2147483648"),
    "long": (2**63 - 1, "9223372036854775807"),
    "float": (0.1, "0.1"),
    "double": (-0.0, "-0.0"),
    "boolean": (True, "true"),
    "string": ("a\x00é😀 \n", "a\x00é😀 \n"),
    "decimal(38,18)": (LONG_DECIMAL, str(LONG_DECIMAL)),
    "decimal(9,0)": (Decimal(999999999), "999999999"),
    "decimal(18,18)": (Decimal("0.000000000000000001"), "0.000000000000000001"),
    "date": (date(1066, 10, 14), "1066-10-14"),
    "timestamp_ntz": (datetime(1066, 10, 14, 9, 0, 0, 123456), "1066-10-14 09:00:00.123456"),
}


def test_spark_writes_each_value_as_the_table_has_it(spark: SparkSession, tmp_path: Path) -> None:
    schema = StructType(tuple(StructField(name, primitive(name)) for name in PLAIN))
    path = build(tmp_path / "t", schema, [{name: value for name, (value, _) in PLAIN.items()}, {}])
    texts = [f"CAST(`{name}` AS STRING) AS `{name}`" for name in PLAIN]
    expected = {name: text for name, (_, text) in PLAIN.items()}
    for zone in ZONES[:2]:
        with zone_of(spark, zone):
            found = rows_by_way({way: df.selectExpr(*texts) for way, df in both_ways(spark, path).items()})
        for rows in found.values():
            assert rows.to_pylist() == [expected, dict.fromkeys(PLAIN)]


def test_a_moment_is_the_same_one_in_every_session_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    moments = [datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)]
    moments += [datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2011, 12, 30, 11, tzinfo=UTC)]
    walls = [moment.replace(tzinfo=None) for moment in moments]
    days = [wall.date() for wall in walls]
    rows = [{"at": a, "wall": w, "day": d} for a, w, d in zip(moments, walls, days, strict=True)]
    path = build(tmp_path / "t", struct(at="timestamp", wall="timestamp_ntz", day="date"), rows)
    micros = [(wall - EPOCH) // timedelta(microseconds=1) for wall in walls]
    expected = [
        {"us": us, "wall": str(wall), "day": str(day)} for us, wall, day in zip(micros, walls, days, strict=True)
    ]
    texts = ["unix_micros(at) AS us", "CAST(wall AS STRING) AS wall", "CAST(day AS STRING) AS day"]
    for zone in ZONES:
        with zone_of(spark, zone):
            found = rows_by_way({way: df.selectExpr(*texts) for way, df in both_ways(spark, path).items()})
            local = read_lakeport(spark, path).limit(1).selectExpr("CAST(at AS STRING) AS at").toArrow().to_pylist()
        for rows_found in found.values():
            assert rows_found.to_pylist() == expected
        assert local == [{"at": LOCAL[zone]}]


LOCAL = {
    "UTC": "2026-07-01 12:00:00",
    "Asia/Kolkata": "2026-07-01 17:30:00",
    "America/Los_Angeles": "2026-07-01 05:00:00",
    "Pacific/Apia": "2026-07-02 01:00:00",
}


NESTED = struct(
    StructField("deep", struct(a="integer", inner=struct(b="string", c=ArrayType(primitive("decimal(5,2)"))))),
    list=ArrayType(struct(x="long", at="timestamp")),
    lists=ArrayType(ArrayType(primitive("string"))),
    by_name=MapType(primitive("string"), ArrayType(primitive("date"))),
    by_point=MapType(struct(x="integer", y="integer"), struct(bytes="binary")),
    bytes="binary",
    nothing="void",
)
NESTED_ROWS: list[dict[str, Any]] = [
    {
        "deep": {"a": 1, "inner": {"b": None, "c": [Decimal("1.25"), None]}},
        "list": [{"x": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, None, {"x": None, "at": None}],
        "lists": [["a", None], [], None],
        "by_name": [("", [date(1500, 2, 28), None]), ("b", None)],
        "by_point": [({"x": 1, "y": None}, {"bytes": b"\x00\xff"}), ({"x": 2, "y": 2}, None)],
        "bytes": b"",
        "nothing": None,
    },
    {"deep": {"a": None, "inner": None}, "list": [], "lists": [], "by_name": [], "by_point": [], "bytes": b"\x80"},
    {},
]


def test_nested_values_keep_their_nulls(spark: SparkSession, tmp_path: Path) -> None:
    path = build(tmp_path / "t", NESTED, NESTED_ROWS)
    expected = [{name: row.get(name) for name in NESTED.names} for row in NESTED_ROWS]
    for rows in rows_by_way(both_ways(spark, path)).values():
        assert rows.to_pylist() == expected
    facts = read_lakeport(spark, path).selectExpr(
        "deep.inner.b IS NULL AS b", "deep.inner IS NULL AS inner", "size(list) AS n", "get(list, 1) IS NULL AS gone",
        "element_at(by_name, '')[0] AS day", "typeof(nothing) AS kind",
    )  # fmt: skip
    assert [tuple(row) for row in facts.collect()] == [
        (True, False, 3, True, date(1500, 2, 28), "void"),
        (True, True, 0, True, None, "void"),
        (True, True, None, True, None, "void"),
    ]


def test_variants_arrive_alone_and_inside_of_others(spark: SparkSession, tmp_path: Path) -> None:
    kind = primitive("variant")
    schema = struct(v=kind, s=struct(v=kind), a=ArrayType(kind), m=MapType(primitive("string"), kind))
    value = variant({"n": 1, "t": "é"})
    rows: list[dict[str, Any]] = [
        {"v": value, "s": {"v": value}, "a": [value, None], "m": [("k", value)]},
        {"s": {"v": None}},
    ]
    path = build(tmp_path / "t", schema, rows)
    for way, df in both_ways(spark, path).items():
        assert df.schema["v"].dataType == spark_types.VariantType(), way
        assert df.schema["a"].dataType.simpleString() == "array<variant>", way
        texts = df.selectExpr(
            "to_json(v)", "to_json(s.v)", "to_json(get(a, 0))", "get(a, 1) IS NULL", "to_json(m['k'])"
        )
        first, second = texts.collect()
        assert [json.loads(text) for text in (first[0], first[1], first[2], first[4])] == [{"n": 1, "t": "é"}] * 4
        assert first[3] is True
        assert tuple(second) == (None, None, None, True, None), way
        assert df.selectExpr("variant_get(v, '$.n', 'int')").first()[0] == 1  # type: ignore[index]


def test_char_and_varchar_are_strings(spark: SparkSession, tmp_path: Path) -> None:
    limited = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    schema = struct(StructField("c", primitive("string"), True, limited))
    path = build(tmp_path / "t", schema, [{"c": "abc"}, {"c": " a "}])
    df = read_lakeport(spark, path)
    assert df.schema == spark_types.StructType([spark_types.StructField("c", spark_types.StringType())])
    assert [row.c for row in df.collect()] == ["abc", " a "]


# Schemas


def test_nullability_and_comments_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    schema = struct(
        StructField("id", primitive("long"), False, {"comment": "counts", "delta.columnMapping.id": 1}),
        StructField("s", struct(StructField("x", primitive("integer"), False)), True),
        StructField("a", ArrayType(primitive("string"), contains_null=False), False),
        StructField("m", MapType(primitive("string"), primitive("long"), value_contains_null=False)),
    )
    row = {"id": 1, "s": {"x": 1}, "a": ["x"], "m": [("k", 1)]}
    path = build(tmp_path / "t", schema, [row])
    for df in (read_lakeport(spark, path), to_python_frame(lakeport.scan(path), spark)):
        found = df.schema
        assert [field.nullable for field in found] == [False, True, False, True]
        assert found["s"].dataType[0].nullable is False  # type: ignore[index]
        assert found["a"].dataType.containsNull is False  # type: ignore[attr-defined]
        assert found["m"].dataType.valueContainsNull is False  # type: ignore[attr-defined]
        assert found["id"].metadata == {"comment": "counts"}
        assert [r.asDict(recursive=True) for r in df.collect()] == [{**row, "m": {"k": 1}}]
    assert lakeport.scan(path).to_spark(spark).schema["id"].metadata == {"comment": "counts"}


NAMES = ["a.b", "a b", "ünï😀", "back`tick", "quo\"te'", "1", "sel,ect", "a;{}()\t=", "Id"]


def test_columns_may_have_any_names(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = {name: [number, None] for number, name in enumerate(NAMES)}
    rows = pa.table({**data, "s.t": [dict.fromkeys(NAMES[:4], 7), None]})
    tables.create(path, rows, properties={"delta.columnMapping.mode": "name"})
    for found in rows_by_way(both_ways(spark, path)).values():
        assert found.to_pylist() == rows.to_pylist()
    some = spark_types.StructType(
        [
            spark_types.StructField("back`tick", spark_types.LongType()),
            spark_types.StructField("s.t", spark_types.StructType().add("a.b", spark_types.LongType())),
        ]
    )
    narrow = spark.read.format("lakeport").schema(some).load(path)
    assert narrow.toArrow().to_pylist() == [{"back`tick": 3, "s.t": {"a.b": 7}}, {"back`tick": None, "s.t": None}]


def test_an_interval_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = build(tmp_path / "t", struct(id="long"), [{"id": 1}])
    with pytest.raises(PySparkException) as failed:
        spark.read.format("lakeport").schema("id interval day").load(path).collect()
    assert "interval" in str(failed.value).splitlines()[0]


def test_what_spark_wants_of_arrow_is_what_it_says() -> None:
    schema = to_spark_schema(NESTED)
    found = spark_arrow_schema(schema)
    assert found.names == list(NESTED.names)
    assert found.field("list").type.value_type.field("at").type == pa.timestamp("us", "UTC")


def test_the_columns_of_a_schema_are_looked_for_in_the_table() -> None:
    table = struct(id="long", s=struct(a="integer", b="string"))

    def wanted(ddl: str) -> spark_types.StructType:
        found = spark_types.StructType.fromDDL(ddl)
        assert isinstance(found, spark_types.StructType)
        return found

    assert selected_columns(table, wanted("ID BIGINT")) == ["`ID`"]
    assert selected_columns(table, wanted("s STRUCT<b: STRING>, id BIGINT")) == ["`s`.`b`", "`id`"]
    with pytest.raises(UnknownColumnError, match="nope"):
        selected_columns(table, wanted("nope INT"))
    with pytest.raises(ValueError, match=r"'s\.a' is int in the table, but string in the given schema; cast it"):
        selected_columns(table, wanted("s STRUCT<a: STRING>"))


def test_a_schema_cannot_promise_that_there_are_no_nulls() -> None:
    many = StructField("many", ArrayType(primitive("integer")))
    known = StructField("id", primitive("long"), nullable=False)
    table = StructType((known, many, *struct(n="long", s=struct(a="integer"))))
    element = spark_types.ArrayType(spark_types.IntegerType(), containsNull=False)
    for name, kind, nullable in [
        ("n", spark_types.LongType(), False),
        ("many", element, True),
        ("s", spark_types.StructType([spark_types.StructField("a", spark_types.IntegerType(), False)]), True),
    ]:
        with pytest.raises(ValueError, match="is nullable in the table"):
            selected_columns(table, spark_types.StructType([spark_types.StructField(name, kind, nullable)]))
    assert selected_columns(table, to_spark_schema(StructType((known,)))) == ["`id`"]


# Tables of any kind

SIMPLE = [
    "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "decimal(5,2)", "decimal(38,0)",
]  # fmt: skip


def types_of(depth: int) -> st.SearchStrategy[Any]:
    plain = st.sampled_from(SIMPLE).map(primitive)
    if depth == 0:
        return plain
    inner = types_of(depth - 1)
    keys = st.sampled_from(["string", "long", "date", "decimal(5,2)"]).map(primitive)
    fields = st.lists(inner, min_size=1, max_size=3).map(
        lambda types: StructType(tuple(StructField(f"f{n}", kind) for n, kind in enumerate(types)))
    )
    return plain | fields | inner.map(ArrayType) | st.builds(MapType, keys, inner)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    match kind:
        case StructType(fields):
            return st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in fields})
        case ArrayType(element):
            return st.lists(st.none() | values_of(element), max_size=3)
        case MapType(key, value):
            pairs = st.tuples(values_of(key), st.none() | values_of(value))
            return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    return PRIMITIVE_VALUES[kind.name]


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


PRIMITIVE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": integers(8),
    "short": integers(16),
    "integer": integers(32),
    "long": integers(64),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(5,2)": st.integers(-99999, 99999).map(lambda number: Decimal(number).scaleb(-2)),
    "decimal(38,0)": st.integers(1 - 10**38, 10**38 - 1).map(Decimal),
}


@st.composite
def any_table(draw: st.DrawFn) -> tuple[StructType, list[dict[str, Any]]]:
    kinds = [*map(primitive, SIMPLE), *draw(st.lists(types_of(2), min_size=8, max_size=12))]
    schema = StructType(tuple(StructField(f"c{number}", kind) for number, kind in enumerate(kinds)))
    row = st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in schema})
    return schema, draw(st.lists(row, min_size=3, max_size=8))


@examples(6, suppress_health_check=list(HealthCheck))
@given(any_table())
def test_tables_of_any_kind_have_the_rows_that_the_kernel_reads(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, made: tuple[StructType, list[dict[str, Any]]]
) -> None:
    path = build(tmp_path_factory.mktemp("any"), *made)
    expected = lakeport.scan(path).to_arrow()
    for rows in rows_by_way(both_ways(spark, path)).values():
        assert_same_rows(rows, expected)
