"""What a mirror keeps of the version that it shows, in its properties. With `KEPT_VERSION` the next conversion begins,
and reads of the Delta table only what is newer; the others are for readers."""

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
"""Before the name of a property of the Delta table: to Iceberg's libraries it may mean something else, or nothing."""
_COMMENT = "comment"
"""What Spark shows as the comment on an Iceberg table."""
_HEAD_BYTES = 4096


class OtherHistoryError(Exception):
    """The version that a mirror shows has another commit than the one that was mirrored, or none any more: the files of
    the mirror need not be those of the table at that version."""


class _Kept(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A version of a Delta table. Its commit is known again by its size, its time and its first bytes: where they are
    others, another table stands in the place of that one, or the same one with another history, as after it came back
    from a backup."""

    version: int
    protocol: Protocol
    metadata: Metadata
    commit_size: int
    commit_time: int
    commit_head: int


def property_updates(properties: Mapping[str, str], snapshot: Snapshot) -> list[Json]:
    """The updates after which the properties of a mirror are about this version."""
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
    """The text to keep of a version, after its checksum; empty if the commit is gone already."""
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
    """The version of a table that its mirror, of which this is the metadata, shows: from what the mirror keeps of it.
    Of the log, only what files there are is looked at, and how the version's commit begins. None if nothing is kept of
    it, or not what was written, or if the table does not have it.

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
    if checksum != f"{zlib.crc32(data):08x}":  # damaged, or changed by hand
        return None
    try:
        return msgspec.json.decode(data, type=_Kept)
    except msgspec.MsgspecError:  # of another release
        return None
