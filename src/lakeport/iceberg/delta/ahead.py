"""What lies ahead of a mirror: the latest version of its table, and whether and how the mirror can follow to it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lakeport.iceberg.delta.kept_version import OtherHistoryError, open_kept
from lakeport.iceberg.delta.source import Increment, LogTruncatedError
from lakeport.iceberg.table.metadata import is_in_step, mirrored_time
from lakeport.iceberg.table.schema import Json
from lakeport.kernel.definition import is_catalog_managed
from lakeport.kernel.snapshot import Snapshot, Table


@dataclass(frozen=True)
class Ahead:
    latest: Snapshot
    increment: Increment | None = None
    """What is new, if that can be told from the new commits and what the mirror keeps."""
    is_followed: bool = True
    """False if the mirror is known not to show what the table was at the version that it is said to show: then new
    commits must not be put on top of it."""


def look_ahead(table: Table, mirror: Json) -> Ahead:
    """`mirror` is the metadata of a mirror. Raises what `Table.latest_snapshot` raises."""
    if not is_in_step(mirror):
        return Ahead(table.latest_snapshot(), is_followed=False)
    try:
        kept = open_kept(table, mirror)
    except OtherHistoryError:
        return Ahead(table.latest_snapshot(), is_followed=False)
    if kept is not None:
        with suppress(LogTruncatedError):
            increment = Increment(kept, mirrored_time(mirror))
            latest = increment.read_latest()
            if latest is not None and not is_catalog_managed(latest.protocol):
                return Ahead(latest, increment)
    return Ahead(table.latest_snapshot())
