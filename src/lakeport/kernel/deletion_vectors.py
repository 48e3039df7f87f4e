"""Deletion vectors, the deleted rows of a file: their descriptors, files and encoding.

See "Deletion Vectors", "Deletion Vector Format" and "Deletion Vector File Storage Format" in Delta's protocol. Inline
vectors and file names are in Z85, a text encoding for bytes: five characters for every four bytes (ZeroMQ RFC 32). All
vectors of a commit are written together, packed into few files.
"""

from __future__ import annotations

import array
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from lakeport.errors import CorruptTableError, StorageError
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.paths import resolve_path, within_reach

_ALPHABET = np.frombuffer(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#", dtype=np.uint8
)
_INVALID = 255
_DIGITS = np.full(256, _INVALID, dtype=np.int64)
_DIGITS[_ALPHABET] = np.arange(85)
_POWERS = 85 ** np.arange(4, -1, -1, dtype=np.int64)


def encode_z85(data: bytes) -> str:
    """Encode `data`, padded with zero bytes to a multiple of four: decoders must know the size."""
    words = np.frombuffer(data + bytes(-len(data) % 4), dtype=">u4").astype(np.int64)
    characters: bytes = _ALPHABET[words[:, None] // _POWERS % 85].tobytes()
    return characters.decode("ascii")


def decode_z85(text: str) -> bytes:
    """Decode a text, including its zero padding. Raises `ValueError`.

    The Rust crate `z85` pads differently: with k bytes missing, it puts k `#` before the last five characters. That is
    unambiguous, as `#` is the highest digit and five characters that start with it exceed four bytes.
    """
    raw = text.encode("ascii")
    if len(raw) % 5:
        raise ValueError(f"Z85 text has {len(raw)} characters, which is not a multiple of 5")
    whole = len(raw) - 5 if raw[-5:].startswith(b"#") else len(raw)
    return _decode_words(raw[:whole]) + _decode_short(raw[whole:])


def _decode_words(raw: bytes) -> bytes:
    digits = _DIGITS[np.frombuffer(raw, dtype=np.uint8)].reshape(-1, 5)
    if (digits == _INVALID).any():
        raise ValueError("text is not Z85: it has characters outside its alphabet")
    words = digits @ _POWERS
    if (words >> 32).any():
        raise ValueError("text is not Z85: five of its characters exceed four bytes")
    return words.astype(">u4").tobytes()


def _decode_short(raw: bytes) -> bytes:
    """The one to three bytes of a group with leading `#` padding; empty for empty input."""
    if not raw:
        return b""
    lacking = len(raw) - len(raw.lstrip(b"#"))
    digits = _DIGITS[np.frombuffer(raw[lacking:], dtype=np.uint8)]
    word = int(digits @ _POWERS[lacking:])
    if lacking > 3 or (digits == _INVALID).any() or word >> 8 * (4 - lacking):
        raise ValueError("text is not Z85: its padding is wrong")
    return word.to_bytes(4 - lacking, "big")


_Bytes = bytes | memoryview

_PORTABLE_MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376  # predates the protocol's text; Delta's own readers still accept it
FILE_VERSION = 1
_INLINE = "inline deletion vector"
_UUID_LENGTH = 20
_POSITION_LIMIT = 1 << 63  # the protocol requires the highest bit of a position to be 0
_SIZE_LIMIT = 1 << 31
_PART_LENGTH = 1 << 16

# A vector that starts below this is read in one request with the version byte at the start of its file.
_NEAR = 64 * 1024


class DeletionVectorDescriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The location of a deletion vector, as stored in `add` and `remove` actions."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Together with the data file's path, the key of a logical file."""
        name = self.storage_type + self.path_or_inline_dv
        return name if self.offset is None else f"{name}@{self.offset}"

    def location(self, table_root: str) -> str | None:
        """The plain path of its file; None if it is inline.

        Raises `CorruptTableError` for an invalid storage type or UUID, and for a file that the table may not refer
        to."""
        match self.storage_type:
            case "i":
                return None
            case "p":
                return within_reach(resolve_path(table_root, self.path_or_inline_dv), table_root)
            case "u":
                prefix, name = self.path_or_inline_dv[:-_UUID_LENGTH], self.path_or_inline_dv[-_UUID_LENGTH:]
                directory = table_root.rstrip("/") + (f"/{prefix}" if prefix else "")
                return within_reach(f"{directory}/deletion_vector_{_decode_uuid(name)}.bin", table_root)
        raise CorruptTableError(
            f"a deletion vector has the storage type {self.storage_type!r}, not 'u', 'i' or 'p'",
            path=self.path_or_inline_dv,
        )


def _decode_uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=decode_z85(text))
    except ValueError as error:
        raise CorruptTableError(f"a deletion vector's name is not a valid UUID: {error}", path=text) from error


