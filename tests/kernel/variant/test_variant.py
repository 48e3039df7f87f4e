"""Variants: bytes to values and to JSON, values to bytes, and shredded columns put together again."""

import json
import math
import struct
import time as clock
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.errors import CorruptTableError
from lakeport.kernel.variant import decode_variant, encode_variant, format_variant_json, rebuild_variant
from lakeport.kernel.variant.shredding import VARIANT_TYPE, encode_metadata, encode_variant_value, field_ids
from tests.acceptance.real_tables import BY_NAME, path_of

EMPTY = b"\x01\x00\x00"
UUID = uuid.UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")


def decimals() -> st.SearchStrategy[Decimal]:
    numbers = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-1000, 1000)
    return st.builds(lambda number, scale: Decimal(f"{number}e-{scale}"), numbers, st.integers(0, 38))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-300, 300)
    | st.floats(allow_nan=False)
    | decimals()
    | st.text(max_size=100)
    | st.binary(max_size=10)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.uuids()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
)


# Decoding and encoding


@given(VALUES)
def test_a_value_survives_a_round_trip(value: Any) -> None:
    assert decode_variant(*encode_variant(value)) == value


@pytest.mark.parametrize("count", [0, 1, 255, 256, 70_000])
def test_objects_and_arrays_of_every_size_survive_a_round_trip(count: int) -> None:
    for value in (list(range(count)), {f"key{n}": "x" * (n % 70) for n in range(count)}):
        assert decode_variant(*encode_variant(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("00", None),
        ("04", True),
        ("08", False),
        ("0cff", -1),
        ("10ff7f", 32767),
        ("1400000080", -(2**31)),
        ("18ffffffffffffff7f", 2**63 - 1),
        ("1c000000000000f83f", 1.5),
        ("2002d2040000", Decimal("12.34")),
        ("24002e16000000000000", Decimal(5678)),
        ("2803" + "ff" * 16, Decimal("-0.001")),
        ("2cffffffff", date(1969, 12, 31)),
        ("3040420f0000000000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("3440420f0000000000", datetime(1970, 1, 1, 0, 0, 1)),
        ("380000c03f", 1.5),
        ("3c03000000010203", b"\x01\x02\x03"),
        ("4003000000616263", "abc"),
        ("0d616263", "abc"),
        ("4440420f0000000000", time(0, 0, 1)),
        ("48e803000000000000", datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("4cffffffffffffffff", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("50f24f9b6481fa49d1b74e8c09a6e31c56", UUID),
        ("0300" + "00", []),
        ("0302000203" + "0c01" + "00", [1, None]),
        ("0200" + "00", {}),
        ("1302000000" + "000102" + "0000", [None, None]),
    ],
)
def test_each_encoding_of_the_specification(value: str, expected: Any) -> None:
    decoded = decode_variant(EMPTY, bytes.fromhex(value))
    assert decoded == expected
    assert type(decoded) is type(expected)


def test_values_of_an_object_may_lie_in_any_order() -> None:
    metadata = encode_metadata(["b", "a"])
    value = bytes.fromhex("02" + "02" + "0100" + "020004" + "0c02" + "0c01")
    assert decode_variant(metadata, value) == {"a": 1, "b": 2}
    assert format_variant_json(metadata, value) == '{"a":1,"b":2}'


@pytest.mark.parametrize("keys", [["a" * 300, "b"], [f"k{n}" for n in range(300)], ["x" * 70_000, "y" * 17_000_000]])
def test_metadata_has_offsets_of_every_size(keys: list[str]) -> None:
    ids = field_ids(keys)
    assert decode_variant(encode_metadata(keys), encode_variant_value({keys[-1]: 1}, ids)) == {keys[-1]: 1}


def test_keys_are_sorted_by_their_bytes() -> None:
    value = {"\U0001f600": 1, "\uffff": 2, "b": 3, "B": 4}
    assert list(decode_variant(*encode_variant(value))) == ["B", "b", "\uffff", "\U0001f600"]


def test_a_timestamp_of_another_zone_is_the_same_moment() -> None:
    there = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert decode_variant(*encode_variant(there)) == there


@pytest.mark.parametrize("value", [10**38, Decimal("NaN"), Decimal("1e-39"), object(), {1, 2}, "\ud800"])
def test_what_no_variant_holds_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"variant|surrogates"):
        encode_variant(value)


def test_a_key_that_the_metadata_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the key 'b'"):
        encode_variant_value({"b": 1}, {"a": 0})


# JSON


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-7, "-7"),
        ('a"b\\c\n\x01é😀/', '"a\\"b\\\\c\\n\\u0001é😀/"'),
        ("\x1f\x7f", '"\\u001F\x7f"'),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.00015, "1.5E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Decimal("12.3400"), "12.34"),
        (Decimal("100"), "100"),
        (Decimal("0.00"), "0"),
        (Decimal("0.0000001"), "0.0000001"),
        (Decimal(10**37), "1" + "0" * 37),
        (date(999, 1, 2), '"0999-01-02"'),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02 03:04:05+00:00"'),
        (datetime(2026, 1, 2, 3, 4, 0, 120000), '"2026-01-02 03:04:00.12"'),
        (datetime(1969, 12, 31, 23, 59, 59, 999999), '"1969-12-31 23:59:59.999999"'),
        (time(3, 4), '"03:04:00"'),
        (UUID, '"f24f9b64-81fa-49d1-b74e-8c09a6e31c56"'),
        (b"\x01\xff", '"Af8="'),
        ({"b": [1, {}], "a": []}, '{"a":[],"b":[1,{}]}'),
    ],
)
def test_json_is_what_spark_writes(value: Any, text: str) -> None:
    assert format_variant_json(*encode_variant(value)) == text


