"""Avro: what is encoded comes back as it was, here and in another reader."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakeport.iceberg.avro import (
    decode_header,
    decode_long,
    decode_records,
    decoder,
    encode_bytes,
    encode_file,
    encode_long,
    encoder,
)

PAIR = {
    "type": "record",
    "name": "pair",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "number", "type": "long", "field-id": 1},
        {"name": "text", "type": ["null", "string"], "default": None, "field-id": 2},
        {"name": "ratio", "type": "double", "field-id": 3},
        {"name": "flag", "type": "boolean", "field-id": 4},
        {"name": "digits", "type": {"type": "fixed", "name": "four", "size": 4}, "field-id": 5},
        {"name": "pairs", "type": ["null", {"type": "array", "items": PAIR}], "default": None, "field-id": 6},
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries(
    {
        "number": LONGS,
        "text": st.none() | st.text(),
        "ratio": st.floats(allow_nan=False),
        "flag": st.booleans(),
        "digits": st.binary(min_size=4, max_size=4),
        "pairs": st.none() | st.lists(st.fixed_dictionaries({"key": st.integers(0, 2**31 - 1), "value": st.binary()})),
    }
)


@given(LONGS)
def test_a_number_comes_back(number: int) -> None:
    encoded = encode_long(number)
    assert decode_long(memoryview(encoded), 0) == (number, len(encoded))


@pytest.mark.parametrize(
    ("number", "data"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (8192, "808001")]
)
def test_numbers_are_encoded_as_the_specification_says(number: int, data: str) -> None:
    assert encode_long(number).hex() == data


@given(st.lists(ROWS, max_size=5))
def test_records_come_back(rows: list[dict[str, Any]]) -> None:
    encode = encoder(SCHEMA)
    data = encode_file(SCHEMA, {"note": "é"}, map(encode, rows))
    assert list(decode_records(data)) == rows
    header = decode_header(data)
    assert header is not None
    assert (header.metadata["note"], header.schema) == ("é", SCHEMA)


def test_another_reader_reads_the_file(tmp_path: Any) -> None:
    fields = SCHEMA["fields"][:4]
    schema = SCHEMA | {"fields": fields}
    rows = [{"number": n, "text": None if n % 2 else str(n), "ratio": n / 4, "flag": n > 5} for n in range(50_000)]
    path = tmp_path / "rows.avro"
    path.write_bytes(encode_file(schema, {}, map(encoder(schema), rows)))
    with AvroFile(PyArrowFileIO().new_input(str(path))) as reader:
        found = [(r[0], r[1], r[2], r[3]) for r in reader]
    assert found == [tuple(row.values()) for row in rows]


def test_lists_in_blocks_with_sizes_are_read() -> None:
    one, two = encode_long(1), encode_long(2)
    data = encode_long(-2) + encode_long(2) + one + two + encode_long(1) + one + encode_long(0)
    assert decoder({"type": "array", "items": "int"})(memoryview(data), 0) == ([1, 2, 1], len(data))


def test_types_are_found_by_their_names() -> None:
    fixed = {"type": "fixed", "name": "two", "size": 2}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": fixed}, {"name": "b", "type": "two"}]}
    assert decoder(schema)(memoryview(b"abcd"), 0) == ({"a": b"ab", "b": b"cd"}, 4)


def test_a_header_that_is_not_whole_is_not_a_header_yet() -> None:
    data = encode_file(SCHEMA, {"long": "x" * 1000}, [])
    assert decode_header(data[:500]) is None
    assert decode_header(data) is not None
    with pytest.raises(ValueError, match="its header is cut off"):
        list(decode_records(data[:500]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda data: b"PAR1" + data[4:], "does not start like", id="magic"),
        pytest.param(lambda data: data[:-1] + b"?", "does not end where", id="sync"),
        pytest.param(lambda data: data[:-20], "past the end|does not end", id="cut"),
    ],
)
def test_a_damaged_file_is_refused(damage: Any, message: str) -> None:
    encode = encoder({"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]})
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
    data = encode_file(schema, {}, [encode({"a": "text" * 50})])
    with pytest.raises(ValueError, match=message):
        list(decode_records(damage(data)))


def test_an_unknown_compression_is_named() -> None:
    schema = b'{"type":"record","name":"r","fields":[]}'
    pairs = [("avro.schema", schema), ("avro.codec", b"zstandard")]
    head = (
        b"Obj\x01" + encode_long(2) + b"".join(encode_bytes(k.encode()) + encode_bytes(v) for k, v in pairs) + b"\x00"
    )
    data = io.BytesIO(head + b"s" * 16 + encode_long(1) + encode_bytes(b"x") + b"s" * 16).getvalue()
    with pytest.raises(ValueError, match="zstandard"):
        list(decode_records(data))
