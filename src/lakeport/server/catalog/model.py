"""The values of a catalog. Names are case-insensitive and keep their spelling; locations are normalised for storage:
Hadoop's URL schemes become those of the object stores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakeport.errors import CatalogError
from lakeport.locations import cloud_of, file_path, parse_location

_CLOUD = re.compile(r"aws_|azure_storage_|azure_|google_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    id: str
    name: str
    display_name: str | None = None
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table and the name under which it is shared."""

    id: str
    """Unique and permanent: signed URLs and tokens contain it."""
    share: str
    schema: str
    name: str
    location: str
    history_shared: bool = False
    """Whether recipients may read older versions and changes."""
    start_version: int = 0
    """The first version that recipients may read."""
    auxiliary_locations: tuple[str, ...] = ()
    """Other locations that may hold files of the table."""
    access_modes: tuple[str, ...] = ("url",)
    """`url`: signed URLs; `dir`: temporary credentials for the locations."""
    storage: dict[str, str] = field(default_factory=dict, repr=False)
    """Object store options, by obstore's names; they override the server's."""

    def storage_options(self, server: Mapping[str, Any]) -> dict[str, Any]:
        """The table's options, plus the server's where the table has none, with or without a cloud prefix."""
        own = {_without_cloud(name) for name in self.storage}
        return {name: value for name, value in server.items() if _without_cloud(name) not in own} | self.storage


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    digest: str
    """SHA-256 of the token, in hex; the token itself is not stored."""
    expires: int | None = None
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    id: str
    name: str
    tokens: tuple[BearerToken, ...] = ()
    ip_allow_list: tuple[str, ...] = ()
    """Addresses and networks (CIDR) it may connect from; empty means anywhere."""
    grants: tuple[str, ...] = ()
    """`share`, `share.schema` or `share.schema.table`; `*` is everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContent:
    """The whole catalog at one moment."""

    shares: tuple[Share, ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()
    """Pairs of share and schema, including schemas without tables."""
    tables: tuple[Table, ...] = ()
    recipients: tuple[Recipient, ...] = ()
    anonymous: bool = False
    """Whether requests without a token may read everything."""


class CatalogSource(Protocol):
    """Where a catalog is stored. Methods block and are thread-safe."""

    def generation(self) -> object:
        """A value that differs after every change; None while a change is in progress. Cheap: polled every second."""

    def load(self) -> CatalogContent:
        """Raises `CatalogError` for invalid content."""

    def signing_key(self) -> bytes | None:
        """The secret with which all servers of this catalog sign tokens and URLs; None if it stores none."""

    def close(self) -> None:
        """Release the source, which is not used any more."""


def _without_cloud(name: str) -> str:
    """Options have several spellings."""
    lower = name.lower()
    found = _CLOUD.match(lower)
    return lower[found.end() :] if found else lower


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
