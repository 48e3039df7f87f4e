"""Thrift's compact protocol, against real footers and random structs."""

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.engine.column_editing.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Struct,
    read_struct,
    write_struct,
)

VALUES: dict[int, st.SearchStrategy[Any]] = {
    BYTE: st.integers(0, 255),
    I16: st.integers(-(1 << 15), (1 << 15) - 1),
    I32: st.integers(-(1 << 31), (1 << 31) - 1),
    I64: st.integers(-(1 << 63), (1 << 63) - 1),
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=300),
}


def _fields(values: st.SearchStrategy[tuple[int, Any]]) -> st.SearchStrategy[Struct]:
    fields = st.dictionaries(st.integers(1, 1 << 14), values, max_size=4)
    return fields.map(lambda found: Struct(sorted(found.items())))


def _typed(kind: int) -> st.SearchStrategy[tuple[int, Any]]:
    return VALUES[kind].map(lambda value: (kind, value))


FLAT = _fields(st.sampled_from(sorted(VALUES)).flatmap(_typed) | st.sampled_from([(TRUE, TRUE), (FALSE, FALSE)]))
LISTS = st.sampled_from(sorted(VALUES)).flatmap(
    lambda kind: st.lists(VALUES[kind], max_size=20).map(lambda items: (kind, items))
)
DEEP = _fields(
    FLAT.map(lambda struct: (STRUCT, struct))
    | st.lists(FLAT, max_size=20).map(lambda structs: (LIST, (STRUCT, structs)))
    | LISTS.map(lambda items: (SET, items))
)


@given(FLAT | DEEP)
def test_what_is_written_is_read_again(struct: Struct) -> None:
    written = write_struct(struct)
    assert read_struct(b"before" + written + b"behind", 6) == (struct, 6 + len(written))


@given(FLAT | DEEP, st.data())
def test_part_of_a_struct_is_an_error(struct: Struct, data: st.DataObject) -> None:
    written = write_struct(struct)
    with pytest.raises(ValueError, match="incomplete"):
        read_struct(written[: data.draw(st.integers(0, len(written) - 1))])


@given(st.binary(max_size=200))
def test_other_bytes_are_a_struct_or_an_error(data: bytes) -> None:
    with suppress(ValueError):
        read_struct(data)


def test_a_deep_struct_is_an_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        read_struct(bytes([1 << 4 | STRUCT]) * 1000)


def test_a_footer_stays_as_it_is() -> None:
    table = pa.table({f"column {i}": pa.array([i, None, 3]) for i in range(40)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1)
    data = sink.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert write_struct(read_struct(footer)[0]) == footer


def test_a_field_is_put_at_its_place() -> None:
    struct = Struct({1: (I32, 1), 3: (I32, 3)})
    struct.put(2, I32, 2)
    struct.put(1, I32, 0)
    assert list(struct.items()) == [(1, (I32, 0)), (2, (I32, 2)), (3, (I32, 3))]
