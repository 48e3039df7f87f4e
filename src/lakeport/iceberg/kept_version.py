"""What a mirror keeps of the version that it shows, in a property: the next conversion begins with it, and reads of the
Delta table only what is newer."""

from __future__ import annotations

import msgspec

from lakeport.errors import CorruptTableError, VersionNotFoundError
from lakeport.iceberg.metadata import DELTA_LOCATION, mirrored_version
from lakeport.iceberg.schema import Json
from lakeport.kernel.actions import Metadata, Protocol
from lakeport.kernel.log import find_segment
from lakeport.kernel.replay import LogReplay
from lakeport.kernel.snapshot import Snapshot, Table

KEPT_VERSION = "lakeport.delta.state"


class OtherHistoryError(Exception):
    """The version that a mirror shows has another commit than the one that was mirrored, or none any more: the files of
    the mirror need not be those of the table at that version."""


class _Kept(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A version of a Delta table. Its commit is known again by its size and time: where they are others, another table
    stands in the place of that one, or the same one with another history, as after it came back from a backup."""

    version: int
    protocol: Protocol
    metadata: Metadata
    commit_size: int
    commit_time: int


def format_kept(snapshot: Snapshot) -> str:
    """The text to keep of a version."""
    commit = snapshot.segment.latest_file
    kept = _Kept(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        commit_size=commit.size,
        commit_time=commit.modification_time,
    )
    return msgspec.json.encode(kept).decode()


def open_kept(table: Table, mirror: Json) -> Snapshot | None:
    """The version of a table that its mirror, of which this is the metadata, shows: from what the mirror keeps of it.
    Of the log, only what files there are is looked at. None if nothing is kept of it, or if the table does not have it.

    Raises `OtherHistoryError` and `UnsupportedFeatureError`."""
    version, properties = mirrored_version(mirror), mirror.get("properties", {})
    kept = _parse(properties.get(KEPT_VERSION))
    if kept is None or kept.version != version or properties.get(DELTA_LOCATION) != table.root or not kept.commit_time:
        return None
    try:
        segment = find_segment(table.engine.storage, table.root, kept.version)
    except (VersionNotFoundError, CorruptTableError):
        return None
    commit = segment.latest_file
    if (commit.size, commit.modification_time) != (kept.commit_size, kept.commit_time):
        raise OtherHistoryError
    return Snapshot(
        table.engine, table.root, LogReplay(table.engine, table.root, segment), kept.protocol, kept.metadata
    )


def _parse(text: str | None) -> _Kept | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=_Kept)
    except msgspec.MsgspecError:
        return None
