"""Deletion vectors: descriptors, files, inline ones, and what damage to them does."""

import json
import pickle
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from lakeport.errors import CorruptTableError, MissingFileError
from lakeport.kernel.deletion_vectors import (
    DeletionVector,
    DeletionVectorDescriptor,
    decode_z85,
    encode_deletion_vector,
    encode_inline,
    encode_z85,
    read_deletion_vector,
    union,
)
from tests.acceptance.real_tables import BY_NAME, Entry, chosen, is_shareable, path_of

UUID_TEXT = "^-aqEH.-t@S}K{vb[*k^"
UUID_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
SOME = np.array([3, 4, 7, 11, 18, 29, 70_000, 5_000_000_000], dtype=np.uint64)


class Files:
    """Storage that only reads: from a dict, or else from the disk. It keeps what it was asked."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files, self.requests = files, []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.requests.append((path, start, length))
        try:
            data = Path(path).read_bytes() if self.files is None else self.files[path]
        except (OSError, KeyError) as error:
            raise MissingFileError("the file is gone", path=path) from error
        return data[start:] if length is None else data[start : start + length]


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def inline(payload: bytes, cardinality: int) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("i", encode_inline(payload), len(payload), cardinality)


def in_file(payload: bytes, cardinality: int, offset: int | None = 1) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("u", UUID_TEXT, len(payload), cardinality, offset)


def read(descriptor: DeletionVectorDescriptor, file: bytes = b"") -> DeletionVector:
    return read_deletion_vector(descriptor, "/t", Files({f"/t/{UUID_FILE}": file}))


def positions_of(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.uint64)


# Descriptors


def test_a_descriptor_has_the_keys_of_the_protocol_and_no_offset_where_there_is_none() -> None:
    text = b'{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":40,"cardinality":6,"offset":4}'
    descriptor = msgspec.json.decode(text, type=DeletionVectorDescriptor)
    assert msgspec.json.encode(descriptor) == text
    assert msgspec.json.encode(inline(b"", 0)) == (
        b'{"storageType":"i","pathOrInlineDv":"","sizeInBytes":0,"cardinality":0}'
    )
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor


def test_the_unique_id_ends_with_the_offset_if_there_is_one() -> None:
    assert in_file(b"", 0, offset=4).unique_id == f"u{UUID_TEXT}@4"
    assert in_file(b"", 0, offset=None).unique_id == f"u{UUID_TEXT}"
    assert in_file(b"", 0, offset=0).unique_id == f"u{UUID_TEXT}@0"


@pytest.mark.parametrize(
    ("storage_type", "text", "location"),
    [
        ("u", UUID_TEXT, f"s3://mytable/{UUID_FILE}"),
        ("u", f"ab{UUID_TEXT}", f"s3://mytable/ab/{UUID_FILE}"),
        ("p", f"s3://other/a%20b/{UUID_FILE}", f"s3://other/a b/{UUID_FILE}"),
        ("p", f"/x/{UUID_FILE}", f"s3://mytable/x/{UUID_FILE}"),
        ("i", "anything", None),
    ],
)
def test_the_location_follows_from_the_storage_type(storage_type: str, text: str, location: str | None) -> None:
    assert DeletionVectorDescriptor(storage_type, text, 40, 6).location("s3://mytable/") == location


def test_an_absolute_location_on_a_disk_is_one_of_tables_on_disks() -> None:
    descriptor = DeletionVectorDescriptor("p", f"file:/x/{UUID_FILE}", 40, 6)
    assert descriptor.location("/t") == f"/x/{UUID_FILE}"
    with pytest.raises(CorruptTableError, match="outside the table"):
        descriptor.location("s3://mytable")


@pytest.mark.parametrize("text", [f"../{UUID_TEXT}", f"a/../../b{UUID_TEXT}"])
def test_a_prefix_does_not_lead_out_of_the_table(text: str) -> None:
    with pytest.raises(CorruptTableError, match="outside the table"):
        DeletionVectorDescriptor("u", text, 40, 6).location("/t/")


@pytest.mark.parametrize(("storage_type", "text"), [("x", UUID_TEXT), ("u", "short"), ("u", "é" * 20), ("u", "#" * 20)])
def test_a_location_that_does_not_exist_is_damage(storage_type: str, text: str) -> None:
    with pytest.raises(CorruptTableError):
        DeletionVectorDescriptor(storage_type, text, 40, 6).location("/t")


# Z85


def test_the_example_of_the_z85_specification() -> None:
    data = bytes.fromhex("864FD26FB559F75B")
    assert encode_z85(data) == "HelloWorld"
    assert decode_z85("HelloWorld") == data


@given(st.binary())
def test_z85_gives_the_bytes_back_with_zeros_to_a_multiple_of_four(data: bytes) -> None:
    assert decode_z85(encode_z85(data)) == data + bytes(-len(data) % 4)


@given(st.binary(max_size=20))
def test_the_padding_of_the_rust_crate_is_understood(data: bytes) -> None:
    lacking, whole = -len(data) % 4, len(data) // 4 * 4
    tail = "#" * lacking + encode_z85(bytes(lacking) + data[whole:])[lacking:]
    assert decode_z85(encode_z85(data[:whole]) + tail) == data


@pytest.mark.parametrize("text", ["a", "abcdef", "ab\\de", "ab de", "%nSc1", "#####", "####0", "###%%", "äbcde"])
def test_text_that_is_not_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Z85|ascii"):
        decode_z85(text)


@given(st.text())
def test_any_text_is_z85_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        decode_z85(text)


# Reading


def test_the_inline_example_of_the_protocol() -> None:
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    vector = read(DeletionVectorDescriptor("i", text, 40, 6))
    assert vector.positions.tolist() == [3, 4, 7, 11, 18, 29]


@given(st.sets(st.integers(0, 2**63 - 1) | st.integers(0, 200_000)))
def test_positions_survive_a_round_trip_inline_and_in_a_file(positions: set[int]) -> None:
    payload = encode_deletion_vector(np.array(list(positions), dtype=np.uint64))
    for descriptor in (inline(payload, len(positions)), in_file(payload, len(positions))):
        vector = read(descriptor, b"\x01" + frame(payload))
        assert vector.positions.dtype == np.uint64
        assert vector.positions.tolist() == sorted(positions)
        assert vector.cardinality == len(positions)


def test_every_kind_of_container_survives_a_round_trip() -> None:
    runs, bits, sparse = range(100_000), range(200_000, 260_000, 2), range(1 << 20, 1 << 21, 999)
    positions = np.array([*runs, *bits, *sparse, 2**40], dtype=np.uint64)
    payload = encode_deletion_vector(positions)
    assert np.array_equal(read(inline(payload, len(positions))).positions, positions)


def test_buckets_without_values_are_allowed_as_spark_writes_them() -> None:
    empty, some = BitMap().serialize(), BitMap([5, 7]).serialize()
    buckets = b"".join(struct.pack("<I", key) + data for key, data in enumerate([empty, empty, some]))
    payload = struct.pack("<IQ", 1681511377, 3) + buckets
    assert read(inline(payload, 2)).positions.tolist() == [2 * 2**32 + 5, 2 * 2**32 + 7]


def test_the_older_native_format_is_read() -> None:
    parts = [BitMap([1, 2]).serialize(), BitMap().serialize(), BitMap([3]).serialize()]
    payload = struct.pack("<II", 1681511376, 3) + b"".join(struct.pack("<I", len(p)) + p for p in parts)
    assert read(inline(payload, 3)).positions.tolist() == [1, 2, 2 * 2**32 + 3]


def test_one_file_holds_many_vectors_and_only_one_is_read() -> None:
    payloads = [encode_deletion_vector(np.arange(n, n * 3, dtype=np.uint64) * np.uint64(7)) for n in range(1, 9)]
    file, offsets = b"\x01" + bytes(100_000), []
    for payload in payloads:
        offsets.append(len(file))
        file += frame(payload)
    storage = Files({f"/t/{UUID_FILE}": file})
    for number, (payload, offset) in enumerate(zip(payloads, offsets, strict=True), 1):
        vector = read_deletion_vector(in_file(payload, 2 * number, offset), "/t", storage)
        assert vector.positions.tolist() == [7 * p for p in range(number, number * 3)]
    assert all(length < 200 for _, _, length in storage.requests)


def test_a_vector_near_the_start_of_its_file_takes_one_request() -> None:
    payload = encode_deletion_vector(SOME)
    storage = Files({f"/t/{UUID_FILE}": b"\x01" + frame(payload)})
    read_deletion_vector(in_file(payload, len(SOME)), "/t", storage)
    assert len(storage.requests) == 1


def test_a_vector_without_an_offset_follows_the_version_of_the_file() -> None:
    payload = encode_deletion_vector(SOME)
    vector = read(in_file(payload, len(SOME), offset=None), b"\x01" + frame(payload))
    assert np.array_equal(vector.positions, SOME)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(MissingFileError, match=UUID_FILE):
        read_deletion_vector(in_file(b"", 0), "/t", Files({}))


# Damage


PAYLOAD = encode_deletion_vector(SOME)
FILE = b"\x01" + frame(PAYLOAD)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (b"", "version nothing"),
        (b"\x02" + FILE[1:], "version 02"),
        (b"\x01" + struct.pack(">I", 7) + FILE[5:], "7 bytes"),
        (FILE[:-1], "ends after"),
        (FILE[:3], "ends after"),
        (FILE[:-1] + bytes([FILE[-1] ^ 1]), "CRC-32"),
        (FILE[:10] + bytes([FILE[10] ^ 1]) + FILE[11:], "CRC-32"),
        (b"\x01" + frame(b"\0" + PAYLOAD[1:]), "magic number"),
        (b"\x01" + frame(PAYLOAD[:4] + b"\xff" * (len(PAYLOAD) - 4)), "damaged"),
    ],
)
def test_damage_to_a_file_is_said_and_the_file_named(file: bytes, said: str) -> None:
    with pytest.raises(CorruptTableError, match=said) as raised:
        read(in_file(PAYLOAD, len(SOME)), file)
    assert raised.value.path == f"/t/{UUID_FILE}"


@pytest.mark.parametrize("cardinality", [0, len(SOME) - 1, len(SOME) + 1])
def test_another_cardinality_than_the_descriptor_says_is_damage(cardinality: int) -> None:
    for descriptor in (inline(PAYLOAD, cardinality), in_file(PAYLOAD, cardinality)):
        with pytest.raises(CorruptTableError, match=f"deletes {len(SOME)} rows, its descriptor says {cardinality}"):
            read(descriptor, FILE)


@pytest.mark.parametrize(
    "descriptor",
    [
        DeletionVectorDescriptor("i", encode_inline(PAYLOAD), len(PAYLOAD) + 4, len(SOME)),
        DeletionVectorDescriptor("i", encode_inline(PAYLOAD), -1, len(SOME)),
        DeletionVectorDescriptor("i", encode_inline(PAYLOAD), 3, len(SOME)),
        DeletionVectorDescriptor("i", encode_inline(PAYLOAD)[1:], len(PAYLOAD), len(SOME)),
        DeletionVectorDescriptor("i", "", 0, 0),
        DeletionVectorDescriptor("u", UUID_TEXT, -5, len(SOME), 1),
        DeletionVectorDescriptor("u", UUID_TEXT, len(PAYLOAD), len(SOME), -9),
        DeletionVectorDescriptor("u", UUID_TEXT, len(PAYLOAD), len(SOME), 10**12),
        DeletionVectorDescriptor("u", UUID_TEXT, 2**31 - 1, len(SOME), 1),
    ],
)
def test_a_descriptor_that_does_not_fit_is_damage(descriptor: DeletionVectorDescriptor) -> None:
    with pytest.raises(CorruptTableError):
        read(descriptor, FILE)


def test_damage_to_an_inline_vector_says_that_it_is_inline() -> None:
    with pytest.raises(CorruptTableError, match="inline deletion vector"):
        read(inline(PAYLOAD, 1))


def test_runs_that_stand_for_billions_of_rows_are_not_laid_out_to_be_refused() -> None:
    bitmap = BitMap64(range(1 << 33))
    bitmap.run_optimize()
    with pytest.raises(CorruptTableError, match="deletes 8589934592 rows"):
        read(inline(struct.pack("<I", 1681511377) + bitmap.serialize(), 5))


def test_a_position_with_the_highest_bit_is_refused() -> None:
    payload = struct.pack("<I", 1681511377) + BitMap64([2**63]).serialize()
    with pytest.raises(CorruptTableError, match=r"2\*\*63"):
        read(inline(payload, 1))
    with pytest.raises(ValueError, match=r"2\*\*63"):
        encode_deletion_vector(positions_of(2**63))


@st.composite
def damaged(draw: st.DrawFn, sound: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with some of them changed, and perhaps an end cut off."""
    data = bytearray(draw(sound))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


