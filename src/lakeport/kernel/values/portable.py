"""Values that travel between processes."""

from __future__ import annotations

from typing import Self

import msgspec


class Portable(msgspec.Struct, frozen=True):
    """A struct that travels as bytes."""

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return msgspec.msgpack.decode(data, type=cls)
