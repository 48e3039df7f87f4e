"""The shape of a mirror, its schema and partition spec, and how it follows the Delta table's."""

from __future__ import annotations

from dataclasses import dataclass

from lakeport.iceberg.manifests.manifest import ManifestLayout, new_layout
from lakeport.iceberg.table.metadata import current_schema, known_ids
from lakeport.iceberg.table.partitions import Partitioning, check_spec_names, plan_spec
from lakeport.iceberg.table.schema import NAME_MAPPING, FieldIds, Json, convert_schema, format_name_mapping
from lakeport.kernel.snapshot import Snapshot


@dataclass(frozen=True)
class Shape:
    """Schema and partition spec of one version."""

    schema: Json
    """With its id, in the JSON of the metadata."""
    partitioning: Partitioning
    format_version: int

    def layout(self, content: int) -> ManifestLayout:
        return new_layout(content, self.format_version, self.partitioning, self.schema)


def plan_shape(metadata: Json, snapshot: Snapshot) -> tuple[Shape, list[Json]]:
    """The shape of a Delta version, and the updates that apply it to the mirror.

    Raises `ConversionError` if Iceberg cannot express it, and `FieldIdConflict`."""
    known, version = known_ids(metadata), metadata["format-version"]
    converted = convert_schema(snapshot.schema, snapshot.mapping_mode, known, version, snapshot.properties)
    fields = [_optional(field) if field["name"] in snapshot.partition_columns else field for field in converted.fields]
    schema, updates = _plan_schema(metadata, fields, converted.ids)
    by_name = {field["name"]: field for field in schema["fields"]}
    columns = [by_name[name] for name in snapshot.partition_columns]
    # A mirror that discarded its ids may have given those of a spec to other columns.
    spec = plan_spec(columns, metadata["partition-specs"], metadata["last-partition-id"], by_name=not known.by_path)
    check_spec_names(spec, schema["fields"])
    if spec not in metadata["partition-specs"]:
        updates.append({"action": "add-spec", "spec": spec})
    if spec["spec-id"] != metadata["default-spec-id"]:
        updates.append({"action": "set-default-spec", "spec-id": spec["spec-id"]})
    if converted.ids != known or NAME_MAPPING not in metadata["properties"]:
        mapping = format_name_mapping(converted.ids)
        updates.append({"action": "set-properties", "updates": {NAME_MAPPING: mapping}})
    types = tuple(column["type"] for column in columns)
    partitioning = Partitioning(spec, snapshot.partition_fields, snapshot.physical_partition_columns, types)
    return Shape(schema, partitioning, version), updates


def _optional(field: Json) -> Json:
    """pyiceberg rejects data files that lack a required column; all lack partition columns."""
    return field | {"required": False}


def _plan_schema(metadata: Json, fields: list[Json], ids: FieldIds) -> tuple[Json, list[Json]]:
    """The schema with these fields: the current one, an earlier one, or a new one."""
    candidates = [current_schema(metadata), *metadata["schemas"]]
    found = next((s for s in candidates if s is not None and s["fields"] == fields), None)
    updates: list[Json] = []
    if found is None:
        number = max((schema["schema-id"] for schema in metadata["schemas"]), default=-1) + 1
        found = {"type": "struct", "schema-id": number, "fields": fields}
        last = max(ids.last, metadata["last-column-id"])
        updates.append({"action": "add-schema", "schema": found, "last-column-id": last})
    if found["schema-id"] != metadata["current-schema-id"]:
        updates.append({"action": "set-current-schema", "schema-id": found["schema-id"]})
    return found, updates
