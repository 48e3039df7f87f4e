"""The Avro schema of manifests. See "Manifests" in Iceberg's specification.

Readers find fields by id, so their order is free: those that change between snapshots come first.
"""

from __future__ import annotations

from typing import Any

from lakeport.iceberg.encoding.avro import Schema
from lakeport.iceberg.manifests.manifest_list import DATA, DELETES
from lakeport.iceberg.table.schema import Json


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
