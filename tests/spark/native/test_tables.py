"""Tables with all that can be odd about one, through Spark's own reader: the rows are the kernel's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import lakeport
from lakeport.frame import Frame
from lakeport.kernel.expressions import Expression, Like, col
from lakeport.kernel.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from lakeport.spark.native.frames import why_not_native
from lakeport.spark.schemas import to_spark_schema
from lakeport.testing.builder import TableBuilder, mapped, struct
from tests.acceptance.comparing import assert_same_rows
from tests.examples import examples
from tests.spark.native.reading import built, native, scans_of, setting

pytestmark = pytest.mark.usefixtures("native_jar")

ZONES = ("UTC", "America/Los_Angeles", "Asia/Kathmandu")
PARTITIONS: Mapping[str, list[str]] = {
    "string": ["a/b", "a=b", "100%", "%41", " x ", "x:y?#", "née 漢字 🎈", ".hidden", "_under", "a\tb\nc", "\\",
               "a'\"`",
               "__HIVE_DEFAULT_PARTITION__", "x._COPYING_", "null", "..", "{[^<>|]}*"],
    "byte": ["-128", "127"],
    "short": ["-5"],
    "integer": ["-2147483648"],
    "long": ["9223372036854775807"],
    "float": ["1.5", "NaN", "-Infinity", "1e+20"],
    "double": ["1e+300", "-1E-300", "NaN", "Infinity", "-0.0"],
    "decimal(10,2)": ["1.5", "-0.01", "12345678.9", "100"],
    "decimal(38,6)": ["12345678901234567890123456789012.123456", "1E+3"],
    "boolean": ["true", "false"],
    "date": ["2026-01-31", "0001-01-01", "9999-12-31"],
    "timestamp": ["2026-03-08 10:30:00", "1969-12-31T23:59:59.999999Z", "2026-11-01 09:30:00.5"],
    "timestamp_ntz": ["2026-03-08 02:30:00", "1969-12-31 23:59:59.999999"],
}  # fmt: skip


def assert_native(spark: SparkSession, table: TableBuilder) -> pa.Table:
    frame = lakeport.scan(table.root)
    found = native(spark, frame).toArrow()
    assert_same_rows(found, frame.to_arrow())
    return found


# Partitions


@pytest.mark.parametrize("zone", ZONES)
def test_partition_values_of_every_type_come_out_as_they_are_in_any_time_zone(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    names = {kind: f"p {number}" for number, kind in enumerate(PARTITIONS)}
    schema = struct(id="long", **{names[kind]: kind for kind in PARTITIONS})
    table = built(tmp_path, schema, tuple(names.values()), "none", "timestampNtz")
    none = dict.fromkeys(names.values())
    adds = [table.add({"id": [0]}, none)]
    for kind, texts in PARTITIONS.items():
        adds += [table.add({"id": [number, -number]}, none | {names[kind]: text}) for number, text in enumerate(texts)]
    table.commit(*adds)
    with setting(spark, "spark.sql.session.timeZone", zone):
        found = assert_native(spark, table)
    assert found.num_rows == 1 + 2 * sum(map(len, PARTITIONS.values()))


def test_names_of_partition_columns_may_be_odd(spark: SparkSession, tmp_path: Path) -> None:
    odd = (".a", "_b", "c=d", "e/f", "g.h", "i`j", "漢", "100%", "_metadata.x", "key")
    table = built(tmp_path, struct(id="long", **dict.fromkeys(odd, "string")), odd)
    table.commit(table.add({"id": [1]}, dict.fromkeys(odd, "v")), table.add({"id": [2]}, dict.fromkeys(odd)))
    assert_native(spark, table)


def test_a_partition_column_that_is_also_in_the_files_has_the_value_of_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = built(tmp_path, struct(id="long", day="string"), ("day",))
    table.commit(table.add(pa.table({"id": [1], "day": ["of the file"]}), {"day": "of the log"}))
    assert assert_native(spark, table).column("day").to_pylist() == ["of the log"]


# Columns


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_columns_are_found_also_in_structs_lists_and_maps(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    inner = mapped(struct(x="long", y="string"), iter(range(100, 110)))
    text = PrimitiveType("string")
    nested = struct(id="long", s=inner, l=ArrayType(inner), m=MapType(text, inner), day="date")
    table = built(tmp_path, mapped(nested), ("day",), mode)
    value = {"col-100": 5, "col-101": "five"}
    structs = [{"col-3": 5, "col-4": "five"}, None]
    rows = {"col-1": [1, 2], "col-2": structs, "col-5": [[value], [None]], "col-6": [[("k", value)], []]}
    table.commit(table.add(rows, {"col-7": "2026-01-31"}))
    with setting(spark, "spark.sql.parquet.fieldId.read.enabled", "true"):
        found = assert_native(spark, table).to_pylist()
        frame = native(spark, lakeport.scan(table.root))
        assert [tuple(row) for row in frame.where("s.x = 5").select("s.y", "l.x", "m").collect()] == [
            ("five", [5], {"k": frame.where("id = 1").collect()[0].s})
        ]
    assert found[0]["s"] == {"x": 5, "y": "five"}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_one_field_of_the_structs_in_a_map_is_taken_whatever_files_call_it(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    key, value = (
        mapped(struct(a="long", b="long"), iter((50, 51))),
        mapped(struct(x="long", y="string"), iter((60, 61))),
    )
    table = built(tmp_path, mapped(struct(id="long", m=MapType(key, value))), (), mode)
    entries = [({"col-50": n, "col-51": -n}, {"col-60": 10 * n, "col-61": str(n)}) for n in (1, 2)]
    table.commit(table.add({"col-1": [1, 2, 3], "col-2": [entries, [], None]}))
    with setting(spark, "spark.sql.parquet.fieldId.read.enabled", "true"):
        rows = native(spark, lakeport.scan(table.root))
        for query, found in {
            "map_values(m).y": ["1", "2"],
            "map_values(m).x": [10, 20],
            "map_keys(m).b": [-1, -2],
            "transform(map_entries(m), e -> e.key.b + e.value.x)": [9, 18],
        }.items():
            one = rows.orderBy("id").selectExpr(f"{query} AS found")
            assert [row.found for row in one.collect()] == [found, [], None], query
        assert "m:map<struct<a:bigint,b:bigint>,struct<y:string>>" in scans_of(rows.selectExpr("map_values(m).y"))[0]


STRICT = struct(
    StructField("x", PrimitiveType("long"), nullable=False),
    StructField("y", PrimitiveType("string")),
    StructField("z", PrimitiveType("long")),
)
"""Its fields are `col-10x` in files."""


def strict_table(tmp_path: Path) -> TableBuilder:
    """With column mapping, deleted rows, and no nulls in some places, nested ones too."""
    inner, text = mapped(STRICT, iter(range(100, 110))), PrimitiveType("string")
    fields: dict[str, DataType] = {
        "id": PrimitiveType("long"),
        "s": inner,
        "l": ArrayType(inner, False),
        "m": MapType(text, PrimitiveType("long"), False),
        "day": PrimitiveType("date"),
    }
    strict = struct(*(StructField(name, kind, nullable=False) for name, kind in fields.items()), t=STRICT)
    table = built(tmp_path, mapped(strict), ("day",), "name", "deletionVectors")
    ids = {field.name: field.physical_name("name") for field in table.schema}
    value = {"col-100": 7, "col-101": "seven", "col-102": 8}
    structs, loose = table.schema.resolve(("s",))[0].type, table.schema.resolve(("t",))[0].type
    assert isinstance(structs, StructType)
    assert isinstance(loose, StructType)
    rows = {
        ids["id"]: [1, 2, 3],
        ids["s"]: [dict(zip([f.physical_name("name") for f in structs], v, strict=True)) for v in [(1, "a", 2)] * 3],
        ids["l"]: [[value], [], []],
        ids["m"]: [[("k", 1)], [], []],
        ids["t"]: [None, dict(zip([f.physical_name("name") for f in loose], (5, None, 6), strict=True)), None],
    }
    days = [table.add(rows, {ids["day"]: day}) for day in ("2026-01-01", "2026-01-02")]
    table.commit(*days)
    table.commit(*table.delete(days[0], [0]))
    return table


def test_columns_without_nulls_stay_so_nested_ones_too(spark: SparkSession, tmp_path: Path) -> None:
    frame = lakeport.scan(strict_table(tmp_path).root)
    rows = native(spark, frame)
    assert rows.schema == to_spark_schema(frame.selected)
    assert sorted((row.id, row.t and row.t.x, str(row.day)[-1]) for row in rows.collect()) == [
        (1, None, "2"), (2, 5, "1"), (2, 5, "2"), (3, None, "1"), (3, None, "2")
    ]  # fmt: skip
    some = frame.where("t.x = 5").select("t.y", "s.z", "id")
    assert native(spark, some).schema == to_spark_schema(some.selected)
    assert [tuple(row) for row in native(spark, some).collect()] == [((None,), (2,), 2)] * 2


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_nulls_where_the_schema_has_none_are_an_error_and_no_other_value(
    spark: SparkSession, tmp_path: Path, vectorized: str
) -> None:
    table = built(tmp_path, struct(StructField("id", PrimitiveType("long"), nullable=False), n="long"))
    table.commit(table.add({"id": [1, 2], "n": [3, None]}))
    rows = native(spark, lakeport.scan(table.root))
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", vectorized):
        assert sorted(row.id for row in rows.collect()) == [1, 2]
        table.commit(table.add(pa.table({"id": [4, None], "n": [5, 6]})))
        rows = native(spark, lakeport.scan(table.root))
        assert rows.where("n > 2").select("n").count() == 3
        with pytest.raises(Exception, match="has nulls in the column 'id'"):
            rows.collect()


def test_only_the_fields_that_a_query_needs_are_read_whatever_files_call_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = native(spark, lakeport.scan(strict_table(tmp_path).root))
    for query, read in (("s.z", "s:struct<z:bigint>"), ("t.y", "t:struct<y:string>"), ("l.x", "l:array<struct<x:big")):
        scans = scans_of(rows.select(query))
        assert len(scans) == 2
        assert all(f"ReadSchema: struct<{read}" in scan for scan in scans), scans
    found = rows.where("t.x = 5 AND day = '2026-01-02'").select("id")
    assert [row.id for row in found.collect()] == [2]
    assert all("IsNotNull(t.x)" in scan.partition("PushedFilters")[2] for scan in scans_of(found))
    assert "EqualTo(t.x,5)" in scans_of(found)[-1]  # Spark does not show all of the other
    assert all("PartitionFilters: [(day" in scan for scan in scans_of(found))


def test_row_groups_are_skipped_by_the_names_that_files_have(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, mapped(struct(n="long", e=struct(x="long"))), (), "name")
    numbers = range(1000)
    rows = {"col-1": list(numbers), "col-2": [{"col-3": n} for n in numbers]}
    table.commit(table.add(rows, row_group_size=100))
    frame = native(spark, lakeport.scan(table.root))
    for condition in ("n = 250", "e.x = 250", "n IN (250, 251) AND e.x < 251", "NOT (n <> 250)"):
        found = frame.where(condition)
        assert [row.n for row in found.collect()] == [250]
        assert rows_read(found) <= 100, condition


def rows_read(rows: DataFrame) -> int:
    """How many rows came out of the files, with all that was not skipped."""
    plan = rows._jdf.queryExecution().executedPlan()
    scan = plan.collectLeaves().head()
    return int(scan.metrics().apply("numOutputRows").value())


def test_columns_that_older_files_lack_are_null(spark: SparkSession, tmp_path: Path) -> None:
    before, after = struct(a="long"), struct(a="long", b="string")
    table = built(tmp_path, struct(id="long", s=before))
    table.commit(table.add({"id": [1, 2], "s": [{"a": 1}, None]}))
    table.schema = struct(id="long", s=after, t=StructType((StructField("z", PrimitiveType("integer")),)))
    table.commit(table.metadata, table.add({"id": [3], "s": [{"a": 3, "b": "b"}], "t": [{"z": 1}]}))
    assert_native(spark, table)
    frame = lakeport.scan(table.root)
    seen = native(spark, frame).where("s IS NOT NULL").select("id", "s.b").collect()
    assert sorted(map(tuple, seen)) == [(1, None), (3, "b")]
    assert sorted(map(tuple, native(spark, frame).where("s.b IS NULL").select("id").collect())) == [(1,), (2,)]


def test_names_of_columns_may_be_odd_and_differ_in_case_from_those_of_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = built(tmp_path, struct(**{"a.b": "long", "c`d": "string", "Ünï": "long", "SELECT": "long", "x y": "long"}))
    data = {"A.b": [1], "c`D": ["x"], "Ünï": [3], "select": [4], "X Y": [5]}
    table.commit(table.add(pa.table(data)))
    assert assert_native(spark, table).to_pylist() == [{"a.b": 1, "c`d": "x", "Ünï": 3, "SELECT": 4, "x y": 5}]


def test_void_columns_and_empty_tables_have_their_types(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, struct(id="long", nothing="void"))
    assert native(spark, lakeport.scan(table.root)).toArrow().num_rows == 0
    table.commit(table.add(pa.table({"id": [1]})))
    assert native(spark, lakeport.scan(table.root)).collect()[0].asDict() == {"id": 1, "nothing": None}


# Deletion vectors


def test_deleted_rows_stay_away_whatever_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, struct(id="long", part="string"), ("part",), "none", "deletionVectors")
    whole = table.add({"id": list(range(1000, 1010))}, {"part": "a"})
    adds = [table.add({"id": list(range(100))}, {"part": part}, row_group_size=7) for part in ("a", "b", None)]
    table.commit(whole, *adds)
    for add, kind in zip(adds, "uip", strict=True):
        table.commit(*table.delete(add, [0, 6, 7, 50, 99, 2**32 + 5, 2**33], kind))
    assert assert_native(spark, table).num_rows == 10 + 3 * 95
    frame = native(spark, lakeport.scan(table.root))
    assert frame.where("id BETWEEN 48 AND 52").count() == 3 * 4
    assert sorted(row.id for row in frame.where("id > 90 AND part = 'b'").collect()) == list(range(91, 99))
    assert frame.count() == 295
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", "false"):
        assert frame.where("id BETWEEN 48 AND 52").count() == 3 * 4


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_deleted_rows_stay_away_where_pages_are_skipped(spark: SparkSession, tmp_path: Path, vectorized: str) -> None:
    """The rows of a batch are then not next to each other in the file."""
    table = built(tmp_path, struct(id="long"), (), "none", "deletionVectors")
    pages = {"write_page_index": True, "use_dictionary": False, "write_batch_size": 100, "data_page_size": 1}
    add = table.add({"id": list(range(10_000))}, parquet=pages)  # 100 pages
    table.commit(add).commit(*table.delete(add, [50, 170, 9930]))
    found = native(spark, lakeport.scan(table.root)).where("id < 100 OR id >= 9900")
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", vectorized):
        assert {row.id for row in found.collect()} == {*range(100), *range(9900, 10_000)} - {50, 9930}
        assert 0 < rows_read(found) <= 200


# Settings of the session


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.sources.useV1SourceList", "csv"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
        ("spark.sql.parquet.int96AsTimestamp", "false"),
    ],
)
def test_settings_under_which_spark_reads_other_rows_lead_to_the_python_path(
    spark: SparkSession, tmp_path: Path, name: str, value: str
) -> None:
    table = built(tmp_path, struct(id="long"))
    with setting(spark, name, value):
        assert name in str(why_not_native(lakeport.scan(table.root), spark))
    assert why_not_native(lakeport.scan(table.root), spark) is None


def test_other_settings_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, struct(id="long", b="binary", t="timestamp"))
    moment = datetime(1800, 1, 1, tzinfo=UTC)
    adds = [table.add({"id": [n], "b": [b"\xff"], "t": [moment]}) for n in range(3)]
    table.commit(*adds)
    given = {
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.parquet.mergeSchema": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in given}
    try:
        for name, value in given.items():
            spark.conf.set(name, value)
        assert_native(spark, table)
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


@pytest.mark.parametrize("name", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"])
def test_a_file_that_is_gone_or_damaged_is_an_error_whatever_the_session_ignores(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table = built(tmp_path, struct(id="long"))
    add = table.add({"id": [1]})
    table.commit(add, table.add({"id": [2]}))
    path = Path(table.root) / add["add"]["path"]
    frame = native(spark, lakeport.scan(table.root))
    if "Missing" in name:
        path.unlink()
    else:
        path.write_bytes(b"x" * path.stat().st_size)
    with setting(spark, name, "true"), pytest.raises(Exception, match="lakeport://"):
        frame.collect()


# Filters of the frame

FILTERED = struct(
    n="integer", d="double", f="float", s="string", b="binary", k="boolean", c="decimal(10,2)", day="date",
    at="timestamp", local="timestamp_ntz", e=struct(x="long"), part="integer",
)  # fmt: skip
TEXTS = ["", "a", "ab", "a%b", "a_b", "B", "ü", "\U0001f388", "a\\b", "\n"]
NUMBERS = [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), 1e300, 0.1]
MOMENTS = [
    datetime(2026, 1, 1, 12, 30, 15, 123456),
    datetime(1969, 12, 31),
    datetime(1582, 10, 4),
    datetime(9999, 1, 1),
]
VALUES: Mapping[str, list[Any]] = {
    "n": [-(2**31), -1, 0, 1, 7, 2**31 - 1],
    "d": NUMBERS,
    "f": [n for n in NUMBERS if n != 1e300],
    "s": TEXTS,
    "b": [b"", b"\x00", b"\xff", b"a"],
    "k": [True, False],
    "c": [Decimal("1.50"), Decimal("-0.01"), Decimal("99999999.99")],
    "day": [m.date() for m in MOMENTS],
    "at": [m.replace(tzinfo=UTC) for m in MOMENTS],
    "local": MOMENTS,
    "e.x": [-(2**63), 0, 5],
    "part": [1, 2],
}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    table = built(tmp_path_factory.mktemp("filtered"), FILTERED, ("part",), "none", "timestampNtz")
    for part in (None, "1", "2"):
        columns = {name: [*values, None] for name, values in VALUES.items() if name not in ("part", "e.x")}
        size = max(map(len, columns.values()))
        rows: dict[str, Any] = {
            name: [values[i % len(values)] for i in range(size)] for name, values in columns.items()
        }
        rows["e"] = [None, *({"x": x} for x in [*VALUES["e.x"], None] * size)][:size]
        table.commit(table.add(rows, {"part": part}, row_group_size=3))
    return lakeport.scan(table.root)


def conditions() -> st.SearchStrategy[Expression]:
    others: Mapping[str, list[Any]] = {
        "n": [1.5, 2**40],
        "c": [Decimal("1.555"), 3],
        "d": [1, 2**60],
        "s": [],
        "day": [],
    }

    def about(name: str) -> st.SearchStrategy[Expression]:
        known = [v for v in VALUES[name] if v == v]
        value = st.sampled_from([*known, *others.get(name, ())])
        op = st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "equals_null_safe"])
        compared = st.builds(lambda o, v: getattr(col(name), o)(v), op, value)
        listed = st.lists(st.sampled_from(known), min_size=1, max_size=3).map(col(name).isin)
        patterns = ["%", "a%", "_", r"a\%b", "%\\\\%", "%_b"]
        liked = [st.sampled_from(patterns).map(lambda p: Like(col(name), p))] if name == "s" else []
        return st.one_of(compared, listed, st.just(col(name).is_null()), *liked)

    def combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        both = st.builds(lambda a, b: a & b, inner, inner)
        either = st.builds(lambda a, b: a | b, inner, inner)
        return st.one_of(both, either, inner.map(lambda a: ~a))

    return st.recursive(st.one_of(*map(about, VALUES)), combined, max_leaves=4)


def test_negated_comparisons_with_zero_keep_both_zeros(spark: SparkSession, tmp_path: Path) -> None:
    """Spark turns them into their opposites, by which row groups are skipped."""
    table = built(tmp_path, struct(f="double"), (), "none")
    table.commit(table.add({"f": [-0.0, -0.0, 0.0, 0.0, -1.0, 1.0, None, float("nan")]}, row_group_size=2))
    frames = [
        lakeport.scan(table.root).where(~getattr(col("f"), op)(zero))
        for op in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
        for zero in (0.0, -0.0)
    ]
    parts = [native(spark, frame).select(F.lit(number), "f") for number, frame in enumerate(frames)]
    found: dict[int, list[float]] = {number: [] for number in range(len(frames))}
    for number, value in reduce(DataFrame.union, parts).collect():
        found[number].append(value)
    for number, frame in enumerate(frames):
        assert sorted(map(repr, found[number])) == sorted(map(repr, frame.to_arrow()["f"].to_pylist())), frame


@examples(3)
@given(chosen=st.lists(conditions(), min_size=20, max_size=25))
def test_filters_of_a_frame_keep_the_rows_that_the_kernel_keeps(
    spark: SparkSession, filtered: Frame, chosen: list[Expression]
) -> None:
    frames = [filtered.where(condition) for condition in chosen]
    frames = [frame for frame in frames if why_not_native(frame, spark) is None]  # some conditions Python decides
    assert len(frames) > len(chosen) / 2
    parts = [
        native(spark, frame).select(F.lit(number).alias("number"), "n", "s") for number, frame in enumerate(frames)
    ]
    found: dict[int, list[Any]] = {number: [] for number in range(len(frames))}
    for number, *row in reduce(DataFrame.union, parts).collect():
        found[number].append(tuple(row))
    for number, frame in enumerate(frames):
        expected = [tuple(row.values()) for row in frame.select("n", "s").to_arrow().to_pylist()]
        assert sorted(found[number], key=repr) == sorted(expected, key=repr), frame


def test_a_filter_on_a_timestamp_keeps_its_microseconds(spark: SparkSession, filtered: Frame) -> None:
    moment = datetime(2026, 1, 1, 12, 30, 15, 123456, UTC)
    for condition in (col("at") == moment, col("at").isin([moment]), col("local") == moment.replace(tzinfo=None)):
        frame = filtered.where(condition)
        assert native(spark, frame).count() == frame.count() > 0


def test_dates_and_timestamps_of_early_years_are_compared_in_python(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's reader has no day of 1582-10-05 to 14, and Spark's literals have no year before 1000."""
    days = {-735525: "-0044-03-15", -719162: "0001-01-01", -141428: "1582-10-14", 3789391: "12345-01-01"}
    schema = struct(id="long", day="date", at="timestamp", local="timestamp_ntz")
    table = built(tmp_path, schema, (), "none", "timestampNtz")
    micros = pa.array([day * 86_400_000_000 for day in days])
    columns = {"id": pa.array(list(days)), "day": pa.array(list(days), pa.int32()).cast(pa.date32())}
    columns |= {"at": micros.cast(pa.timestamp("us", "UTC")), "local": micros.cast(pa.timestamp("us"))}
    table.commit(table.add(pa.table(columns), stats=None))
    frame = lakeport.scan(table.root)
    equal = {(name, day): f"{name} = '{text}'" for name in ("day", "at", "local") for day, text in days.items()}
    assert {day for (_, day), c in equal.items() if why_not_native(frame.where(c), spark) is None} == {3789391}
    parts = [frame.where(c).to_spark(spark).select(F.lit(name), F.lit(day), "id") for (name, day), c in equal.items()]
    found = reduce(DataFrame.union, parts).collect()
    assert sorted(map(tuple, found)) == sorted((name, day, day) for name, day in equal)


