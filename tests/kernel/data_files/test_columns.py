"""Between the columns of files and the columns of tables."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeport.engine import memory_engine
from lakeport.errors import CorruptTableError
from lakeport.kernel.data_files import FieldIndex, columns_to_read, conform
from lakeport.kernel.data_files.columns import cast
from lakeport.kernel.engine import FIELD_ID
from lakeport.kernel.expressions import col
from lakeport.kernel.schema import ArrayType, MapType, PrimitiveType, StructField, arrow_schema
from lakeport.testing.builder import TableBuilder, mapped, protocol, read, rows, struct

WIDENINGS: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array([-128, 127, None], pa.int8()), "short", [-128, 127, None]),
    (pa.array([-128, 127], pa.int8()), "long", [-128, 127]),
    (pa.array([2**31 - 1], pa.int32()), "long", [2**31 - 1]),
    (pa.array([2**31 - 1], pa.int32()), "double", [2.0**31 - 1]),
    (pa.array([7], pa.int8()), "double", [7.0]),
    (pa.array([0.1], pa.float32()), "double", [0.10000000149011612]),
    (pa.array([7], pa.int32()), "decimal(12,2)", [Decimal("7.00")]),
    (pa.array([2**62], pa.int64()), "decimal(20,0)", [Decimal(2**62)]),
    (pa.array([Decimal("1.25")], pa.decimal128(3, 2)), "decimal(20,5)", [Decimal("1.25000")]),
    (pa.array([date(2026, 1, 1)], pa.date32()), "timestamp_ntz", [datetime(2026, 1, 1)]),
]
STORED: list[tuple[pa.Array, str, list[Any]]] = [
    (pa.array(['{"a":1}', None], pa.json_()), "string", ['{"a":1}', None]),
    (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))),
        "binary",
        [b"0123456789abcdef"],
    ),
    (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())), "byte", [1, 0]),
    (pa.array([1.5, None], pa.float16()), "float", [1.5, None]),
    (pa.array([1.5], pa.float16()), "double", [1.5]),
    (pa.array([1500, None], pa.duration("ms")), "long", [1500, None]),
    (pa.array([61_000_000], pa.time64("us")), "long", [61_000_000]),
    (pa.array([61_000], pa.time32("ms")), "integer", [61_000]),
]
"""Columns of types that Delta does not have, as the table knows them."""


@pytest.mark.parametrize(("stored", "kind", "values"), WIDENINGS)
def test_a_column_of_an_older_file_is_widened(stored: pa.Array, kind: str, values: list[Any]) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(n=kind), protocol=protocol(features=["typeWidening"]))
    table.create(table.add(pa.table({"n": stored})))
    assert read(table.snapshot()).column("n").to_pylist() == values
    for value in values:  # statistics of the narrower type still decide
        if value is not None:
            assert (value,) in rows(table.snapshot(), col("n") == value)


@pytest.mark.parametrize(("stored", "kind", "values"), STORED, ids=[f"{a.type} as {kind}" for a, kind, _ in STORED])
def test_a_column_of_a_type_that_delta_has_not_is_read_as_it_is_stored(
    stored: pa.Array, kind: str, values: list[Any]
) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(n=kind, l=ArrayType(PrimitiveType(kind))))
    lists = pa.ListArray.from_arrays([0, len(stored)], stored)
    lists = pa.concat_arrays([lists, pa.nulls(len(stored) - 1, lists.type)])
    table.create(table.add(pa.table({"n": stored, "l": lists}), stats=False))
    found = read(table.snapshot())
    assert (found.column("n").to_pylist(), found.column("l")[0].as_py()) == (values, values)
    for value in values:  # by the statistics of Parquet, too
        if value is not None:
            assert value in [n for n, _ in rows(table.snapshot(), col("n") == value)]


@pytest.mark.parametrize("wrap", ["struct", "list", "map"])
def test_a_nested_column_of_an_older_file_is_widened(wrap: str) -> None:
    wide = PrimitiveType("long")
    kind = {"struct": struct(x="long"), "list": ArrayType(wide), "map": MapType(PrimitiveType("string"), wide)}[wrap]
    narrow = {
        "struct": pa.struct([("x", pa.int16())]),
        "list": pa.list_(pa.int16()),
        "map": pa.map_(pa.string(), pa.int16()),
    }[wrap]
    value: Any = {"struct": {"x": 5}, "list": [5, None], "map": [("k", 5)]}[wrap]
    table = TableBuilder(memory_engine(), "memory:///t", struct(n=kind))
    table.create(table.add(pa.table({"n": pa.array([value, None, value], narrow)})))
    found = read(table.snapshot())
    assert found.schema.equals(arrow_schema(table.schema))
    assert found.column("n").to_pylist() == [value, None, value]
    assert [r for b in found.to_batches(1) for r in b.column("n").to_pylist()] == [value, None, value]
    assert read(table.snapshot(), batch_size=1).column("n").to_pylist() == [value, None, value]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([1.5]), "integer"),
        (pa.array([1.5]), "float"),
        (pa.array([1]), "double"),
        (pa.array([1]), "float"),
        (pa.array([2**40]), "integer"),
        (pa.array(["1"]), "integer"),
        (pa.array([1]), "string"),
        (pa.array([True]), "integer"),
        (pa.array([Decimal("123.4")], pa.decimal128(10, 1)), "decimal(3,1)"),
        (pa.array([Decimal("1.25")], pa.decimal128(10, 2)), "decimal(10,1)"),
        (pa.array([date(2026, 1, 1)]), "timestamp"),
        (pa.array([datetime(2026, 1, 1)], pa.timestamp("us")), "date"),
        (pa.array([[1]]), "long"),
        (pa.array([{"x": 1}]), "string"),
    ],
)
def test_a_column_that_cannot_be_widened_is_an_error(stored: pa.Array, kind: str) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(n=kind))
    table.create(table.add(pa.table({"n": stored}), name="bad.parquet", stats=False))
    with pytest.raises(CorruptTableError, match="'n'") as caught:
        rows(table.snapshot())
    assert caught.value.path.endswith("bad.parquet")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_every_unit_of_time_becomes_microseconds(unit: str, kind: str, zone: str | None) -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    array = pa.array([moment, None], pa.timestamp("us", "UTC")).cast(pa.timestamp(unit, zone))
    expected = moment if kind == "timestamp" else moment.replace(tzinfo=None)
    target = arrow_schema(struct(t=kind)).field("t").type
    assert cast(array, target).type == target
    assert cast(array, target).to_pylist() == [expected, None]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_nanoseconds_are_rounded_down_before_1970_too(kind: str) -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(t=kind)).create()
    stored = pa.table({"t": pa.array([-1001, -1000, -1, 0, 999, 1000], pa.int64()).cast(pa.timestamp("ns"))})
    table.commit(table.add(stored, stats=None, row_group_size=1))
    micros = [row[0].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC) for row in rows(table.snapshot())]
    assert sorted(m // timedelta(microseconds=1) for m in micros) == [-2, -1, -1, 0, 0, 1]
    assert len(rows(table.snapshot(), col("t") == datetime(1970, 1, 1))) == 2
    assert len(rows(table.snapshot(), col("t") < datetime(1970, 1, 1))) == 3


def test_columns_are_found_regardless_of_case() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(FooBar="long"))
    table.create(table.add(pa.table({"foobar": [1]}), stats=False))
    assert rows(table.snapshot(), col("FOOBAR") == 1) == [(1,)]


def test_a_column_is_found_by_its_id_or_its_name_or_ignoring_case() -> None:
    def field(name: str, number: int | None = None) -> pa.Field:
        return pa.field(name, pa.int64(), metadata=None if number is None else {FIELD_ID: str(number).encode()})

    index = FieldIndex([field("a", 7), field("B", 8), field("b"), field("A", 7), field("b", 9)])
    wanted = [field("x", 7), field("b", 8), field("b"), field("A"), field("c"), field("b", 1)]
    assert [index.find(target) for target in wanted] == [0, 1, 2, 3, None, None]
    assert FieldIndex([field("aB"), field("Ab")]).find(field("ab")) == 0


def test_a_missing_column_is_null_and_a_missing_required_one_an_error() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(a="long", b="string"))
    table.create(table.add(pa.table({"a": [1]})))
    assert rows(table.snapshot()) == [(1, None)]
    table.schema = struct(StructField("b", PrimitiveType("string"), nullable=False), a="long")
    table.commit(table.metadata)
    with pytest.raises(CorruptTableError, match="required column 'b'"):
        rows(table.snapshot())


def test_in_id_mode_a_missing_id_is_null_at_every_level() -> None:
    inner = struct(x="long", y="long")
    schema = mapped(struct(s=inner, l=ArrayType(inner), a="long"))
    properties = {"delta.columnMapping.mode": "id"}
    table = TableBuilder(memory_engine(), "memory:///t", schema, properties=properties, protocol=protocol(2, 5))

    def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})

    # s has id 1, its x and y 2 and 3; l has id 4, a 5. The file has other names, and lacks ids 3 and 5.
    stored = pa.schema(
        [
            pa.field("a", pa.int64()),
            with_id("one", pa.struct([with_id("two", pa.int64(), 2), pa.field("col-3", pa.int64())]), 1),
        ]
    )
    table.create(table.add(pa.table([[9], [{"two": 5, "col-3": 6}]], schema=stored), stats=False))
    assert read(table.snapshot()).to_pylist() == [{"s": {"x": 5, "y": None}, "l": None, "a": None}]


def test_in_name_mode_ids_do_not_matter() -> None:
    properties = {"delta.columnMapping.mode": "name"}
    table = TableBuilder(
        memory_engine(), "memory:///t", mapped(struct(a="long")), properties=properties, protocol=protocol(2, 5)
    )
    odd = pa.schema([pa.field("col-1", pa.int64(), metadata={FIELD_ID: b"77"})])
    table.create(table.add(pa.table([[5]], schema=odd), stats=False))
    assert rows(table.snapshot()) == [(5,)]


def test_a_renamed_and_a_dropped_column_under_column_mapping() -> None:
    properties = {"delta.columnMapping.mode": "name"}
    schema = mapped(struct(a="long", b="string"))
    table = TableBuilder(memory_engine(), "memory:///t", schema, properties=properties, protocol=protocol(2, 5))
    table.create(table.add({"col-1": [1], "col-2": ["x"]}))
    a, b = schema.fields
    table.schema = struct(StructField("b", a.type, metadata=a.metadata))
    table.commit(table.metadata)
    assert rows(table.snapshot(), col("b") == 1) == [(1,)]
    assert b.name == "b"


def test_a_void_column_is_null_and_never_in_a_file() -> None:
    table = TableBuilder(memory_engine(), "memory:///t", struct(a="long", v="void"))
    table.create(table.add(pa.table({"a": [1, 2]})))
    assert rows(table.snapshot()) == [(1, None), (2, None)]
    assert rows(table.snapshot(), col("v").is_null()) == [(1, None), (2, None)]
    assert rows(table.snapshot(), col("v") == 1) == []


def test_only_the_wanted_fields_of_structs_are_read() -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.int64())]))])
    stored = pa.schema([("s", inner), ("a", pa.int64())])
    wanted = pa.schema([("s", pa.struct([("y", pa.struct([("z", pa.int64())]))])), ("gone", pa.int64())])
    assert columns_to_read(list(stored), wanted) == ["s.y.z"]
    only_missing = pa.schema([("s", pa.struct([("gone", pa.int64())]))])
    assert columns_to_read(list(stored), only_missing) == ["s.x"]


def test_large_and_view_types_of_other_writers_are_plain_ones() -> None:
    stored = pa.table(
        {
            "s": pa.array(["x", None], pa.large_string()),
            "b": pa.array([b"x", None], pa.large_binary()),
            "l": pa.array([[1], None], pa.large_list(pa.int64())),
            "d": pa.array(["x", "x"]).dictionary_encode(),
        }
    )
    schema = arrow_schema(struct(s="string", b="binary", l=ArrayType(PrimitiveType("long")), d="string"))
    (batch,) = stored.to_batches()
    found = conform(batch, schema, path="x")
    assert found.schema.equals(schema)
    assert found.to_pylist() == stored.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_that_is_not_utf8_is_an_error(kind: pa.DataType) -> None:
    text = pa.array([b"fine", b"\xff\xfe", b"a longer text that is not UTF-8: \xc3("], pa.binary()).view(pa.string())
    wrong = text if kind == text.type else text.cast(kind)
    table = TableBuilder(memory_engine(), "memory:///t", struct(s="string"))
    table.create(table.add(pa.table({"s": wrong}), name="bad.parquet", stats=False))
    with pytest.raises(CorruptTableError, match="UTF8") as caught:
        rows(table.snapshot())
    assert caught.value.path.endswith("bad.parquet")


def test_slices_of_nested_columns_keep_their_rows() -> None:
    kind = pa.struct([("l", pa.list_(pa.int16())), ("m", pa.map_(pa.string(), pa.int16()))])
    values = [{"l": [i] * (i % 3), "m": [(str(i), i)]} if i % 4 else None for i in range(20)]
    batch = pa.record_batch({"s": pa.array(values, kind)}).slice(5, 9)
    wide = pa.schema([("s", pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))]))])
    assert conform(batch, wide, path="x").column("s").to_pylist() == values[5:14]
