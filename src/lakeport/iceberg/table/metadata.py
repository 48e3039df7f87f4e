"""Table metadata, and its changes: the updates of Iceberg's REST protocol, which catalogs accept as they are.

Metadata is the JSON of Iceberg's specification, as an immutable dict: an update returns a new one. Unknown fields are
preserved.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from lakeport.iceberg.table.partitions import FIRST_PARTITION_ID
from lakeport.iceberg.table.schema import NAME_MAPPING, FieldIds, Json, parse_name_mapping

MAIN = "main"
DELTA_VERSION = "lakeport.delta.version"
"""The Delta version that the mirror, or a snapshot of it, shows."""
DELTA_TIMESTAMP = "lakeport.delta.timestamp"
DELTA_OPERATION = "lakeport.delta.operation"
"""The version's time, in milliseconds since the epoch, and its operation: in snapshot summaries."""
DELTA_TABLE_ID = "lakeport.delta.table-id"
DELTA_LOCATION = "lakeport.delta.location"
"""The location of the mirrored table."""
_LOG_LENGTH = 100


def new_metadata(location: str, format_version: int) -> Json:
    """A table without schema, spec or snapshot: the base for updates."""
    metadata: Json = {
        "format-version": format_version,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": -1,
        "schemas": [],
        "default-spec-id": -1,
        "partition-specs": [],
        "last-partition-id": FIRST_PARTITION_ID - 1,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "refs": {},
        "snapshot-log": [],
        "metadata-log": [],
    }
    return metadata | ({"next-row-id": 0} if format_version >= 3 else {})


def current_schema(metadata: Json) -> Json | None:
    return _by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])


def current_snapshot(metadata: Json) -> Json | None:
    return _by_id(metadata.get("snapshots") or [], "snapshot-id", metadata.get("current-snapshot-id"))


def _by_id(items: Iterable[Json], key: str, number: Any) -> Json | None:
    return next((item for item in items if item[key] == number), None)


def known_ids(metadata: Json) -> FieldIds:
    """The field ids assigned so far."""
    return parse_name_mapping(metadata["properties"].get(NAME_MAPPING))


def mirrored_version(metadata: Json) -> int | None:
    """The Delta version that the mirror shows; None if it is not a mirror."""
    text = metadata.get("properties", {}).get(DELTA_VERSION)
    return int(text) if text is not None and text.isdecimal() else None


def version_of(snapshot: Json) -> int | None:
    """The Delta version that a snapshot shows; None if Lakeport did not write it."""
    text = snapshot.get("summary", {}).get(DELTA_VERSION)
    return int(text) if text is not None and text.isdecimal() else None


def mirrored_time(metadata: Json) -> int | None:
    """When the current snapshot's version was made, according to the mirror, in milliseconds since the epoch."""
    text = (current_snapshot(metadata) or {}).get("summary", {}).get(DELTA_TIMESTAMP)
    return int(text) if text is not None and text.isdecimal() else None


def is_in_step(metadata: Json) -> bool:
    """Whether the current snapshot shows the version that the mirror claims. It does not after somebody else has
    written to the mirror or rolled it back."""
    snapshot = current_snapshot(metadata)
    return snapshot is not None and version_of(snapshot) == mirrored_version(metadata)


def snapshots_by_version(metadata: Json) -> dict[int, Json]:
    """The snapshots of a mirror by Delta version; the last one for each version."""
    snapshots = ((version_of(snapshot), snapshot) for snapshot in metadata.get("snapshots") or ())
    return {version: snapshot for version, snapshot in snapshots if version is not None}


# Updates


def forget_history(metadata: Json, location: str) -> list[Json]:
    """The updates that remove all snapshots and column ids of a table, to start over at `location`."""
    updates: list[Json] = [{"action": "remove-properties", "removals": [NAME_MAPPING]}]
    if snapshots := metadata.get("snapshots"):
        updates.append({"action": "remove-snapshots", "snapshot-ids": [s["snapshot-id"] for s in snapshots]})
    if metadata["location"] != location:
        updates.append({"action": "set-location", "location": location})
    return updates


def apply_updates(metadata: Json, updates: Iterable[Json], now: int) -> Json:
    """The metadata after updates, following Iceberg's rules."""
    changed = dict(metadata)
    for update in updates:
        changed |= _APPLY[update["action"]](changed, update)
    return changed | {"last-updated-ms": max(now, metadata["last-updated-ms"], _latest_time(changed))}


