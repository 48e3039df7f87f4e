"""The values of a catalog. Names are case-insensitive and keep their spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

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