MIXED = np.array([*range(0, 9000, 2), *range(70_000, 90_000), 200_000, 2**33], dtype=np.uint64)
NATIVE = struct.pack("<III", 1681511376, 1, len(BitMap([1, 9]).serialize())) + BitMap([1, 9]).serialize()


@given(damaged(st.sampled_from([PAYLOAD, encode_deletion_vector(MIXED), NATIVE])), st.integers(0, 10))
def test_damaged_payloads_are_read_or_refused(payload: bytes, cardinality: int) -> None:
    for expected in (cardinality, len(MIXED)):
        try:
            vector = read(inline(payload, expected))
        except CorruptTableError:
            continue
        assert vector.cardinality == expected
        assert (np.diff(vector.positions.astype(np.int64)) > 0).all()


@given(damaged(st.just(FILE)))
def test_damage_to_a_file_never_changes_what_it_deletes(file: bytes) -> None:
    try:
        vector = read(in_file(PAYLOAD, len(SOME)), file)
    except CorruptTableError:
        return
    assert np.array_equal(vector.positions, SOME)


# Masks


@given(st.sets(st.integers(0, 300)), st.integers(0, 310), st.integers(0, 310))
def test_a_mask_says_for_each_row_of_a_range_whether_it_is_deleted(deleted: set[int], start: int, length: int) -> None:
    vector = DeletionVector(np.array(sorted(deleted), dtype=np.uint64))
    mask = vector.deleted_mask(start, length)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [row in deleted for row in range(start, start + length)]


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 310)))
def test_a_selection_says_for_each_row_whether_it_lives(deleted: set[int], rows: set[int]) -> None:
    vector = DeletionVector(np.array(sorted(deleted), dtype=np.uint64))
    selection = vector.selection(np.array(sorted(rows), dtype=np.int64))
    assert selection.tolist() == [row not in deleted for row in sorted(rows)]