def test_single_precision_floats_keep_their_short_text() -> None:
    assert format_variant_json(EMPTY, b"\x38" + struct.pack("<f", 0.1)) == "0.1"
    assert format_variant_json(EMPTY, b"\x38" + struct.pack("<f", 3.4028235e38)) == "3.4028235E38"


def test_nanoseconds_are_in_the_json() -> None:
    assert format_variant_json(EMPTY, b"\x4c" + struct.pack("<q", 1_000_000_001)) == '"1970-01-01 00:00:01.000000001"'


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON_VALUES)
def test_json_can_be_parsed_again(value: Any) -> None:
    text = format_variant_json(*encode_variant(value))
    assert json.loads(text) == value


# Damage


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        ("", "00"),
        ("02", "00"),
        ("01", "00"),
        ("0105", "00"),
        ("010100ff61", "00"),
        ("01010100", "00"),
        ("010100 01ff", "00"),
        ("c1ffffffff", "00"),
        ("010000", ""),
        ("010000", "0c"),
        ("010000", "fc"),
        ("010000", "15"),
        ("010000", "0dffffff"),
        ("010000", "40ffffffff61"),
        ("010000", "202700000000"),
        ("010000", "02010000020c01"),
        ("01010001 61", "0202000000 0204 0c01 0c02"),
        ("010000", "13ffffffff"),
        ("010000", "0301 00ff 00"),
        ("010000", "0301 0501 00"),
        ("010000", "44ffffffffffffffff"),
        ("010000", "2cffffff7f"),
        ("010000", "30ffffffffffffff7f"),
    ],
)
def test_damaged_bytes_are_refused(metadata: str, value: str) -> None:
    for read in (decode_variant, format_variant_json):
        with pytest.raises(CorruptTableError, match=r"damaged.*\[x\.parquet\]"):
            read(bytes.fromhex(metadata), bytes.fromhex(value), path="x.parquet")


def nested(depth: int, wrap: Callable[[bytes], bytes]) -> bytes:
    value = b"\0"
    for _ in range(depth):
        value = wrap(value)
    return value


def one_element(value: bytes) -> bytes:
    return b"\x0f\x01" + struct.pack("<II", 0, len(value)) + value


def test_values_may_nest_deep_but_not_without_end() -> None:
    assert format_variant_json(EMPTY, nested(400, one_element)) == "[" * 400 + "null" + "]" * 400
    with pytest.raises(CorruptTableError, match="nested"):
        decode_variant(EMPTY, nested(5000, one_element))


