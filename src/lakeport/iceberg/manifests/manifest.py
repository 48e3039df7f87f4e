"""Manifests: the data files and delete files of a table, in files that later snapshots share.

Lakeport's manifests have an index in their header: for each entry, a hash of its data file and the entry's length; and
the members of shared delete files. With it, a removed file is found without reading other manifests, and unchanged
entries are copied as bytes. Manifests of other writers are decoded.

An entry is written as a head, with the numbers that change between snapshots, and a tail that never changes. Readers
find fields by id, so their order is free. See "Manifests" in Iceberg's specification.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from lakeport.errors import CorruptTableError
from lakeport.iceberg.avro import (
    NULL,
    PRESENT,
    Header,
    Schema,
    decode_blocks,
    decode_header,
    decode_long,
    decoder,
    encode_bytes,
    encode_file,
    encode_long,
    encoder,
)
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES, ManifestFile
from lakeport.iceberg.table.partitions import Partitioning
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.engine import StorageClient


def entry_schema(content: int, format_version: int, partition: list[Json]) -> Schema:
    """The Avro schema of manifest entries; `partition` holds the partition fields."""
    entry = [
        _field("status", 0, "int"),
        _optional_field("snapshot_id", 1, "long"),
        _optional_field("sequence_number", 3, "long"),
        _optional_field("file_sequence_number", 4, "long"),
        _field(
            "data_file", 2, {"type": "record", "name": "r2", "fields": _file_fields(content, format_version, partition)}
        ),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def _file_fields(content: int, format_version: int, partition: list[Json]) -> list[Json]:
    fields = [
        _field("content", 134, "int"),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
    ]
    if content == DATA and format_version >= 3:
        fields.append(_optional_field("first_row_id", 142, "long"))
    fields += [
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        _map_field("value_counts", 109, (119, 120), "long"),
        _map_field("null_value_counts", 110, (121, 122), "long"),
        _map_field("lower_bounds", 125, (126, 127), "bytes"),
        _map_field("upper_bounds", 128, (129, 130), "bytes"),
    ]
    if content == DELETES:
        fields.append(_optional_field("referenced_data_file", 143, "string"))
        if format_version >= 3:
            fields.append(_optional_field("content_offset", 144, "long"))
            fields.append(_optional_field("content_size_in_bytes", 145, "long"))
    return fields


def _field(name: str, number: int, avro_type: Any) -> Json:
    return {"name": name, "type": avro_type, "field-id": number}


def _optional_field(name: str, number: int, avro_type: Any) -> Json:
    return {"name": name, "type": ["null", avro_type], "default": None, "field-id": number}


def _map_field(name: str, number: int, ids: tuple[int, int], value: str) -> Json:
    """Avro's maps need string keys: Iceberg writes other maps as lists of pairs."""
    pair = {
        "type": "record",
        "name": f"k{ids[0]}_v{ids[1]}",
        "fields": [_field("key", ids[0], "int"), _field("value", ids[1], value)],
    }
    return _optional_field(name, number, {"type": "array", "items": pair, "logicalType": "map"})


def partition_fields(schema: Schema) -> list[Json]:
    """The partition fields in an entry schema. Raises `KeyError`."""
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    inner = {field["name"]: field["type"] for field in fields["data_file"]["fields"]}
    found: list[Json] = inner["partition"]["fields"]
    return found


_INDEX = "lakeport.entries"
_MEMBERS = "lakeport.members"
_INDEX_BYTES = 16
"""Per entry."""
_BESIDES_INDEX = 64 << 10
"""The rest of a header is usually smaller."""
PARQUET, PUFFIN = encode_bytes(b"PARQUET"), encode_bytes(b"PUFFIN")
"""Encoded file formats."""
_HEADER = ("schema", "schema-id", "partition-spec", "partition-spec-id", "format-version", "content")
"""Header fields that Iceberg requires."""


class OutOfStepError(Exception):
    """The mirror lacks a file that the Delta table removed, or already has one that it adds: it is out of sync. Or
    others rewrote it, and Lakeport's own fields are lost."""


class Status(IntEnum):
    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Member(NamedTuple):
    """One of several data files in a shared delete file."""

    key: int
    """`hash_path` of the data file."""
    vector: int
    """`hash_path` of the unique id of its deletion vector."""
    records: int
    """The number of its deleted rows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a manifest. None means inherited from the manifest."""

    key: int
    """`hash_path` of its data file; for a shared delete file, of one of them."""
    record_count: int
    file_size: int
    tail: bytes
    """The rest of the entry, encoded."""
    status: int = Status.ADDED
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    first_row_id: int | None = None
    members: tuple[Member, ...] = ()
    """The data files of a shared delete file."""

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of all its data files."""
        return tuple(member.key for member in self.members) or (self.key,)

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector: its tail starts with its path and its format."""
        view = memoryview(self.tail)
        length, start = decode_long(view, 0)
        return self.tail[start + length :].startswith(PUFFIN)