def _latest_time(metadata: Json) -> int:
    log = metadata.get("snapshot-log") or []
    return log[-1]["timestamp-ms"] if log else 0


def _upgrade(metadata: Json, update: Json) -> Json:
    version = update["format-version"]
    if version < 3 or metadata["format-version"] >= 3:
        return {"format-version": version}
    return {"format-version": version, "next-row-id": 0}


def _add_schema(metadata: Json, update: Json) -> Json:
    last = max(metadata["last-column-id"], update["last-column-id"])
    return {"schemas": [*metadata["schemas"], update["schema"]], "last-column-id": last}


def _add_spec(metadata: Json, update: Json) -> Json:
    given = [field["field-id"] for field in update["spec"]["fields"]]
    return {
        "partition-specs": [*metadata["partition-specs"], update["spec"]],
        "last-partition-id": max([metadata["last-partition-id"], *given]),
    }


def _add_snapshot(metadata: Json, update: Json) -> Json:
    snapshot = update["snapshot"]
    changed: Json = {
        "snapshots": [*(metadata.get("snapshots") or ()), snapshot],
        "last-sequence-number": snapshot["sequence-number"],
    }
    if "next-row-id" in metadata:
        changed["next-row-id"] = metadata["next-row-id"] + snapshot["added-rows"]
    return changed


def _set_ref(metadata: Json, update: Json) -> Json:
    ref = {name: value for name, value in update.items() if name not in ("action", "ref-name")}
    refs = {**metadata.get("refs", {}), update["ref-name"]: ref}
    if update["ref-name"] != MAIN:
        return {"refs": refs}
    number = update["snapshot-id"]
    snapshot = _by_id(metadata["snapshots"], "snapshot-id", number)
    assert snapshot is not None
    entry = {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": number}
    return {"refs": refs, "current-snapshot-id": number, "snapshot-log": [*metadata.get("snapshot-log", ()), entry]}


def _remove_snapshots(metadata: Json, update: Json) -> Json:
    gone = set(update["snapshot-ids"])
    log = metadata.get("snapshot-log") or []
    # Entries before a gap may not have been current: see "snapshot-log" in Iceberg's specification.
    last_gap = max((i for i, entry in enumerate(log) if entry["snapshot-id"] in gone), default=-1)
    return {
        "current-snapshot-id": None if metadata.get("current-snapshot-id") in gone else metadata["current-snapshot-id"],
        "snapshots": [s for s in metadata["snapshots"] if s["snapshot-id"] not in gone],
        "snapshot-log": log[last_gap + 1 :],
        "refs": {name: ref for name, ref in metadata.get("refs", {}).items() if ref["snapshot-id"] not in gone},
    }


def _set_properties(metadata: Json, update: Json) -> Json:
    return {"properties": {**metadata["properties"], **update["updates"]}}


def _remove_properties(metadata: Json, update: Json) -> Json:
    removals = set(update["removals"])
    return {"properties": {name: text for name, text in metadata["properties"].items() if name not in removals}}


_APPLY: Mapping[str, Callable[[Json, Json], Json]] = {
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": lambda _, update: {"current-schema-id": update["schema-id"]},
    "add-spec": _add_spec,
    "set-default-spec": lambda _, update: {"default-spec-id": update["spec-id"]},
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshots": _remove_snapshots,
    "set-location": lambda _, update: {"location": update["location"]},
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
}


def with_previous(metadata: Json, previous: Json | None, location: str | None) -> Json:
    """The metadata with its predecessor, the file at `location`, added to its log."""
    if previous is None or location is None:
        return metadata
    entry = {"timestamp-ms": previous["last-updated-ms"], "metadata-file": location}
    return metadata | {"metadata-log": [*metadata.get("metadata-log", ()), entry][-_LOG_LENGTH:]}


def encode_metadata(metadata: Json) -> bytes:
    return msgspec.json.encode(metadata)


def decode_metadata(data: bytes) -> Json:
    """Raises `ValueError` if it is not table metadata."""
    try:
        metadata = msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(metadata, dict) or "format-version" not in metadata or "table-uuid" not in metadata:
        raise ValueError("it is not the metadata of an Iceberg table")
    return metadata
