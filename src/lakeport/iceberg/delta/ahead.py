"""The latest version of a mirrored table, and whether and how the mirror can follow to it."""

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
    """The new commits, if these and the mirror's kept state suffice."""
    is_followed: bool = True
    """False if the table's history has changed: its commits must not be applied to the mirror."""


def look_ahead(table: Table, mirror: Json) -> Ahead:
    """`mirror` is the mirror's metadata. Raises like `Table.latest_snapshot`."""
    if not is_in_step(mirror):
        return Ahead(table.latest_snapshot())
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