def hash_path(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class ManifestLayout:
    """The layout of manifests with one content, schema and spec."""

    content: int
    format_version: int
    avro_schema: Schema
    metadata: Mapping[str, str]
    """Header fields that Iceberg requires."""

    @property
    def spec_id(self) -> int:
        return int(self.metadata["partition-spec-id"])

    @property
    def partition_types(self) -> list[str]:
        """The Iceberg types of the partition fields."""
        columns = {f["id"]: f["type"] for f in msgspec.json.decode(self.metadata["schema"])["fields"]}
        return [columns[part["source-id"]] for part in msgspec.json.decode(self.metadata["partition-spec"])]

    def partitions_as(self, partitioning: Partitioning) -> bool:
        return self.spec_id == partitioning.spec["spec-id"] and self.partition_types == list(partitioning.types)

    @property
    def has_row_ids(self) -> bool:
        return self.format_version >= 3 and self.content == DATA

    def encode(self, entries: Sequence[Entry]) -> bytes:
        """The manifest with these entries."""
        records = [self._encode_head(entry) + entry.tail for entry in entries]
        index = {_INDEX: _format_index([entry.key for entry in entries], [len(record) for record in records])}
        if any(entry.members for entry in entries):
            index[_MEMBERS] = _format_members([entry.members for entry in entries])
        return encode_file(self.avro_schema, {**self.metadata, **index}, records)

    def _encode_head(self, entry: Entry) -> bytes:
        numbers = [
            encode_long(entry.status),
            _optional(entry.snapshot_id),
            _optional(entry.sequence_number),
            _optional(entry.file_sequence_number),
            encode_long(1 if self.content == DELETES else 0),
            encode_long(entry.record_count),
            encode_long(entry.file_size),
        ]
        return b"".join([*numbers, _optional(entry.first_row_id)] if self.has_row_ids else numbers)

    def split(self, data: bytes, header: Header, index: _Index) -> Iterator[Entry]:
        """The entries of a manifest of this layout, with their tails copied."""
        view = memoryview(b"".join(block for _, block in decode_blocks(data, header)))
        start = 0
        for key, length, members in zip(index.keys.tolist(), index.lengths.tolist(), index.members, strict=True):
            numbers, position = _decode_head(view, start, self.has_row_ids)
            status, snapshot_id, sequence_number, file_sequence_number, _, records, size, *row_id = numbers
            start += length
            yield Entry(
                key,
                records,
                size,
                bytes(view[position:start]),
                status,
                snapshot_id,
                sequence_number,
                file_sequence_number,
                row_id[0] if row_id else None,
                members,
            )

    @property
    def tail_schema(self) -> Schema:
        """The schema of the entries' tails."""
        fields = self.avro_schema["fields"][-1]["type"]["fields"][4 if self.has_row_ids else 3 :]
        return {"type": "record", "name": "tail", "fields": fields}

    def recode(self, data: bytes, header: Header, index: _Index | None) -> Iterator[Entry]:
        """The entries of a manifest of another layout, decoded and re-encoded."""
        encode = encoder(self.tail_schema)
        members = repeat(()) if index is None else index.members
        for record, packed in zip(_records(data, header), members, strict=index is not None):
            file = record["data_file"]
            about = file["file_path"] if self.content == DATA else file["referenced_data_file"]
            if about is None and not packed:
                raise OutOfStepError
            yield Entry(
                packed[0].key if packed else hash_path(about),
                file["record_count"],
                file["file_size_in_bytes"],
                encode(file),
                record["status"],
                record.get("snapshot_id"),
                record.get("sequence_number"),
                record.get("file_sequence_number"),
                file.get("first_row_id"),
                packed,
            )


def new_layout(content: int, format_version: int, partitioning: Partitioning, schema: Json) -> ManifestLayout:
    """The layout of new manifests; `schema` is the table's, in the JSON of its metadata."""
    metadata = {
        "schema": msgspec.json.encode(schema).decode(),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": msgspec.json.encode(partitioning.spec["fields"]).decode(),
        "partition-spec-id": str(partitioning.spec["spec-id"]),
        "format-version": str(format_version),
        "content": "data" if content == DATA else "deletes",
    }
    avro_schema = entry_schema(content, format_version, partitioning.avro_fields)
    return ManifestLayout(content, format_version, avro_schema, metadata)


def decode_manifest(data: bytes, manifest: ManifestFile, format_version: int) -> tuple[ManifestLayout, list[Entry]]:
    """The live entries of a manifest, with inherited values filled in, and the layout to rewrite them: its own, which
    keeps the types of partition values, or its equivalent in another format version.

    Raises `CorruptTableError`, and `OutOfStepError` if the data files of a delete file are unknown."""
    try:
        header = decode_header(data)
        if header is None:
            raise ValueError("its header is cut off")
        written, index = header.schema, _parse_index(header)
        metadata = {name: header.metadata[name] for name in _HEADER} | {"format-version": str(format_version)}
        wanted = entry_schema(manifest.content, format_version, partition_fields(written))
        layout = ManifestLayout(manifest.content, format_version, wanted, metadata)
        entries = (
            layout.split(data, header, index) if index and written == wanted else layout.recode(data, header, index)
        )
        return layout, list(_inherit(entries, manifest, with_row_ids=layout.has_row_ids))
    except (ValueError, KeyError, IndexError, msgspec.MsgspecError) as error:
        raise CorruptTableError(f"the manifest cannot be read: {error}", path=manifest.path) from error


def _optional(number: int | None) -> bytes:
    return NULL if number is None else PRESENT + encode_long(number)


def _decode_head(view: memoryview, position: int, with_row_ids: bool) -> tuple[list[Any], int]:
    numbers: list[int | None] = []
    for optional in (False, True, True, True, False, False, False, *([True] if with_row_ids else [])):
        branch, position = decode_long(view, position) if optional else (1, position)
        number, position = decode_long(view, position) if branch else (None, position)
        numbers.append(number)
    return numbers, position


def _inherit(entries: Iterator[Entry], manifest: ManifestFile, *, with_row_ids: bool) -> Iterator[Entry]:
    """See "Sequence Number Inheritance" and "First Row ID Inheritance" in Iceberg's specification."""
    row_id = manifest.first_row_id
    for entry in entries:
        first = entry.first_row_id
        if with_row_ids and first is None and row_id is not None:
            first, row_id = row_id, row_id + entry.record_count
        if entry.status == Status.DELETED:
            continue
        sequence = manifest.sequence_number if entry.sequence_number is None else entry.sequence_number
        own = manifest.sequence_number if entry.file_sequence_number is None else entry.file_sequence_number
        snapshot = manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        yield replace(
            entry, snapshot_id=snapshot, sequence_number=sequence, file_sequence_number=own, first_row_id=first
        )


def decode_entries(storage: StorageClient, manifest: ManifestFile) -> Iterator[dict[str, Any]]:
    """The entries of a manifest as written, by their names in Iceberg's specification. Maps of metrics are lists of
    keys and values. Raises `CorruptTableError`."""
    data = storage.read(manifest.path)
    try:
        header = decode_header(data)
        if header is None:
            raise ValueError("its header is cut off")
        yield from _records(data, header)
    except (ValueError, KeyError, IndexError, msgspec.MsgspecError) as error:
        raise CorruptTableError(f"the manifest cannot be read: {error}", path=manifest.path) from error


def _records(data: bytes, header: Header) -> Iterator[dict[str, Any]]:
    decode = decoder(header.schema)
    for count, block in decode_blocks(data, header):
        view, position = memoryview(block), 0
        for _ in range(count):
            record, position = decode(view, position)
            yield record


# The index


@dataclass(frozen=True)
class _Index:
    keys: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint32]
    members: list[tuple[Member, ...]]
    """For each entry."""

    @property
    def all_keys(self) -> npt.NDArray[np.uint64]:
        packed = [member.key for members in self.members for member in members]
        return np.concatenate([self.keys, np.array(packed, dtype=np.uint64)])


