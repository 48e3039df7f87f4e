"""Table locations as storage expects them: Hadoop's URL schemes become those of the object stores."""

from __future__ import annotations

import os
import re
from typing import Any

from lakeport.errors import CatalogError
from lakeport.locations import cloud_of, file_path, parse_location
from lakeport.server.catalog.model import Table

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")  # a single letter is a drive


def normalize_location(text: str) -> str:
    """Normalise a location to an absolute path, `s3://`, `gs://`, `az://` or
    `abfss://container@account.dfs.core.windows.net/…`, without a trailing slash.

    Relative paths are resolved against the current directory. Raises `CatalogError` if no table can be there."""
    if not text.strip():
        raise CatalogError("a table needs a location: a path or a URL like s3://bucket/table")
    if (path := file_path(text)) is not None:
        return os.path.normpath(path)
    if not _URL.match(text):
        return os.path.abspath(os.path.expanduser(text))
    try:
        return str(parse_location(text))
    except ValueError as error:
        raise CatalogError(f"the location {text!r} {error}") from error


def table_roots(table: Table) -> list[str]:
    """The table's location and its auxiliary locations."""
    return [normalize_location(location) for location in (table.location, *table.auxiliary_locations)]


def shown_places(table: Table) -> dict[str, Any]:
    """A table's locations, by wire field name; only for recipients that may access them directly."""
    if "dir" not in table.access_modes:
        return {}
    return {
        "location": next(iter(_reachable(table.location)), None),
        "auxiliary_locations": _reachable(*table.auxiliary_locations),
    }


def _reachable(*locations: str) -> tuple[str, ...]:
    """Locations that are meaningful outside the server; local paths are not, and stay private."""
    return tuple(location for location in locations if cloud_of(location))
