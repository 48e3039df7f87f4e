"""Where tables are, as the storage takes it: the schemes of Hadoop's file systems become those of the object stores."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from lakeport.errors import CatalogError
from lakeport.server.catalog.model import Table

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):")  # one letter would be a drive
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "adl": "az"}
_BLOBS = {"wasb", "wasbs", "abfs", "abfss"}
_ACCOUNT = re.compile(r"([^/@]+)@([^./@]+)\.(?:blob|dfs)\.([^/@]+)")
_OWNED = ("core.windows.net", "fabric.microsoft.com")


def parse_location(text: str) -> str:
    """A location without a slash at its end: an absolute path, `s3://`, `gs://`, `az://` or
    `abfss://container@account.dfs.core.windows.net/…`.

    A relative path is one below the current directory. Raises `CatalogError` for a place where no table can be."""
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
    """Where a table is, by the names of the wire's fields: only for recipients that may go there themselves."""
    if "dir" not in table.access_modes:
        return {}
    return {
        "location": next(iter(_reachable(table.location)), None),
        "auxiliary_locations": _reachable(*table.auxiliary_locations),
    }


def _reachable(*locations: str) -> tuple[str, ...]:
    """Those that mean something outside of the server: a path on its disks does not, and is nobody else's business."""
    return tuple(location for location in locations if "://" in location and not location.startswith("file:"))


def _azure(rest: str, text: str) -> str:
    """`container@account.dfs.core.windows.net/…`: the only host by which the storage knows an account."""
    authority, slash, path = rest.partition("/")
    account = _ACCOUNT.fullmatch(authority)
    if account is None or account[3].lower() not in _OWNED:
        raise CatalogError(
            f"the location {text!r} names no account: write it like abfss://container@account.dfs.core.windows.net/table"
        )
    return f"{account[1]}@{account[2]}.dfs.{account[3].lower()}{slash}{path}"