def _format_index(keys: list[int], lengths: list[int]) -> str:
    data = np.array(keys, dtype="<u8").tobytes() + np.array(lengths, dtype="<u4").tobytes()
    return base64.b64encode(data).decode()


def _parse_index(header: Header) -> _Index | None:
    text = header.metadata.get(_INDEX)
    if text is None:
        return None
    data = base64.b64decode(text)
    count = len(data) // 12
    members = _parse_members(header.metadata.get(_MEMBERS), count)
    return _Index(np.frombuffer(data, "<u8", count), np.frombuffer(data, "<u4", count, count * 8), members)


def _format_members(members: Sequence[tuple[Member, ...]]) -> str:
    """The number of members of each entry, then all members."""
    counts = np.array([len(found) for found in members], dtype="<u8").tobytes()
    numbers = np.array([member for found in members for member in found], dtype="<u8").tobytes()
    return base64.b64encode(counts + numbers).decode()


def _parse_members(text: str | None, entries: int) -> list[tuple[Member, ...]]:
    if text is None:
        return [()] * entries
    numbers = np.frombuffer(base64.b64decode(text), "<u8")
    members = iter([Member(*row) for row in numbers[entries:].reshape(-1, 3).tolist()])
    return [tuple(islice(members, count)) for count in numbers[:entries].tolist()]


def read_keys(storage: StorageClient, manifest: ManifestFile) -> tuple[npt.NDArray[np.uint64] | None, bytes]:
    """The hashes of a manifest's data files, None if it has no index, and the bytes read to find them: the first ones,
    or all if those are most of the file. Raises `CorruptTableError`."""
    entries = manifest.live_files_count + manifest.deleted_files_count
    expected = entries * _INDEX_BYTES + _BESIDES_INDEX
    data = storage.read(manifest.path, 0, expected if manifest.length > 2 * expected else None)
    try:
        header = decode_header(data)
        if header is None and len(data) < manifest.length:
            data += storage.read(manifest.path, len(data))
            header = decode_header(data)
        index = None if header is None else _parse_index(header)
    except ValueError as error:
        raise CorruptTableError(f"the manifest cannot be read: {error}", path=manifest.path) from error
    return None if index is None else index.all_keys, data
