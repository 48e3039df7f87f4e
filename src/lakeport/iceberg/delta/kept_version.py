"""The version that a mirror shows, kept in its properties. The next conversion starts from `KEPT_VERSION`, and reads
only newer parts of the Delta log. The other properties are for readers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec

from lakeport.errors import CorruptTableError, MissingFileError, VersionNotFoundError
from lakeport.iceberg.table.metadata import DELTA_LOCATION, DELTA_TABLE_ID, DELTA_VERSION, mirrored_version
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.engine import Engine, FileStatus
from lakeport.kernel.log import LogReplay, find_segment
from lakeport.kernel.snapshot import Snapshot, Table

KEPT_VERSION = "lakeport.delta.state"
_PROPERTY = "lakeport.delta.property."
"""Prefix for the Delta table's properties: their names may mean something else to Iceberg's libraries."""
_COMMENT = "comment"
"""Spark shows this as the comment on an Iceberg table."""
_HEAD_BYTES = 4096


class OtherHistoryError(Exception):
    """The mirrored commit was replaced or is gone: the mirror's files may differ from the table's at that version."""


class _Kept(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A version of a Delta table. Its commit is recognized by size, time and first bytes: if they differ, the table was
    replaced, or its history was, for example by restoring a backup."""

    version: int
    protocol: Protocol
    metadata: Metadata
    commit_size: int
    commit_time: int
    commit_head: int


def property_updates(properties: Mapping[str, str], snapshot: Snapshot) -> list[Json]:
    """The updates that set a mirror's properties to this version."""
    wanted = {
        DELTA_VERSION: str(snapshot.version),
        DELTA_TABLE_ID: snapshot.metadata.id,
        DELTA_LOCATION: snapshot.root,
        KEPT_VERSION: format_kept(snapshot),
        **{_PROPERTY + name: text for name, text in snapshot.properties.items() if text is not None},
        **({_COMMENT: snapshot.metadata.description} if snapshot.metadata.description else {}),
    }
    former = {name for name in properties if name.startswith(_PROPERTY) or name == _COMMENT}
    updates: list[Json] = [{"action": "set-properties", "updates": wanted}]
    if removals := sorted(former - wanted.keys()):
        updates.append({"action": "remove-properties", "removals": removals})
    return updates


def format_kept(snapshot: Snapshot) -> str:
    """The text to keep of a version, after its checksum; empty if the commit is already gone."""
    commit = snapshot.segment.latest_file
    try:
        head = _checksum_of_head(snapshot.engine, commit)
    except MissingFileError:
        return ""
    kept = _Kept(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        commit_size=commit.size,
        commit_time=commit.modification_time,
        commit_head=head,
    )
    data = msgspec.json.encode(kept)
    return f"{zlib.crc32(data):08x}{data.decode()}"


def open_kept(table: Table, mirror: Json) -> Snapshot | None:
    """The table version that a mirror shows, from the mirror's metadata. Of the log, only the file listing and the
    first bytes of the version's commit are read. None if nothing valid is kept, or if the table does not have the
    version.

    Raises `OtherHistoryError` and `UnsupportedFeatureError`."""
    version, properties = mirrored_version(mirror), mirror.get("properties", {})
    kept = _parse(properties.get(KEPT_VERSION))
    if kept is None or kept.version != version or properties.get(DELTA_LOCATION) != table.root or not kept.commit_time:
        return None
    try:
        segment = find_segment(table.engine.storage, table.root, kept.version)
        head = _checksum_of_head(table.engine, segment.latest_file)
    except (VersionNotFoundError, CorruptTableError, MissingFileError):
        return None
    commit = segment.latest_file
    found = (commit.size, commit.modification_time, head)
    if found != (kept.commit_size, kept.commit_time, kept.commit_head):
        raise OtherHistoryError
    return Snapshot(
        table.engine, table.root, LogReplay(table.engine, table.root, segment), kept.protocol, kept.metadata
    )


def _checksum_of_head(engine: Engine, file: FileStatus) -> int:
    return zlib.crc32(engine.storage.read(file.path, 0, _HEAD_BYTES))


def _parse(text: str | None) -> _Kept | None:
    checksum, data = (text or "")[:8], (text or "")[8:].encode(errors="replace")
    if checksum != f"{zlib.crc32(data):08x}":  # damaged or edited
        return None
    try:
        return msgspec.json.decode(data, type=_Kept)
    except msgspec.MsgspecError:  # from another release
        return None
