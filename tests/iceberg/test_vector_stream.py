"""Deletion vectors as streams: the same positions as other decoders find, in little memory, and no damage unseen."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from lakeport.engine import default_engine, memory_engine
from lakeport.errors import CorruptTableError, MissingFileError
from lakeport.iceberg.vector_stream import VectorSlice, read_ordinals
from lakeport.kernel.deletion_vectors import read_deletion_vector
from lakeport.kernel.engine import Engine
from tests.counting import counting_engine
from tests.iceberg.vectors import (
    all_ordinals,
    described,
    encode,
    frame,
    inline_vector,
    position_sets,
    to_positions,
    vector_in_file,
)

PATH = "mem://t/deletion_vector.bin"
SOME = [3, 4, 7, 11, 18, 29, 70_000, 5_000_000_000]
MAGIC = struct.pack("<I", 1681511377)


@pytest.fixture
def engine() -> Engine:
    return memory_engine()


@given(position_sets, st.booleans())
@example(to_positions(range(65_536)), True)
@example(to_positions(range(0, 65_536, 2)), True)
@example(to_positions(range(0, 4 * 65_536, 3)), False)
def test_a_stream_has_the_positions_that_pyroaring_finds(positions: npt.NDArray[np.uint64], with_runs: bool) -> None:
    engine = memory_engine()
    bitmap = BitMap64(positions.tolist())
    if with_runs:
        bitmap.run_optimize()
    payload = MAGIC + bitmap.serialize()
    vector = vector_in_file(engine, PATH, payload, len(positions))
    np.testing.assert_array_equal(all_ordinals(vector, engine), np.array(list(bitmap), dtype=np.uint64))
    assert b"".join(vector.blob(engine)) == frame(payload)


@pytest.mark.parametrize("count", [4095, 4096, 4097])
def test_a_container_is_an_array_up_to_4096_values_and_bits_beyond(engine: Engine, count: int) -> None:
    bitmap = BitMap64(range(0, 2 * count, 2))
    vector = vector_in_file(engine, PATH, MAGIC + bitmap.serialize(), count)
    assert all_ordinals(vector, engine).tolist() == list(bitmap)


@given(position_sets)
def test_an_inline_vector_has_the_same_positions_and_gets_its_checksum(positions: npt.NDArray[np.uint64]) -> None:
    engine = memory_engine()
    payload = encode(positions.tolist())
    vector = inline_vector(payload, len(positions))
    np.testing.assert_array_equal(all_ordinals(vector, engine), positions)
    assert b"".join(vector.blob(engine)) == frame(payload)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_vector_in_the_format_before_the_portable_one_is_read_and_encoded_anew(engine: Engine, order: str) -> None:
    bitmaps = [BitMap([1, 5, 70_000]), BitMap(), BitMap(range(10, 5000))]
    payload = struct.pack(f"{order}II", 1681511376, len(bitmaps))
    for bitmap in bitmaps:
        payload += struct.pack(f"{order}I", len(bitmap.serialize())) + bitmap.serialize()
    expected = [1, 5, 70_000, *range((2 << 32) + 10, (2 << 32) + 5000)]
    vector = vector_in_file(engine, PATH, payload, len(expected))
    assert all_ordinals(vector, engine).tolist() == expected
    assert b"".join(vector.blob(engine)) == frame(encode(expected))


@pytest.mark.parametrize("gap", [0, 3, 70_000])
def test_a_vector_is_found_wherever_it_lies_in_its_file(gap: int) -> None:
    engine, storage = counting_engine()
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME), gap=gap)
    assert (vector.offset, vector.size, vector.count_records_deleted) == (1 + gap, len(encode(SOME)), len(SOME))
    assert all_ordinals(vector, engine).tolist() == SOME
    assert len(storage.opened) == (1 if gap < 65_536 else 2)


def test_a_vector_without_an_offset_follows_the_version_of_its_file(engine: Engine) -> None:
    vector = described(vector_in_file(engine, PATH, encode(SOME), len(SOME)), offset=None)
    assert all_ordinals(vector, engine).tolist() == SOME
    assert vector.offset == 1


def test_a_vector_can_be_pickled(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    assert pickle.loads(pickle.dumps(vector)) == vector


def test_a_vector_larger_than_a_request_is_read_in_parts() -> None:
    engine, storage = counting_engine()
    payload = _every_second(520)
    vector = vector_in_file(engine, PATH, payload, 520 << 15)
    assert np.array_equal(all_ordinals(vector, engine), np.arange(0, 520 << 16, 2))
    assert len(storage.opened) == 1 + len(payload) // (512 << 10)
    assert zlib.crc32(b"".join(vector.blob(engine))) == zlib.crc32(frame(payload))


def test_memory_does_not_grow_with_the_number_of_positions(tmp_path: Path) -> None:
    engine = default_engine()
    vector = vector_in_file(engine, f"{tmp_path}/v.bin", _every_second(4096), 4096 << 15)
    assert vector.size > 32 << 20
    tracemalloc.start()
    count = sum(len(part) for part in vector.ordinals(engine))
    copied = sum(len(part) for part in vector.blob(engine))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, copied) == (4096 << 15, vector.size + 8)
    assert peak < 20 << 20


def _every_second(containers: int) -> bytes:
    """A payload of bits alone: 32,768 positions in each container, 0, 2, 4 …"""
    headers = b"".join(struct.pack("<HH", key, (1 << 15) - 1) for key in range(containers))
    head = struct.pack("<QIII", 1, 0, 12346, containers)
    return MAGIC + head + headers + bytes(4 * containers) + b"\x55" * 8192 * containers


# Damage


def _fails(engine: Engine, vector: object, message: str) -> None:
    for read in (vector.ordinals, vector.blob):  # type: ignore[attr-defined]
        with pytest.raises(CorruptTableError, match=message):
            list(read(engine))


def test_a_file_that_is_gone_is_a_missing_file(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    engine.storage.delete([PATH])
    with pytest.raises(MissingFileError):
        list(vector.ordinals(engine))


def test_a_descriptor_that_contradicts_the_file_is_damage(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    _fails(engine, described(vector, cardinality=7), "deletes 8 or more rows, its descriptor says 7")
    _fails(engine, described(vector, cardinality=9), "deletes 8 rows, its descriptor says 9")
    _fails(engine, described(vector, size_in_bytes=vector.size - 1), f"has {vector.size} bytes, its descriptor says")
    _fails(engine, described(vector, offset=2), "at offset 2 it has")
    _fails(engine, described(vector, offset=-2), "offset -2")
    _fails(engine, inline_vector(encode(SOME), 9), "the inline deletion vector is damaged: it deletes 8 rows")
    _fails(engine, described(inline_vector(encode(SOME), 8), size_in_bytes=400), "its descriptor says 400")
    _fails(engine, described(inline_vector(encode(SOME), 8), path_or_inline_dv="abc"), "Z85")


def test_the_checksum_of_the_file_is_compared(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    data = engine.storage.read(PATH)
    engine.storage.write(PATH, data[:-1] + bytes([data[-1] ^ 1]), overwrite=True)
    _fails(engine, vector, "CRC-32")


@pytest.mark.parametrize("length", [0, 1, 3, 5, 20, -5, -1])
def test_a_file_that_ends_early_is_damage(engine: Engine, length: int) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    engine.storage.write(PATH, engine.storage.read(PATH)[:length], overwrite=True)
    _fails(engine, vector, "damaged")


def test_a_version_or_a_magic_number_that_is_not_known_is_damage(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    engine.storage.write(PATH, b"\x02" + engine.storage.read(PATH)[1:], overwrite=True)
    _fails(engine, vector, "starts with the version 02")
    _fails(engine, vector_in_file(engine, PATH, b"\0\1\2\3" + encode(SOME)[4:], len(SOME)), "starts with the bytes")


def _array(*values: int, key: int = 0, cardinality: int | None = None) -> bytes:
    """A 32-bit bitmap with one array."""
    count = len(values) if cardinality is None else cardinality
    return struct.pack("<IIHHI", 12346, 1, key, count - 1, 16) + struct.pack(f"<{len(values)}H", *values)


def _runs(*pairs: int, cardinality: int) -> bytes:
    """A 32-bit bitmap with one container of runs."""
    return struct.pack("<IBHHH", 12347, 1, 0, cardinality - 1, len(pairs) // 2) + struct.pack(f"<{len(pairs)}H", *pairs)


def _bits(*values: int, cardinality: int) -> bytes:
    bits = np.zeros(65_536, dtype=np.uint8)
    bits[list(values)] = 1
    return struct.pack("<IIHHI", 12346, 1, 0, cardinality - 1, 16) + np.packbits(bits, bitorder="little").tobytes()


def _bucket(key: int, bitmap: bytes) -> bytes:
    return struct.pack("<I", key) + bitmap


@pytest.mark.parametrize(
    ("buckets", "cardinality", "message"),
    [
        pytest.param([_bucket(0, _array(3, 2))], 2, "not in order", id="array"),
        pytest.param([_bucket(0, _array(3, 3))], 2, "not in order", id="repeated"),
        pytest.param([_bucket(0, _runs(5, 3, 7, 1, cardinality=6))], 6, "overlap", id="runs"),
        pytest.param([_bucket(0, _runs(65_535, 1, cardinality=2))], 2, "leave", id="run beyond the end"),
        pytest.param([_bucket(0, _runs(5, 3, cardinality=6))], 6, "its header says 6", id="short run"),
        pytest.param([_bucket(0, _bits(1, 2, 3, cardinality=5000))], 5000, "has 3 values", id="bits"),
        pytest.param([_bucket(1, _array(1)), _bucket(1, _array(2))], 2, "1 follow", id="buckets"),
        pytest.param([_bucket(1 << 31, _array(1))], 1, "high bits", id="highest bit"),
        pytest.param([_bucket(0, b"\x01\0\0\0")], 1, "a bitmap starts with 1", id="cookie"),
        pytest.param([_bucket(0, struct.pack("<II", 12346, 70_000))], 1, "70000 containers", id="containers"),
    ],
)
def test_a_bitmap_that_is_none_is_damage(engine: Engine, buckets: list[bytes], cardinality: int, message: str) -> None:
    payload = MAGIC + struct.pack("<Q", len(buckets)) + b"".join(buckets)
    vector = vector_in_file(engine, PATH, payload, cardinality)
    with pytest.raises(CorruptTableError, match=message):
        list(vector.ordinals(engine))


def test_bytes_before_or_behind_the_end_of_the_bitmap_are_damage(engine: Engine) -> None:
    payload = encode(SOME)
    _fails(engine, vector_in_file(engine, PATH, payload + b"1234", len(SOME)), "ends after")
    _fails(engine, vector_in_file(engine, PATH, payload[:-2], len(SOME)), "goes on behind")


@given(st.data())
def test_a_changed_byte_is_damage_wherever_it_is(data: st.DataObject) -> None:
    engine = memory_engine()
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    raw = bytearray(engine.storage.read(PATH))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    engine.storage.write(PATH, bytes(raw), overwrite=True)
    _fails(engine, vector, "damaged")


@given(st.binary(max_size=60), st.integers(0, 100))
def test_any_bytes_are_a_vector_or_damage(garbage: bytes, cardinality: int) -> None:
    engine = memory_engine()
    vector = vector_in_file(engine, PATH, MAGIC + garbage, cardinality)
    with suppress(CorruptTableError):
        found = all_ordinals(vector, engine)
        assert len(found) == cardinality
        expected = read_deletion_vector(vector.descriptor, "mem://t", engine.storage).positions
        np.testing.assert_array_equal(found, expected)


def test_a_slice_names_its_file_in_the_error(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), 3)
    with pytest.raises(CorruptTableError) as raised:
        list(read_ordinals(engine.storage, VectorSlice(vector.descriptor, PATH)))
    assert raised.value.path == PATH