def test_values_that_share_bytes_do_not_multiply() -> None:
    def twice(value: bytes) -> bytes:
        return b"\x0f\x02" + struct.pack("<III", 0, 0, len(value)) + value

    long = b"\x40" + struct.pack("<I", 100_000) + b"x" * 100_000
    shared = b"\x1f" + struct.pack("<I", 50_000) + bytes(4 * 50_000) + struct.pack("<I", len(long)) + long
    started = clock.perf_counter()
    for value in (nested(60, twice), shared):
        with pytest.raises(CorruptTableError, match="overlap"):
            decode_variant(EMPTY, value)
    assert clock.perf_counter() - started < 5


@given(VALUES, st.data())
def test_damaged_variants_are_read_or_refused(value: Any, data: st.DataObject) -> None:
    parts = []
    for sound in encode_variant(value):
        damaged = bytearray(sound)
        for _ in range(data.draw(st.integers(0, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        parts.append(bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if data.draw(st.booleans()) else damaged))
    for read in (decode_variant, format_variant_json):
        with suppress(CorruptTableError):
            read(*parts)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(metadata: bytes, value: bytes) -> None:
    for keys in (metadata, encode_metadata(["a", "b"])):
        with suppress(CorruptTableError):
            decode_variant(keys, value)


# Shredding


def group(typed: pa.DataType | None) -> pa.DataType:
    fields = [pa.field("value", pa.binary())]
    return pa.struct(fields if typed is None else [*fields, pa.field("typed_value", typed)])


def shred(value: Any, typed: pa.DataType | None, ids: dict[str, int]) -> dict[str, Any]:
    """What a writer would put into a group of `value` and `typed_value`, by the specification's tables."""
    rest: dict[str, Any] = {"value": encode_variant_value(value, ids), "typed_value": None}
    if typed is None:
        return {"value": rest["value"]}
    if pa.types.is_struct(typed):
        if not isinstance(value, dict):
            return rest
        fields = {}
        for field in typed:
            inner = field.type.field("typed_value").type if field.type.get_field_index("typed_value") >= 0 else None
            missing = {"value": None, "typed_value": None}
            fields[field.name] = shred(value[field.name], inner, ids) if field.name in value else missing
        others = {key: item for key, item in value.items() if key not in fields}
        return {"value": encode_variant_value(others, ids) if others else None, "typed_value": fields}
    if pa.types.is_list(typed):
        element = typed.value_type
        inner = element.field("typed_value").type if element.get_field_index("typed_value") >= 0 else None
        return (
            {"value": None, "typed_value": [shred(item, inner, ids) for item in value]}
            if isinstance(value, list)
            else rest
        )
    fits = {pa.int64(): int, pa.string(): str, pa.float64(): float}[typed]
    return {"value": None, "typed_value": value} if type(value) is fits else rest


SHREDDINGS = st.recursive(
    st.sampled_from([None, pa.int64(), pa.string(), pa.float64()]),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "value", "é"]), inner, min_size=1).map(
            lambda fields: pa.struct([pa.field(name, group(typed), nullable=False) for name, typed in fields.items()])
        )
        | inner.map(lambda typed: pa.list_(pa.field("element", group(typed), nullable=False)))
    ),
    max_leaves=6,
)
SHREDDED_VALUES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "value", "é", "z"]), inner, max_size=4)
    ),
)


def shredded_column(values: list[Any], typed: pa.DataType | None) -> pa.StructArray:
    rows: list[dict[str, Any] | None] = []
    for value in values:
        if value is ...:
            rows.append(None)
            continue
        keys = sorted({"a", "b", "value", "é", "z"}, reverse=True)
        rows.append({"metadata": encode_metadata(keys), **shred(value, typed, dict(field_ids(keys)))})
    fields = [*group(typed), pa.field("metadata", pa.binary(), nullable=True)]
    return pa.array(rows, pa.struct(fields))


def decoded(column: pa.StructArray) -> list[Any]:
    assert column.type == VARIANT_TYPE
    column.validate(full=True)
    return [... if row is None else decode_variant(row["metadata"], row["value"]) for row in column.to_pylist()]


