"""Table metadata: updates do what Iceberg's rules say, and what others wrote stays."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from lakeport.iceberg.table.metadata import (
    apply_updates,
    current_schema,
    current_snapshot,
    decode_metadata,
    encode_metadata,
    known_ids,
    mirrored_time,
    mirrored_version,
    new_metadata,
    snapshots_by_version,
    with_previous,
)
from lakeport.iceberg.table.schema import FieldIds, Json

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}]}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}]}


def snapshot(number: int, at: int, **more: Any) -> Json:
    found = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": at, "manifest-list": f"/l{number}"}
    return found | {"schema-id": 0, "summary": {"operation": "append", "lakeport.delta.version": str(number)}} | more


def add(found: Json) -> list[Json]:
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": found["snapshot-id"]}
    return [{"action": "add-snapshot", "snapshot": found}, ref]


def shaped(version: int = 2) -> Json:
    updates = [
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 7},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "add-spec", "spec": SPEC},
        {"action": "set-default-spec", "spec-id": 0},
    ]
    return apply_updates(new_metadata("/t", version), updates, 50)


@pytest.mark.parametrize("version", [2, 3])
def test_another_library_accepts_the_metadata(version: int) -> None:
    rows = {"first-row-id": 0, "added-rows": 5} if version == 3 else {}
    metadata = apply_updates(shaped(version), add(snapshot(1, 100, **rows)), 200)
    found = TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
    assert (found.format_version, found.last_column_id, found.last_partition_id) == (version, 7, 1000)
    assert (found.current_snapshot_id, found.last_sequence_number, found.last_updated_ms) == (1, 1, 200)
    assert metadata.get("next-row-id") == (5 if version == 3 else None)


def test_updates_leave_what_they_are_applied_to_alone() -> None:
    start = shaped() | {"statistics": ["of others"]}
    before = encode_metadata(start)
    changed = apply_updates(start, add(snapshot(1, 100)), 200)
    assert encode_metadata(start) == before
    assert changed["statistics"] == ["of others"]


def test_the_time_of_the_last_update_never_goes_back() -> None:
    metadata = apply_updates(shaped(), add(snapshot(1, 900)), 200)
    assert metadata["last-updated-ms"] == 900
    assert apply_updates(metadata, [], 100)["last-updated-ms"] == 900


def test_the_log_of_snapshots_ends_at_the_last_gap() -> None:
    metadata = shaped()
    for number in range(1, 6):
        metadata = apply_updates(metadata, add(snapshot(number, number * 10)), 0)
    changed = apply_updates(metadata, [{"action": "remove-snapshots", "snapshot-ids": [2, 3]}], 0)
    assert [s["snapshot-id"] for s in changed["snapshots"]] == [1, 4, 5]
    assert [entry["snapshot-id"] for entry in changed["snapshot-log"]] == [4, 5]
    assert set(snapshots_by_version(changed)) == {1, 4, 5}
    assert (current_snapshot(changed) or {})["snapshot-id"] == 5


def test_another_branch_does_not_become_current() -> None:
    metadata = apply_updates(shaped(), add(snapshot(1, 10)), 0)
    ref = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "tag", "snapshot-id": 1}
    changed = apply_updates(metadata, [ref], 0)
    assert changed["refs"]["audit"] == {"type": "tag", "snapshot-id": 1}
    assert len(changed["snapshot-log"]) == 1


def test_an_upgrade_begins_to_count_rows() -> None:
    changed = apply_updates(shaped(), [{"action": "upgrade-format-version", "format-version": 3}], 0)
    assert (changed["format-version"], changed["next-row-id"]) == (3, 0)


def test_properties_are_set_and_removed() -> None:
    changed = apply_updates(shaped(), [{"action": "set-properties", "updates": {"a": "1", "b": "2"}}], 0)
    assert apply_updates(changed, [{"action": "remove-properties", "removals": ["a", "c"]}], 0)["properties"] == {
        "b": "2"
    }


def test_a_table_without_anything_is_no_mirror() -> None:
    empty = new_metadata("/t", 2)
    assert (current_schema(empty), current_snapshot(empty), mirrored_version(empty)) == (None, None, None)
    assert known_ids(empty) == FieldIds()


@pytest.mark.parametrize(("text", "number"), [("17", 17), ("", None), ("-1", None), ("²", None), ("1e3", None)])
def test_versions_and_times_that_are_no_numbers_are_none(text: str, number: int | None) -> None:
    shown = snapshot(1, 10) | {"summary": {"lakeport.delta.timestamp": text}}
    metadata = apply_updates(shaped(), add(shown), 0) | {"properties": {"lakeport.delta.version": text}}
    assert (mirrored_version(metadata), mirrored_time(metadata)) == (number, number)


def test_the_predecessor_is_logged_and_the_log_stays_short() -> None:
    metadata = shaped()
    for number in range(150):
        metadata = with_previous(metadata, metadata, f"/v{number}")
    assert [entry["metadata-file"] for entry in metadata["metadata-log"]] == [f"/v{n}" for n in range(50, 150)]
    assert with_previous(metadata, None, None) is metadata


@pytest.mark.parametrize("data", [b"{", b"[]", b"{}"])
def test_what_is_no_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="it is not"):
        decode_metadata(data)
