"""Manifest lists: the manifests of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lakeport.errors import CorruptTableError
from lakeport.iceberg.avro import Schema, decode_records, encode_file, encoder
from lakeport.kernel.engine import StorageClient

DATA, DELETES = 0, 1
"""The content of a manifest."""


class ManifestFile(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest, as described in a manifest list; names follow Iceberg's specification, except `path` and `length`."""

    path: str = msgspec.field(name="manifest_path")
    length: int = msgspec.field(name="manifest_length")
    partition_spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files_count: int
    existing_files_count: int
    deleted_files_count: int
    added_rows_count: int
    existing_rows_count: int
    deleted_rows_count: int
    partitions: list[dict[str, Any]] | None = None
    first_row_id: int | None = None

    @property
    def live_files_count(self) -> int:
        return self.added_files_count + self.existing_files_count

    @property
    def live_rows_count(self) -> int:
        return self.added_rows_count + self.existing_rows_count


def encode_manifest_list(
    manifests: Sequence[ManifestFile],
    format_version: int,
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
) -> bytes:
    schema = _schema(format_version)
    encode = encoder(schema)
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
        "format-version": str(format_version),
    }
    if first_row_id is not None:
        metadata["first-row-id"] = str(first_row_id)
    return encode_file(schema, metadata, [encode(msgspec.to_builtins(m, builtin_types=(bytes,))) for m in manifests])


def read_manifest_list(storage: StorageClient, path: str) -> list[ManifestFile]:
    """The manifests of a snapshot. Raises `CorruptTableError`."""
    data = storage.read(path)
    try:
        return [msgspec.convert(record, ManifestFile) for record in decode_records(data)]
    except (ValueError, KeyError, IndexError, msgspec.MsgspecError) as error:
        raise CorruptTableError(f"the manifest list cannot be read: {error}", path=path) from error


def _schema(format_version: int) -> Schema:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            {"name": "contains_null", "type": "boolean", "field-id": 509},
            {"name": "contains_nan", "type": ["null", "boolean"], "default": None, "field-id": 518},
            {"name": "lower_bound", "type": ["null", "bytes"], "default": None, "field-id": 510},
            {"name": "upper_bound", "type": ["null", "bytes"], "default": None, "field-id": 511},
        ],
    }
    partitions = {"type": "array", "items": summary, "element-id": 508}
    fields = [{"name": name, "type": kind, "field-id": number} for name, number, kind in _REQUIRED]
    fields.append({"name": "partitions", "type": ["null", partitions], "default": None, "field-id": 507})
    if format_version >= 3:
        fields.append({"name": "first_row_id", "type": ["null", "long"], "default": None, "field-id": 520})
    return {"type": "record", "name": "manifest_file", "fields": fields}


_REQUIRED = (
    ("manifest_path", 500, "string"),
    ("manifest_length", 501, "long"),
    ("partition_spec_id", 502, "int"),
    ("content", 517, "int"),
    ("sequence_number", 515, "long"),
    ("min_sequence_number", 516, "long"),
    ("added_snapshot_id", 503, "long"),
    ("added_files_count", 504, "int"),
    ("existing_files_count", 505, "int"),
    ("deleted_files_count", 506, "int"),
    ("added_rows_count", 512, "long"),
    ("existing_rows_count", 513, "long"),
    ("deleted_rows_count", 514, "long"),
)
