"""What a sync did, or would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], object]
"""Told now and then how many bytes are copied, and of how many."""


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """`version` is the copy's; it is -1 if there is none, as before the first sync in a dry run."""

    version: int
    source_version: int
    """The version of the shared table that the copy has, or would have."""
    commits: int = 0
    """How many versions the copy got."""
    added_files: int = 0
    removed_files: int = 0
    """They are no longer in the table; their bytes stay until a vacuum, for the versions before."""
    fetched_files: int = 0
    """Data files, of rows and of changes, that were not there already."""
    fetched_bytes: int = 0
    verified_files: int | None = None
    """How many data files were compared with those of the share, and found equal."""
    dry_run: bool = False