def test_rows_beyond_the_precision_of_floats_are_told_apart() -> None:
    vector = DeletionVector(positions_of(2**62 + 1))
    assert vector.selection(np.array([5, 2**62, 2**62 + 1, 2**62 + 2])).tolist() == [True, True, False, True]
    assert vector.deleted_mask(2**62, 3).tolist() == [False, True, False]


def test_a_vector_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        read(inline(PAYLOAD, len(SOME))).positions[0] = 1


# Real tables


def actions(table: Path) -> Iterator[list[dict[str, Any]]]:
    """The actions of each commit."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        yield [json.loads(line) for line in commit.read_text().splitlines() if line]


def live_files(table: Path) -> dict[tuple[str, str], dict[str, Any]]:
    live: dict[tuple[str, str], dict[str, Any]] = {}
    for commit in actions(table):
        for kind in ("remove", "add"):
            for file in (action[kind] for action in commit if kind in action):
                vector = file.get("deletionVector")
                key = (file["path"], msgspec.convert(vector, DeletionVectorDescriptor).unique_id if vector else "")
                live.pop(key, None)
                if kind == "add":
                    live[key] = file
    return live


def keeps_its_commits(entry: Entry) -> bool:
    """Whether its vectors can be found by reading commits alone."""
    commits = entry.get("versions", {})
    return is_shareable(entry) and "dv" in entry["tags"] and commits.get("n_commits") == commits.get("last", -2) + 1


@chosen(keeps_its_commits)
def test_the_vectors_of_other_writers_leave_as_many_rows_as_expected(name: str) -> None:
    table, rows = Path(path_of(name)), 0
    for file in live_files(table).values():
        count = pq.read_metadata(table / unquote(file["path"])).num_rows
        rows += count
        if file.get("deletionVector"):
            descriptor = msgspec.convert(file["deletionVector"], DeletionVectorDescriptor)
            vector = read_deletion_vector(descriptor, str(table), Files())
            rows -= int(vector.deleted_mask(0, count).sum())
            assert vector.cardinality == vector.deleted_mask(0, count).sum()
    assert rows == BY_NAME[name]["expected"]["rows"]


@pytest.mark.shared
def test_the_inline_vectors_of_the_rust_kernel_are_read(shared_tables: Path) -> None:
    table = shared_tables / "tables" / "krs" / "cdf-table-with-dv"
    found = {}
    for commit in actions(table):
        for file in (action["add"] for action in commit if "add" in action):
            if (file.get("deletionVector") or {}).get("storageType") == "i":
                descriptor = msgspec.convert(file["deletionVector"], DeletionVectorDescriptor)
                found[descriptor.size_in_bytes] = read_deletion_vector(descriptor, "", Files()).positions.tolist()
    assert found == {40: [0, 1, 4, 5], 36: [0, 5], 34: [3]}


@given(*[st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 9), max_size=20)] * 2)
def test_a_union_has_each_position_once(left: list[int], right: list[int]) -> None:
    ascending = [np.array(sorted(set(positions)), dtype=np.uint64) for positions in (left, right)]
    assert union(*ascending).tolist() == sorted({*left, *right})


def test_a_union_with_a_large_vector_takes_linear_time() -> None:
    large, one = np.arange(0, 20_000_000, 2, dtype=np.uint64), np.array([3], dtype=np.uint64)
    started = time.perf_counter()
    merged = union(large, one)
    seconds = time.perf_counter() - started
    assert (len(merged), merged[2]) == (10_000_001, 3)
    assert seconds < 5, "a tenth of a second is usual; hashing takes 25"
