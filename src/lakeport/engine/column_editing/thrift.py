"""Thrift's compact protocol, read and written without a schema, so that unknown fields stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_INTEGERS = frozenset((I16, I32, I64))
_LONG = 15
"""A list of at least this many items has its length behind its first byte."""
_DEEPEST = 64


class Struct(dict[int, tuple[int, Any]]):
    """Fields by number, in ascending order: their type and value. A list is the type of its items, and its items."""

    def value(self, number: int, default: Any = None) -> Any:
        return self[number][1] if number in self else default

    def items_of(self, number: int) -> list[Any]:
        """The items of a list; none if the field is missing."""
        items: list[Any] = self[number][1][1] if number in self else []
        return items

    def put(self, number: int, kind: int, value: Any) -> None:
        """Set a field, at its place."""
        is_new = number not in self and any(other > number for other in self)
        self[number] = kind, value
        if is_new:
            fields = sorted(self.items())
            self.clear()
            self.update(fields)

    def put_structs(self, number: int, structs: list[Struct]) -> None:
        self.put(number, LIST, (STRUCT, structs))

    def copy(self) -> Struct:
        """A copy that shares its values."""
        return Struct(self)


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """The struct that begins at `start`, and where it ends. Raises `ValueError` for bytes that hold none."""
    try:
        reader = _Reader(data, start)
        return reader.struct(0), reader.at
    except IndexError:
        raise ValueError("the Thrift struct is incomplete") from None


def write_struct(struct: Struct) -> bytes:
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise ValueError("the Thrift struct is nested too deeply")
        found, number = Struct(), 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._integer()
            found[number] = kind, kind if kind in (TRUE, FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        return self._rare(kind)

    def _rare(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(8)
        raise ValueError(f"Thrift's type {kind} is not supported")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        length, kind = head >> 4, head & 15
        if length == _LONG:
            length = self._varint()
        if length > len(self._data):
            raise ValueError("the Thrift list is incomplete")
        return kind, [self._value(kind, depth) for _ in range(length)]

    def _integer(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) > 127:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _bytes(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise IndexError
        return self._data[start : self.at]


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number, (kind, value) in struct.items():
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        last = number
        if kind not in (TRUE, FALSE):
            _write(out, kind, value)
    out.append(0)


def _write(out: bytearray, kind: int, value: Any) -> None:
    _WRITERS.get(kind, _write_byte)(out, value)


def _write_list(out: bytearray, value: tuple[int, list[Any]]) -> None:
    kind, items = value
    out.append(min(len(items), _LONG) << 4 | kind)
    if len(items) >= _LONG:
        _write_varint(out, len(items))
    for item in items:
        _write(out, kind, item)


def _write_binary(out: bytearray, value: bytes) -> None:
    _write_varint(out, len(value))
    out += value


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, (value << 1) ^ (value >> 63))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_byte(out: bytearray, value: int) -> None:
    out.append(value)


def _write_double(out: bytearray, value: bytes) -> None:
    out += value


_WRITERS: dict[int, Callable[[bytearray, Any], None]] = {
    I16: _write_integer,
    I32: _write_integer,
    I64: _write_integer,
    DOUBLE: _write_double,
    BINARY: _write_binary,
    LIST: _write_list,
    SET: _write_list,
    STRUCT: _write_struct,
}
