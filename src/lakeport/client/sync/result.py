"""The outcome of a sync, or of a dry run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], object]
"""Called now and then with the bytes copied and the total."""


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """`version` is the copy's; -1 if there is no copy, as before the first sync in a dry run."""

    version: int
    source_version: int
    """The version of the shared table that the copy has, or would have."""
    commits: int = 0
    """The number of versions added to the copy."""
    added_files: int = 0
    removed_files: int = 0
    """No longer in the table; their bytes stay until a vacuum, for older versions."""
    fetched_files: int = 0
    """Data files, of rows and changes, that were not present already."""
    fetched_bytes: int = 0
    verified_files: int | None = None
    """The number of data files found equal to those of the share."""
    dry_run: bool = False
