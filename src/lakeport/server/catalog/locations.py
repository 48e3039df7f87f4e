"""Table locations as storage expects them: Hadoop's URL schemes become those of the object stores."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from lakeport.errors import CatalogError
from lakeport.server.catalog.model import Table

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")  # a single letter is a drive
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "adl": "az"}
_BLOBS = {"wasb", "wasbs", "abfs", "abfss"}
_ACCOUNT = re.compile(r"([^/@]+)@([^./@]+)\.(?:blob|dfs)\.([^/@]+)")
_OWNED = ("core.windows.net", "fabric.microsoft.com")


def parse_location(text: str) -> str:
    """Normalise a location to an absolute path, `s3://`, `gs://`, `az://` or
    `abfss://container@account.dfs.core.windows.net/…`, without a trailing slash.

    Relative paths are resolved against the current directory. Raises `CatalogError` if no table can be there."""
    if not text.strip():
        raise CatalogError("a table needs a location: a path or a URL like s3://bucket/table")
    if _FILE.match(text):
        return os.path.normpath(unquote(_FILE.sub("", text)))
    if not (scheme := _URL.match(text)):
        return os.path.abspath(os.path.expanduser(text))
    name, rest = scheme[1].lower(), text[scheme.end() :].strip("/")
    if not text[scheme.end() :].startswith("//") or not rest:
        raise CatalogError(f"the location {text!r} names no bucket or container: write it like {name}://bucket/table")
    if name in _STORES:
        return f"{_STORES[name]}://{rest}"
    if name in _BLOBS:
        return f"abfss://{_azure(rest, text)}"
    raise CatalogError(f"the location {text!r} has a scheme that is not known: it may be s3, gs, abfss, az or file")


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
    return tuple(location for location in locations if "://" in location and not location.startswith("file:"))


def _azure(rest: str, text: str) -> str:
    """`container@account.dfs.core.windows.net/…`: the only host that storage accepts for an account."""
    authority, slash, path = rest.partition("/")
    account = _ACCOUNT.fullmatch(authority)
    if account is None or account[3].lower() not in _OWNED:
        raise CatalogError(
            f"the location {text!r} names no account: write it like abfss://container@account.dfs.core.windows.net/table"
        )
    return f"{account[1]}@{account[2]}.dfs.{account[3].lower()}{slash}{path}"