@dataclass(frozen=True, slots=True, eq=False)
class DeletionVector:
    """The deleted rows of one file. `positions` is strictly ascending, below 2**63, and read-only."""

    positions: npt.NDArray[np.uint64]

    def __post_init__(self) -> None:
        self.positions.flags.writeable = False

    @property
    def cardinality(self) -> int:
        return len(self.positions)

    def deleted_mask(self, start: int, length: int) -> npt.NDArray[np.bool_]:
        """For each of the rows `start` … `start + length - 1`, whether it is deleted."""
        mask = np.zeros(length, dtype=np.bool_)
        mask[self._between(start, start + length) - np.uint64(start)] = True
        return mask

    def selection(self, row_indexes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each row, whether it is live. `row_indexes` is strictly ascending, as in a file."""
        if not len(row_indexes):
            return np.ones(0, dtype=np.bool_)
        first, last = int(row_indexes[0]), int(row_indexes[-1])
        if last - first + 1 == len(row_indexes):
            return ~self.deleted_mask(first, len(row_indexes))
        rows, deleted = row_indexes.astype(np.uint64), self._between(first, last + 1)
        if not len(deleted):
            return np.ones(len(rows), dtype=np.bool_)
        nearest = np.minimum(np.searchsorted(deleted, rows), len(deleted) - 1)
        lives: npt.NDArray[np.bool_] = deleted[nearest] != rows
        return lives

    def _between(self, start: int, end: int) -> npt.NDArray[np.uint64]:
        # Bounds are uint64 too: with mixed types, numpy would compare floats.
        low, high = np.searchsorted(self.positions, np.array([start, end], dtype=np.uint64))
        return self.positions[low:high]


def read_deletion_vector(
    descriptor: DeletionVectorDescriptor, table_root: str, storage: StorageClient
) -> DeletionVector:
    """Read the deletion vector of a descriptor.

    Raises `CorruptTableError` with the file if its bytes are damaged or contradict the descriptor, and
    `MissingFileError` if the file is gone.
    """
    return DeletionVector(_to_numpy(read_bitmap(descriptor, descriptor.location(table_root), storage)))


def read_bitmap(descriptor: DeletionVectorDescriptor, location: str | None, storage: StorageClient) -> BitMap64:
    """The positions of a deletion vector as a compressed bitmap. `location` is its file, None if it is inline. Raises
    the errors of `read_deletion_vector`."""
    return _bitmap_in(_read_payload(descriptor, location, storage), descriptor, location or _INLINE)


def read_portable(descriptor: DeletionVectorDescriptor, location: str | None, storage: StorageClient) -> _Bytes:
    """A deletion vector in the portable format, without file framing, unused bytes and empty buckets. Otherwise like
    `read_bitmap`."""
    payload = _read_payload(descriptor, location, storage)
    bitmap = _bitmap_in(payload, descriptor, location or _INLINE)
    return payload if bitmap and _is_one_exact_bucket(payload) else encode_bitmap(bitmap)


def _read_payload(descriptor: DeletionVectorDescriptor, location: str | None, storage: StorageClient) -> _Bytes:
    return _inline_payload(descriptor) if location is None else _file_payload(descriptor, location, storage)


def _bitmap_in(payload: _Bytes, descriptor: DeletionVectorDescriptor, path: str) -> BitMap64:
    try:
        bitmap = BitMap64.deserialize(_portable_bitmap(payload))
    except (ValueError, IndexError, struct.error) as error:
        raise _damaged(str(error), path) from error
    # Checked before expanding: a few bytes of runs can encode billions of positions.
    if len(bitmap) != descriptor.cardinality:
        raise _damaged(f"it deletes {len(bitmap)} rows, its descriptor says {descriptor.cardinality}", path)
    if bitmap and bitmap.max() >= _POSITION_LIMIT:
        raise _damaged("it deletes a row at or above 2**63", path)
    return bitmap


def _is_one_exact_bucket(payload: _Bytes) -> bool:
    """Whether the payload is portable, has one bucket, as for up to 2**32 rows, and cannot do without its last byte."""
    if bytes(payload[:12]) != struct.pack("<IQ", _PORTABLE_MAGIC, 1):
        return False
    try:
        BitMap64.deserialize(bytes(payload[4:-1]))
    except ValueError:
        return True
    return False


def positions_in(bitmap: BitMap64) -> Iterator[npt.NDArray[np.uint64]]:
    """The positions of a bitmap, ascending, in chunks of at most 65,536, so that only the bitmap is fully in memory."""
    for start in range(0, len(bitmap), _PART_LENGTH):
        yield _to_numpy(bitmap[start : start + _PART_LENGTH])


def _to_numpy(bitmap: BitMap64) -> npt.NDArray[np.uint64]:
    return np.asarray(bitmap.to_array()).astype(np.uint64, copy=False)


def _inline_payload(descriptor: DeletionVectorDescriptor) -> bytes:
    try:
        data = decode_z85(descriptor.path_or_inline_dv)
    except ValueError as error:
        raise _damaged(str(error), _INLINE) from error
    if not 0 <= descriptor.size_in_bytes <= len(data):
        raise _damaged(f"it has {len(data)} bytes, its descriptor says {descriptor.size_in_bytes}", _INLINE)
    return data[: descriptor.size_in_bytes]


def _file_payload(descriptor: DeletionVectorDescriptor, path: str, storage: StorageClient) -> memoryview:
    # Byte 0 is the version; without an offset, the only vector follows it.
    offset, size = descriptor.offset or 1, descriptor.size_in_bytes
    if not 0 < offset < _POSITION_LIMIT or not 0 <= size < _SIZE_LIMIT:
        raise _damaged(f"its descriptor says offset {offset} and size {size}", path)
    if offset <= _NEAR:
        data = storage.read(path, 0, offset + size + 8)
        version, frame = data[:1], memoryview(data)[offset:]
    else:
        version, frame = storage.read(path, 0, 1), memoryview(storage.read(path, offset, size + 8))
    if version != bytes([FILE_VERSION]):
        raise _damaged(f"its file starts with the version {version.hex() or 'nothing'}, not {FILE_VERSION:02x}", path)
    if len(frame) >= 4 and (stored := int.from_bytes(frame[:4], "big")) != size:
        raise _damaged(f"at offset {offset} it has {stored} bytes, its descriptor says {size}", path)
    if len(frame) < size + 8:
        raise _damaged(f"its file ends after {len(frame)} of the {size + 8} bytes at offset {offset}", path)
    payload, checksum = frame[4 : size + 4], int.from_bytes(frame[size + 4 : size + 8], "big")
    if (computed := zlib.crc32(payload)) != checksum:
        raise _damaged(f"the CRC-32 of its bytes is {computed:08x}, its file says {checksum:08x}", path)
    return payload


def _portable_bitmap(payload: _Bytes) -> bytes:
    """The bytes of a 64-bit bitmap in the portable format. Raises `ValueError` and `struct.error`."""
    magic = int.from_bytes(payload[:4], "little")
    if magic == _PORTABLE_MAGIC:
        return bytes(payload[4:])
    if magic == _NATIVE_MAGIC:
        return _from_native(payload, "<I")
    # The protocol's example of an inline vector is in the native format, with big-endian numbers around the bitmaps.
    if int.from_bytes(payload[:4], "big") == _NATIVE_MAGIC:
        return _from_native(payload, ">I")
    raise ValueError(f"it starts with the magic number {magic}, not {_PORTABLE_MAGIC}")


def _from_native(payload: _Bytes, number: str) -> bytes:
    """The number of bitmaps, then the size and bytes of each: values from 0, from 2**32, from 2 * 2**32 …

    The portable format has the same bitmaps, each preceded by the high half of its values."""
    (buckets,) = struct.unpack_from(number, payload, 4)
    portable, position = [struct.pack("<Q", buckets)], 8
    for bucket in range(buckets):
        (size,) = struct.unpack_from(number, payload, position)
        portable += [struct.pack("<I", bucket), bytes(payload[position + 4 : position + 4 + size])]
        position += 4 + size
    return b"".join(portable)


def _damaged(what: str, path: str) -> CorruptTableError:
    subject = _INLINE if path == _INLINE else "deletion vector"
    return CorruptTableError(f"the {subject} is damaged: {what}", path=path)


def union(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The positions in either of two ascending arrays, ascending and distinct.

    A stable sort detects the two runs and merges them in linear time. `np.union1d` hashes since NumPy 2.3: 25 s for ten
    million positions, compared with 0.1 s here."""
    merged = np.sort(np.concatenate([left, right]), kind="stable")
    is_first = np.ones(len(merged), dtype=np.bool_)
    np.not_equal(merged[1:], merged[:-1], out=is_first[1:])
    return merged[is_first]


def encode_deletion_vector(positions: npt.NDArray[np.uint64]) -> bytes:
    """Encode a deletion vector without file framing. Raises `ValueError` for a position of 2**63 or more.

    Positions may be unordered and repeated."""
    if len(positions) and int(positions.max()) >= _POSITION_LIMIT:
        raise ValueError(f"the row position {positions.max()} is not below 2**63")
    bitmap = BitMap64(array.array("Q", np.ascontiguousarray(positions, dtype=np.uint64).tobytes()))
    bitmap.run_optimize()
    return encode_bitmap(bitmap)


def encode_bitmap(bitmap: BitMap64) -> bytes:
    """Encode a deletion vector without file framing."""
    return struct.pack("<I", _PORTABLE_MAGIC) + bitmap.serialize()


def frame_payload(payload: _Bytes) -> bytes:
    """Frame a deletion vector with its size and checksum, as in Delta's files and Iceberg's blobs."""
    return b"".join((struct.pack(">I", len(payload)), payload, struct.pack(">I", zlib.crc32(payload))))


def encode_inline(payload: bytes) -> str:
    """Encode a deletion vector as inline text; the descriptor's size is that of the bytes."""
    return encode_z85(payload)


_FILE_BYTES = 8 << 20
"""Files of at least this size get no further vector."""


def write_deletion_vectors(
    storage: StorageClient, table_root: str, vectors: Iterable[npt.NDArray[np.uint64]]
) -> list[DeletionVectorDescriptor | None]:
    """The written vectors in order; None for one that deletes nothing. On failure, deletes the files."""
    written: list[str] = []
    descriptors: list[DeletionVectorDescriptor | None] = []
    file = _VectorFile()
    try:
        for positions in vectors:
            if file.size >= _FILE_BYTES:
                file.write(storage, table_root, written)
                file = _VectorFile()
            descriptors.append(file.add(positions) if len(positions) else None)
        if file.frames:
            file.write(storage, table_root, written)
    except BaseException:
        with suppress(StorageError):  # report the original error
            storage.delete(written)
        raise
    return descriptors


@dataclass
class _VectorFile:
    """A file in memory: a version byte, then each vector, preceded by its size and followed by its CRC-32."""

    id: uuid.UUID = field(default_factory=uuid.uuid4)
    frames: list[bytes] = field(default_factory=list)
    size: int = 1

    def add(self, positions: npt.NDArray[np.uint64]) -> DeletionVectorDescriptor:
        payload = encode_deletion_vector(positions)
        descriptor = DeletionVectorDescriptor(
            storage_type="u",
            path_or_inline_dv=encode_z85(self.id.bytes),
            size_in_bytes=len(payload),
            cardinality=len(positions),
            offset=self.size,
        )
        frame = frame_payload(payload)
        self.frames.append(frame)
        self.size += len(frame)
        return descriptor

    def write(self, storage: StorageClient, table_root: str, written: list[str]) -> None:
        """Write it atomically and add its path to `written`: it may exist even if this raises."""
        path = f"{table_root}/deletion_vector_{self.id}.bin"
        written.append(path)
        storage.write(path, b"".join([bytes([FILE_VERSION]), *self.frames]))