@given(st.lists(SHREDDED_VALUES | st.just(...), max_size=8), SHREDDINGS, st.integers(0, 3))
def test_shredded_variants_are_put_together_again(values: list[Any], typed: pa.DataType | None, skipped: int) -> None:
    column = shredded_column(values, typed)
    assert decoded(rebuild_variant(column)) == values
    assert decoded(rebuild_variant(column.slice(skipped))) == values[skipped:]


@pytest.mark.parametrize(
    ("typed", "raw", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -3, -3),
        (pa.int16(), 300, 300),
        (pa.int32(), 70_000, 70_000),
        (pa.int64(), 2**40, 2**40),
        (pa.float32(), 1.5, 1.5),
        (pa.float64(), 0.1, 0.1),
        (pa.decimal128(9, 2), Decimal("1.50"), Decimal("1.50")),
        (pa.decimal128(38, 10), Decimal("1234567890123456789.0000000001"), Decimal("1234567890123456789.0000000001")),
        (pa.decimal32(5, 1), Decimal("1.5"), Decimal("1.5")),
        (pa.date32(), date(2026, 1, 2), date(2026, 1, 2)),
        (pa.time64("us"), time(1, 2, 3, 4), time(1, 2, 3, 4)),
        (pa.timestamp("us", tz="UTC"), datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
        (pa.timestamp("us"), datetime(2026, 1, 2), datetime(2026, 1, 2)),
        (pa.timestamp("ns", tz="UTC"), 1_000_001_001, datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)),
        (pa.timestamp("ns"), 1_000_001_001, datetime(1970, 1, 1, 0, 0, 1, 1)),
        (pa.binary(), b"\x01", b"\x01"),
        (pa.large_binary(), b"\x01", b"\x01"),
        (pa.string(), "x", "x"),
        (pa.large_string(), "x" * 100, "x" * 100),
        (pa.binary(16), UUID.bytes, UUID),
        (pa.uuid(), UUID.bytes, UUID),
    ],
)
def test_every_primitive_type_can_be_shredded(typed: pa.DataType, raw: Any, expected: Any) -> None:
    values = pa.array([raw, None], typed.storage_type if isinstance(typed, pa.ExtensionType) else typed)
    if isinstance(typed, pa.ExtensionType):
        values = pa.ExtensionArray.from_storage(typed, values)
    metadata = pa.array([EMPTY, EMPTY])
    column = pa.StructArray.from_arrays([values, metadata], ["typed_value", "metadata"])
    rebuilt = decoded(rebuild_variant(column))
    assert rebuilt == [expected, None]
    assert type(rebuilt[0]) is type(expected)


def test_without_typed_value_nothing_is_copied_but_the_order_of_fields() -> None:
    value = pa.array([b"\x0c\x01", b"\x0c\x02", b"\x0c\x03"])
    metadata = pa.array([EMPTY] * 3)
    column = pa.StructArray.from_arrays([value, metadata], ["value", "metadata"], mask=pa.array([False, True, False]))
    rebuilt = rebuild_variant(column)
    assert decoded(rebuilt) == [1, ..., 3]
    assert rebuilt.field("value").buffers()[2].address == value.buffers()[2].address
    assert rebuilt.field("metadata").buffers()[2].address == metadata.buffers()[2].address
    assert decoded(rebuild_variant(column.slice(1))) == [..., 3]


def test_what_lies_under_a_null_variant_is_not_looked_at() -> None:
    columns = [pa.array([b"bad", EMPTY]), pa.array([b"", None]), pa.array([1, 2])]
    names = ["metadata", "value", "typed_value"]
    column = pa.StructArray.from_arrays(columns, names, mask=pa.array([True, False]))
    assert decoded(rebuild_variant(column)) == [..., 2]


@pytest.mark.parametrize("names", [["metadata"], ["metadata", "value"], ["typed_value", "value", "metadata"]])
def test_a_variant_that_is_missing_is_a_variant_null(names: list[str]) -> None:
    arrays = {"metadata": pa.array([EMPTY]), "value": pa.nulls(1, pa.binary()), "typed_value": pa.nulls(1, pa.int64())}
    column = pa.StructArray.from_arrays([arrays[name] for name in names], names)
    assert rebuild_variant(column).to_pylist() == [{"metadata": EMPTY, "value": b"\0"}]


