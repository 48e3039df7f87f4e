"""Deletion vectors of any size in little memory: their positions, and their bytes as Iceberg wants them.

Both read the payload in parts and check it on the way: its size, its magic number, its checksum, how many positions it
has. `kernel.deletion_vectors` reads a vector whole.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeport.engine.reading import in_order
from lakeport.errors import CorruptTableError
from lakeport.iceberg.roaring import VALUES_OF_A_CONTAINER, Container, count_bitmap64, read_bitmap32, read_bitmap64
from lakeport.kernel.deletion_vectors import FILE_VERSION, DeletionVectorDescriptor, encode_deletion_vector
from lakeport.kernel.engine import StorageClient
from lakeport.kernel.z85 import decode_z85

_PORTABLE = struct.pack("<I", 1681511377)
_NATIVE = {struct.pack(order, 1681511376): order for order in ("<I", ">I")}
"""The format before the portable one, with the byte order of its numbers."""
_NOTHING = memoryview(b"")
_PART_BYTES = 512 << 10
"""So much is read at a time: little enough that the memory of one part soon serves another."""
_NEAR = 64 << 10
"""A vector that starts before this is read together with the version at the start of its file."""


@dataclass(frozen=True, slots=True)
class VectorSlice:
    """Where a deletion vector is: its descriptor and the file that holds it, None if it is inline."""

    descriptor: DeletionVectorDescriptor
    path: str | None


def read_ordinals(storage: StorageClient, vector: VectorSlice) -> Iterator[npt.NDArray[np.uint64]]:
    """The positions, ascending, in parts of at most 65,536. Raises `CorruptTableError` and `MissingFileError`."""
    waiting: list[npt.NDArray[np.uint64]] = []
    count = 0
    try:
        for container in _Payload(storage, vector).containers():
            if count + container.cardinality > VALUES_OF_A_CONTAINER:
                yield np.concatenate(waiting)
                waiting, count = [], 0
            waiting.append(container.values())
            count += container.cardinality
    except ValueError as error:
        raise _damaged(str(error), vector) from error
    if waiting:
        yield np.concatenate(waiting)


def read_portable_blob(storage: StorageClient, vector: VectorSlice) -> Iterator[bytes | memoryview]:
    """The size of the payload, the payload in the portable format, its CRC-32. Raises as `read_ordinals`."""
    payload = _Payload(storage, vector, keeps_parts=True)
    try:
        if payload.is_portable:
            yield payload.size.to_bytes(4, "big")
            for _ in payload.pass_over():
                yield from payload.kept_parts()
            yield from payload.kept_parts()
            yield payload.checksum.to_bytes(4, "big")
            return
    except ValueError as error:
        raise _damaged(str(error), vector) from error
    positions = list(read_ordinals(storage, vector))
    encoded = encode_deletion_vector(np.concatenate(positions) if positions else np.zeros(0, dtype=np.uint64))
    yield len(encoded).to_bytes(4, "big") + encoded + zlib.crc32(encoded).to_bytes(4, "big")


class _Payload:
    """The bytes of a vector, taken from front to back. Raises `ValueError` for bytes that are damaged."""

    def __init__(self, storage: StorageClient, vector: VectorSlice, *, keeps_parts: bool = False) -> None:
        self.size, self._cardinality = vector.descriptor.size_in_bytes, vector.descriptor.cardinality
        self.checksum = 0
        """The CRC-32 of what has been read."""
        self._parts = self._inline(vector) if vector.path is None else self._in_file(storage, vector, vector.path)
        if self.size > _PART_BYTES:
            self._parts = in_order([self._parts], iter, threads=1)  # reads and checks ahead of who takes
        self._kept: deque[memoryview] | None = deque() if keeps_parts else None
        self._part, self._position, self._taken = _NOTHING, 0, 0
        self._magic: memoryview | None = None

    @property
    def is_portable(self) -> bool:
        return self._read_magic() == _PORTABLE

    def containers(self) -> Iterator[Container]:
        """Those of the bitmap; after the last one, everything about the payload is known to be right."""
        found = 0
        for container in self._bitmap():
            found += container.cardinality
            if found > self._cardinality:
                break
            yield container
        self._check_end(found)

    def pass_over(self) -> Iterator[None]:
        """Goes through a portable bitmap by its headers, and stops whenever it has read some; at the end, everything
        about the payload is known to be right, but for the values in its containers."""
        found = 0
        self._read_magic()
        for count in count_bitmap64(self._take, self._skip):
            found += count
            yield
        self._check_end(found)

    def kept_parts(self) -> Iterator[memoryview]:
        """The parts of the payload that have been read since this was asked for the last time."""
        while self._kept:
            yield self._kept.popleft()

    def _check_end(self, found: int) -> None:
        if found != self._cardinality:
            more = " or more" if found > self._cardinality else ""
            raise ValueError(f"it deletes {found}{more} rows, its descriptor says {self._cardinality}")
        if self._taken != self.size:
            raise ValueError(f"its bitmap ends after {self._taken} of its {self.size} bytes")
        for _ in self._parts:  # the checksum is behind the last byte
            pass

    def _bitmap(self) -> Iterator[Container]:
        magic = self._read_magic()
        if magic == _PORTABLE:
            return read_bitmap64(self._take)
        if magic in _NATIVE:
            return self._native_bitmaps(_NATIVE[bytes(magic)])
        raise ValueError(f"it starts with the bytes {magic.hex()}, not {_PORTABLE.hex()}")

    def _native_bitmaps(self, order: str) -> Iterator[Container]:
        """How many bitmaps, then for each its size and itself: the values from 0, from 2**32, from 2 * 2**32 …"""
        (bitmaps,) = struct.unpack(order, self._take(4))
        for bucket in range(bitmaps):
            self._take(4)
            yield from read_bitmap32(self._take, bucket << 32)

    def _read_magic(self) -> memoryview:
        if self._magic is None:
            self._magic = self._take(4)
        return self._magic

    # Taking bytes

    def _take(self, count: int) -> memoryview:
        end = self._position + count
        if end > len(self._part):
            return self._take_over_parts(count)
        data = self._part[self._position : end]
        self._position = end
        self._taken += count
        return data

    def _take_over_parts(self, count: int) -> memoryview:
        pieces = []
        while count:
            piece = self._take(min(count, len(self._part) - self._position))
            pieces.append(piece)
            count -= len(piece)
            if count:
                self._next_part()
        return memoryview(b"".join(pieces))

    def _skip(self, count: int) -> Iterator[None]:
        while (left := len(self._part) - self._position) < count:
            self._position += left
            self._taken += left
            count -= left
            self._next_part()
            yield
        self._position += count
        self._taken += count

    def _next_part(self) -> None:
        part = next(self._parts, None)
        if part is None:
            raise ValueError(f"its bitmap goes on behind its {self.size} bytes")
        self._part, self._position = part, 0
        if self._kept is not None:
            self._kept.append(part)

    def _inline(self, vector: VectorSlice) -> Iterator[memoryview]:
        payload = _inline_bytes(vector.descriptor)
        self.checksum = zlib.crc32(payload)
        yield payload

    def _in_file(self, storage: StorageClient, vector: VectorSlice, path: str) -> Iterator[memoryview]:
        """The payload in parts. Behind the last one, its checksum is compared with the file's."""
        lacking, behind = self.size, b""
        for part in _after_size(storage, vector.descriptor, path):
            payload = part[:lacking]
            lacking -= len(payload)
            behind += part[len(payload) :]
            self.checksum = zlib.crc32(payload, self.checksum)
            yield payload
        if len(behind) < 4:
            raise ValueError(
                f"its file ends after {4 + self.size - lacking + len(behind)} of its {self.size + 8} bytes"
            )
        if self.checksum != (stored := int.from_bytes(behind, "big")):
            raise ValueError(f"the CRC-32 of its bytes is {self.checksum:08x}, its file says {stored:08x}")


