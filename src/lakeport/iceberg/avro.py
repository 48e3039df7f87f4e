"""The part of Avro that Iceberg's manifests need: values by schema, and container files.

Hand-written because a large table's manifests are mostly known bytes: they are concatenated, not encoded value by
value. See "Binary Encoding" and "Object Container Files" in Avro's specification.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Schema = Any
"""A schema in Avro's JSON: a name, a list of schemas, or an object."""
Encode = Callable[[Any], bytes]
Decode = Callable[[memoryview, int], tuple[Any, int]]
"""From bytes and a position to a value and the position after it."""

_MAGIC = b"Obj\x01"
_SYNC_LENGTH = 16
_BLOCK_BYTES = 1 << 20
_LEVEL = 1  # most of the compression for little time
NULL = b"\x00"
"""The first branch of a union `["null", …]`."""
PRESENT = b"\x02"
"""The prefix of a value of its second branch."""
_SMALL = [b""] * 8192


def encode_long(number: int) -> bytes:
    """An int or a long: zigzag, seven bits per byte."""
    if 0 <= number < 8192:
        return _SMALL[number]
    return _varint((number << 1) ^ (number >> 63))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL[:] = [_varint(number << 1) for number in range(len(_SMALL))]


def decode_long(data: memoryview, position: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7


def encode_bytes(data: bytes) -> bytes:
    return encode_long(len(data)) + data


def _decode_bytes(data: memoryview, position: int) -> tuple[bytes, int]:
    length, position = decode_long(data, position)
    if length < 0 or position + length > len(data):
        raise ValueError("a value extends past the end of the data")
    return bytes(data[position : position + length]), position + length


def _decode_string(data: memoryview, position: int) -> tuple[str, int]:
    raw, position = _decode_bytes(data, position)
    return raw.decode(), position


def _fixed_width(form: str) -> tuple[Encode, Decode]:
    packed = struct.Struct(form)

    def decode(data: memoryview, position: int) -> tuple[Any, int]:
        return packed.unpack_from(data, position)[0], position + packed.size

    return packed.pack, decode


_PRIMITIVES: Mapping[str, tuple[Encode, Decode]] = {
    "int": (encode_long, decode_long),
    "long": (encode_long, decode_long),
    "string": (lambda text: encode_bytes(text.encode()), _decode_string),
    "bytes": (encode_bytes, _decode_bytes),
    "boolean": _fixed_width("<?"),
    "float": _fixed_width("<f"),
    "double": _fixed_width("<d"),
    "null": (lambda _: b"", lambda _, position: (None, position)),
}


def encoder(schema: Schema) -> Encode:
    """A function from values to bytes. Records are dicts; an optional value is a union of null and one type."""
    match schema:
        case str():
            return _PRIMITIVES[schema][0]
        case ["null", inner]:
            encode = encoder(inner)
            return lambda value: NULL if value is None else PRESENT + encode(value)
        case {"type": "record", "fields": fields}:
            return _record_encoder([(field["name"], encoder(field["type"])) for field in fields])
        case {"type": "array", "items": items}:
            encode_item = encoder(items)
            return lambda values: encode_array(len(values), map(encode_item, values))
        case {"type": "fixed"}:
            return bytes
        case {"type": inner}:
            return encoder(inner)
    raise ValueError(f"no such Avro schema: {schema!r}")


def _record_encoder(fields: list[tuple[str, Encode]]) -> Encode:
    return lambda record: b"".join([encode(record.get(name)) for name, encode in fields])


def encode_array(count: int, items: Iterable[bytes]) -> bytes:
    return b"".join((encode_long(count), *items, NULL)) if count else NULL


def decoder(schema: Schema, names: dict[str, Schema] | None = None) -> Decode:
    """The inverse of `encoder`. Also reads schemas of other writers: unions in any order, maps, and named types."""
    names = {} if names is None else names
    match schema:
        case str():
            return _PRIMITIVES[schema][1] if schema in _PRIMITIVES else decoder(names[schema], names)
        case list():
            return _union_decoder([decoder(branch, names) for branch in schema])
        case {"type": "record", "fields": fields}:
            names[schema.get("name", "")] = schema
            return _record_decoder([(field["name"], decoder(field["type"], names)) for field in fields])
        case {"type": "array", "items": items}:
            return _array_decoder(decoder(items, names))
        case {"type": "map", "values": values}:
            return _map_decoder(decoder(values, names))
        case {"type": "fixed", "size": size}:
            names[schema.get("name", "")] = schema
            return lambda data, position: (bytes(data[position : position + size]), position + size)
        case {"type": inner}:
            return decoder(inner, names)
    raise ValueError(f"no such Avro schema: {schema!r}")


def _union_decoder(branches: list[Decode]) -> Decode:
    def decode(data: memoryview, position: int) -> tuple[Any, int]:
        branch, position = decode_long(data, position)
        return branches[branch](data, position)

    return decode


def _record_decoder(fields: list[tuple[str, Decode]]) -> Decode:
    def decode(data: memoryview, position: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, decode_field in fields:
            record[name], position = decode_field(data, position)
        return record, position

    return decode


def _array_decoder(decode_item: Decode) -> Decode:
    def decode(data: memoryview, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, position = decode_long(data, position)
            if count == 0:
                return items, position
            if count < 0:  # the block size in bytes follows
                count, (_, position) = -count, decode_long(data, position)
            for _ in range(count):
                item, position = decode_item(data, position)
                items.append(item)

    return decode


def _map_decoder(decode_value: Decode) -> Decode:
    def decode_entry(data: memoryview, position: int) -> tuple[tuple[str, Any], int]:
        key, position = _decode_string(data, position)
        value, position = decode_value(data, position)
        return (key, value), position

    decode_entries = _array_decoder(decode_entry)

    def decode(data: memoryview, position: int) -> tuple[dict[str, Any], int]:
        entries, position = decode_entries(data, position)
        return dict(entries), position

    return decode


def encode_file(schema: Schema, metadata: Mapping[str, str], records: Iterable[bytes]) -> bytes:
    """A compressed file of already encoded records, with `metadata` in its header."""
    header = {"avro.schema": msgspec.json.encode(schema), "avro.codec": b"deflate"}
    header |= {name: text.encode() for name, text in metadata.items()}
    pairs = [encode_bytes(name.encode()) + encode_bytes(value) for name, value in header.items()]
    head = _MAGIC + encode_array(len(pairs), pairs)
    sync = hashlib.blake2b(head, digest_size=_SYNC_LENGTH).digest()
    return b"".join((head, sync, *(_encode_block(block, sync) for block in _blocks(records))))


def _blocks(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for record in records:
        block.append(record)
        size += len(record)
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _encode_block(block: list[bytes], sync: bytes) -> bytes:
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    data = deflate.compress(b"".join(block)) + deflate.flush()
    return encode_long(len(block)) + encode_long(len(data)) + data + sync


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file, before its blocks."""

    metadata: Mapping[str, str]
    sync: bytes
    length: int

    @property
    def schema(self) -> Schema:
        return msgspec.json.decode(self.metadata["avro.schema"])


def decode_header(data: bytes | memoryview) -> Header | None:
    """The header of a file, from its first bytes; None if they are too few. Raises `ValueError` if it is not Avro."""
    view = memoryview(data)
    if bytes(view[:4]) != _MAGIC[: len(view[:4])]:
        raise ValueError("it does not start like an Avro file")
    try:
        pairs, position = _map_decoder(_decode_bytes)(view, 4)
    except (IndexError, ValueError):
        return None
    if position + _SYNC_LENGTH > len(view):
        return None
    metadata = {name: value.decode(errors="replace") for name, value in pairs.items()}
    return Header(metadata, bytes(view[position : position + _SYNC_LENGTH]), position + _SYNC_LENGTH)


def decode_blocks(data: bytes, header: Header) -> Iterator[tuple[int, bytes]]:
    """The record count and the bytes of each block. Raises `ValueError` for a damaged file."""
    view, position = memoryview(data), header.length
    codec = header.metadata.get("avro.codec", "null")
    while position < len(view):
        count, position = decode_long(view, position)
        block, position = _decode_bytes(view, position)
        if bytes(view[position : position + _SYNC_LENGTH]) != header.sync:
            raise ValueError("a block does not end where it should")
        position += _SYNC_LENGTH
        yield count, _decompress(codec, block)


def _decompress(codec: str, block: bytes) -> bytes:
    match codec:
        case "null":
            return block
        case "deflate":
            return zlib.decompress(block, -15)
    raise ValueError(f"its blocks are compressed with {codec}, which Lakeport does not read")


def decode_records(data: bytes) -> Iterator[dict[str, Any]]:
    """The records of a whole file. Raises `ValueError` for a damaged file."""
    header = decode_header(data)
    if header is None:
        raise ValueError("its header is cut off")
    decode = decoder(header.schema)
    for count, block in decode_blocks(data, header):
        view, position = memoryview(block), 0
        for _ in range(count):
            record, position = decode(view, position)
            yield record