def test_a_column_without_rows_or_only_of_nulls_has_the_right_type() -> None:
    struct_type = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    assert decoded(rebuild_variant(pa.array([], struct_type))) == []
    assert decoded(rebuild_variant(pa.array([None, None], struct_type))) == [..., ...]


A_OBJECT = pa.struct([pa.field("a", group(pa.int64()), nullable=False)])


@pytest.mark.parametrize(
    ("row", "typed", "said"),
    [
        ({"metadata": EMPTY, "value": b"\0", "typed_value": 1}, pa.int64(), "both"),
        ({"metadata": None, "typed_value": 1}, pa.int64(), "metadata"),
        ({"metadata": b"", "typed_value": 1}, pa.int64(), "metadata"),
        ({"metadata": EMPTY, "typed_value": {"a": {"typed_value": 1}}}, A_OBJECT, "lacks the key 'a'"),
        ({"metadata": EMPTY, "value": b"\0", "typed_value": {"a": {}}}, A_OBJECT, "is not"),
        ({"metadata": EMPTY, "value": b"\x02\x09", "typed_value": {"a": {}}}, A_OBJECT, "does not fit"),
        ({"metadata": EMPTY, "value": b"", "typed_value": {"a": {}}}, A_OBJECT, "would start"),
        ({"metadata": EMPTY, "typed_value": 1}, pa.uint8(), "uint8"),
        ({"metadata": EMPTY, "typed_value": {"a": 1}}, pa.struct([("a", pa.int64())]), "not a group"),
    ],
)
def test_shredding_that_contradicts_itself_is_refused(row: dict[str, Any], typed: pa.DataType, said: str) -> None:
    column = pa.array([row], pa.struct([("metadata", pa.binary()), *group(typed)]))
    with pytest.raises(CorruptTableError, match=said) as raised:
        rebuild_variant(column, path="x.parquet")
    assert raised.value.path == "x.parquet"


def test_a_column_without_metadata_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="no metadata"):
        rebuild_variant(pa.array([{"value": b"\0"}]))


@given(SHREDDED_VALUES, SHREDDINGS, st.data())
def test_damaged_shredded_variants_are_rebuilt_or_refused(value: Any, typed: pa.DataType, data: st.DataObject) -> None:
    def damage(item: Any) -> Any:
        if isinstance(item, bytes) and item and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(item) - 1))
            return item[:at] + bytes([data.draw(st.integers(0, 255))]) + item[at + 1 :]
        if isinstance(item, dict):
            return {key: damage(inner) for key, inner in item.items()}
        return [damage(inner) for inner in item] if isinstance(item, list) else item

    column = shredded_column([value], typed)
    with suppress(CorruptTableError):
        decoded(rebuild_variant(pa.array([damage(column[0].as_py())], column.type)))


# Real tables


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("delta44--variants", ("v",)),
        ("delta44--variants-shredded", ("v",)),
        pytest.param("spark--variant-stats-state-reconstruction", ("v",), marks=pytest.mark.shared),
        pytest.param("spark--variant-stats-with-struct-no-checkpoint", ("v",), marks=pytest.mark.shared),
        pytest.param("spark--variant-stats-nested-no-checkpoint", ("s", "v"), marks=pytest.mark.shared),
        pytest.param("krs--unshredded-variant", ("v",), marks=pytest.mark.shared),
        pytest.param("krs--unshredded-variant", ("struct_of_variants", "v"), marks=pytest.mark.shared),
    ],
)
def test_the_variants_of_spark_are_as_expected(name: str, path: tuple[str, ...]) -> None:
    def column(file: str | Path) -> pa.Array:
        array = pq.read_table(file, partitioning=None).column(path[0]).combine_chunks()
        for field in path[1:]:
            array = array.field(field)
        return array

    texts = []
    for file in Path(path_of(name)).glob("*.parquet"):
        for row in rebuild_variant(column(file)).to_pylist():
            texts.append(None if row is None else json.loads(format_variant_json(row["metadata"], row["value"])))
    expected = column(BY_NAME[name]["expected"]["parquet"]).to_pylist()
    assert sorted(map(repr, texts)) == sorted(repr(None if text is None else json.loads(text)) for text in expected)