def _inline_bytes(descriptor: DeletionVectorDescriptor) -> memoryview:
    data, size = decode_z85(descriptor.path_or_inline_dv), descriptor.size_in_bytes
    if not 0 <= size <= len(data):
        raise ValueError(f"it has {len(data)} bytes, its descriptor says {size}")
    return memoryview(data)[:size]


def _after_size(storage: StorageClient, descriptor: DeletionVectorDescriptor, path: str) -> Iterator[memoryview]:
    """Payload and checksum in parts, as far as the file has them. The file's version and the size are checked."""
    # Where the offset is absent, the only vector follows the version.
    offset, size = descriptor.offset or 1, descriptor.size_in_bytes
    if offset < 0 or size < 0:
        raise ValueError(f"its descriptor says offset {offset} and size {size}")
    is_near = offset <= _NEAR
    parts = _read_parts(storage, path, 0 if is_near else offset, offset + size + 8)
    first = next(parts, _NOTHING)
    version = first[:1] if is_near else storage.read(path, 0, 1)
    if version != bytes([FILE_VERSION]):
        raise ValueError(f"its file starts with the version {version.hex() or 'nothing'}, not {FILE_VERSION:02x}")
    first = first[offset:] if is_near else first
    if len(first) >= 4 and (stored := int.from_bytes(first[:4], "big")) != size:
        raise ValueError(f"at offset {offset} it has {stored} bytes, its descriptor says {size}")
    yield first[4:]
    yield from parts


def _read_parts(storage: StorageClient, path: str, start: int, end: int) -> Iterator[memoryview]:
    """The bytes of a file from `start` to `end`, or to the end of the file."""
    while start < end and (part := storage.read(path, start, min(end - start, _PART_BYTES))):
        yield memoryview(part)
        start += len(part)


def _damaged(what: str, vector: VectorSlice) -> CorruptTableError:
    if vector.path is None:
        return CorruptTableError(f"the inline deletion vector is damaged: {what}", path=vector.descriptor.unique_id)
    return CorruptTableError(f"the deletion vector is damaged: {what}", path=vector.path)
