"""Deletion vectors on their way into a mirror: their positions in parts, their bytes, and no damage unseen."""

from __future__ import annotations

import pickle
import resource
import struct
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
from lakeport.iceberg.delta.change import InternalDeletionVector
from lakeport.kernel.deletion_vectors import frame_payload, read_deletion_vector
from lakeport.kernel.engine import Engine
from lakeport.testing.counting import counting_engine
from tests.iceberg.vectors import (
    all_ordinals,
    described,
    encode,
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
def test_a_vector_has_its_positions_and_its_blob_is_what_is_stored(
    positions: npt.NDArray[np.uint64], with_runs: bool
) -> None:
    engine = memory_engine()
    bitmap = BitMap64(positions.tolist())
    if with_runs:
        bitmap.run_optimize()
    payload = MAGIC + bitmap.serialize()
    vector = vector_in_file(engine, PATH, payload, len(positions))
    np.testing.assert_array_equal(all_ordinals(vector, engine), np.array(list(bitmap), dtype=np.uint64))
    assert vector.blob(engine) == frame_payload(payload)


@given(position_sets)
def test_an_inline_vector_has_the_same_positions_and_gets_its_checksum(positions: npt.NDArray[np.uint64]) -> None:
    engine = memory_engine()
    payload = encode(positions.tolist())
    vector = inline_vector(payload, len(positions))
    np.testing.assert_array_equal(all_ordinals(vector, engine), positions)
    assert vector.blob(engine) == frame_payload(payload)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_vector_in_the_format_before_the_portable_one_is_read_and_encoded_anew(engine: Engine, order: str) -> None:
    bitmaps = [BitMap([1, 5, 70_000]), BitMap(), BitMap(range(10, 5000))]
    payload = struct.pack(f"{order}II", 1681511376, len(bitmaps))
    for bitmap in bitmaps:
        payload += struct.pack(f"{order}I", len(bitmap.serialize())) + bitmap.serialize()
    expected = [1, 5, 70_000, *range((2 << 32) + 10, (2 << 32) + 5000)]
    vector = vector_in_file(engine, PATH, payload, len(expected))
    assert all_ordinals(vector, engine).tolist() == expected
    assert vector.blob(engine) == frame_payload(encode(expected))


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


def test_only_the_compressed_bitmap_is_in_memory(tmp_path: Path) -> None:
    """134 million positions, which would be a gigabyte."""
    engine = default_engine()
    vector = vector_in_file(engine, f"{tmp_path}/v.bin", _every_second(4096), 4096 << 15)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(len(part) for part in vector.ordinals(engine)) == 4096 << 15
    assert vector.blob(engine) == frame_payload(_every_second(4096))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * vector.size // 1024


def _every_second(containers: int) -> bytes:
    """A payload of bits alone: 32,768 positions in each container, 0, 2, 4 …"""
    headers = b"".join(struct.pack("<HH", key, (1 << 15) - 1) for key in range(containers))
    head = struct.pack("<QIII", 1, 0, 12346, containers)
    offsets = b"".join(struct.pack("<I", 8 + 8 * containers + 8192 * index) for index in range(containers))
    return MAGIC + head + headers + offsets + b"\x55" * 8192 * containers


# Damage


def _fails(engine: Engine, vector: InternalDeletionVector, message: str) -> None:
    with pytest.raises(CorruptTableError, match=message):
        list(vector.ordinals(engine))
    with pytest.raises(CorruptTableError, match=message):
        vector.blob(engine)


def test_a_file_that_is_gone_is_a_missing_file(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    engine.storage.delete([PATH])
    with pytest.raises(MissingFileError):
        list(vector.ordinals(engine))


def test_a_descriptor_that_contradicts_the_file_is_damage(engine: Engine) -> None:
    vector = vector_in_file(engine, PATH, encode(SOME), len(SOME))
    _fails(engine, described(vector, cardinality=7), "deletes 8 rows, its descriptor says 7")
    _fails(engine, described(vector, cardinality=9), "deletes 8 rows, its descriptor says 9")
    _fails(engine, described(vector, size_in_bytes=vector.size - 1), f"has {vector.size} bytes, its descriptor says")
    _fails(engine, described(vector, offset=2), "at offset 2 it has")
    _fails(engine, described(vector, offset=-2), "offset -2")
    _fails(engine, described(vector, offset=1 << 70), "its descriptor says offset")
    _fails(engine, described(vector, size_in_bytes=1 << 40), "size 1099511627776")
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
    _fails(
        engine, vector_in_file(engine, PATH, b"\0\1\2\3" + encode(SOME)[4:], len(SOME)), "starts with the magic number"
    )


def test_bytes_that_mean_nothing_are_left_out_of_the_blob(engine: Engine) -> None:
    """DuckDB refuses blobs with bytes behind the bitmap, and with buckets of no positions."""
    payload = encode(SOME)
    vector = vector_in_file(engine, PATH, payload + b"1234", len(SOME))
    assert all_ordinals(vector, engine).tolist() == SOME
    assert vector.blob(engine) == frame_payload(payload)
    empty = struct.pack("<III", 7, 12346, 0)
    few = encode([1])
    vector = vector_in_file(engine, PATH, MAGIC + struct.pack("<Q", 2) + few[12:] + empty, 1)
    assert (all_ordinals(vector, engine).tolist(), vector.blob(engine)) == ([1], frame_payload(few))


def test_a_bitmap_that_goes_on_behind_its_bytes_is_damage(engine: Engine) -> None:
    _fails(engine, vector_in_file(engine, PATH, encode(SOME)[:-2], len(SOME)), "damaged")


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


def test_the_file_is_named_in_the_error(engine: Engine) -> None:
    with pytest.raises(CorruptTableError) as raised:
        vector_in_file(engine, PATH, encode(SOME), 3).blob(engine)
    assert raised.value.path == PATH