def test_both_zeros_are_found_whatever_row_groups_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    table = built(tmp_path, struct(d="double"))
    table.commit(table.add({"d": [0.0] * 3}, stats=None), table.add({"d": [-0.0] * 3}, stats=None))
    frame, zeros = lakeport.scan(table.root), (0.0, -0.0)
    kept = [c for z in zeros for c in (col("d") == z, col("d") >= z, col("d") <= z, col("d").isin([z, 5.0]))]
    parts = [native(spark, frame.where(c)).select(F.lit(n).alias("n")) for n, c in enumerate(kept)]
    counts = reduce(DataFrame.union, parts).groupBy("n").count().collect()
    assert sorted(map(tuple, counts)) == [(number, 6) for number in range(len(kept))]


def test_a_filter_that_spark_might_decide_in_another_way_leads_to_the_python_path(
    spark: SparkSession, filtered: Frame
) -> None:
    assert "filter" in str(why_not_native(filtered.where("n % 2 = 0"), spark))
    assert "filter" in str(why_not_native(filtered.where(Like(col("s"), "a\\b")), spark))
    assert why_not_native(filtered.where("part % 2 = 0"), spark) is None


# Sessions


@pytest.mark.parametrize("columns", [1, 101])
@pytest.mark.parametrize("codegen", ["true", "false"])
def test_deleted_rows_are_left_out_however_spark_takes_rows(
    spark: SparkSession, tmp_path: Path, columns: int, codegen: str
) -> None:
    """Of more than a hundred columns, Spark takes rows and not batches."""
    schema = struct(**{f"c{number}": "long" for number in range(columns)})
    table = built(tmp_path, schema, (), "none", "deletionVectors")
    whole = table.add({name: list(range(10)) for name in schema.names})
    table.commit(whole).commit(*table.delete(whole, [2, 7]))
    with setting(spark, "spark.sql.codegen.wholeStage", codegen):
        found = native(spark, lakeport.scan(table.root)).collect()
    assert sorted(row.c0 for row in found) == [0, 1, 3, 4, 5, 6, 8, 9]


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.caseSensitive", "true"), ("spark.sql.parquet.int96TimestampConversion", "true")],
    ids=["case", "int96"],
)
def test_settings_that_would_give_other_values_later_are_an_error(
    spark: SparkSession, tmp_path: Path, name: str, value: str
) -> None:
    table = built(tmp_path, struct(id="long"))
    table.commit(table.add({"id": [1, 2]}))
    rows = native(spark, lakeport.scan(table.root))
    with setting(spark, name, value), pytest.raises(Exception, match=f"the session setting {name} is no longer"):
        rows.where("id > 0").collect()
    assert rows.where("id > 1").count() == 1


def test_files_that_spark_would_leave_out_or_read_otherwise_come_from_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    for size in (0, 10**15):
        table = built(tmp_path / f"{size}", struct(id="long"))
        table.commit(table.add({"id": [1, 2]})).commit(table.add({"id": [3]}, size=size))
        assert why_not_native(lakeport.scan(table.root), spark) == "its log has wrong file sizes"
    other = built(tmp_path / "other", struct(id="long"))
    other.commit(other.add(pa.table({"id": [1], "_tmp_metadata_row_index": [5]}), stats=None))
    assert "a name that Spark reserves" in str(why_not_native(lakeport.scan(other.root), spark))
    assert [row.id for row in lakeport.scan(other.root).to_spark(spark).collect()] == [1]
