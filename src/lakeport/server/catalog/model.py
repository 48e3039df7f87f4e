"""The values of a catalog. Names are compared without regard to case and shown as they were given."""

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
    """A Delta table under the name by which it is shared."""

    id: str
    """Unique and for ever: signed URLs and tokens carry it."""
    share: str
    schema: str
    name: str
    location: str
    history_shared: bool = False
    """Whether recipients may read older versions and changes."""
    start_version: int = 0
    """The first version that recipients may read."""
    auxiliary_locations: tuple[str, ...] = ()
    """Other places where files of the table may be."""
    access_modes: tuple[str, ...] = ("url",)
    """`url`: signed URLs; `dir`: temporary credentials for the locations."""
    storage: dict[str, str] = field(default_factory=dict, repr=False)
    """Options of the object store, by obstore's names; they come before those of the server."""

    def storage_options(self, server: Mapping[str, Any]) -> dict[str, Any]:
        """Its own options, and those of the server that it has not, with or without the prefix of a cloud."""
        own = {_without_cloud(name) for name in self.storage}
        return {name: value for name, value in server.items() if _without_cloud(name) not in own} | self.storage


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    digest: str
    """SHA-256 of the token, in hexadecimal digits; the token itself is not kept."""
    expires: int | None = None
    """Milliseconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    id: str
    name: str
    tokens: tuple[BearerToken, ...] = ()
    ip_allow_list: tuple[str, ...] = ()
    """Addresses and networks (CIDR) from which it may come; empty means anywhere."""
    grants: tuple[str, ...] = ()
    """What it may read: `share`, `share.schema` or `share.schema.table`; `*` is everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogContent:
    """The whole of a catalog at one moment."""

    shares: tuple[Share, ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()
    """Pairs of share and schema, those without tables included."""
    tables: tuple[Table, ...] = ()
    recipients: tuple[Recipient, ...] = ()
    anonymous: bool = False
    """Whether requests without a token may read everything."""


class CatalogSource(Protocol):
    """Where a catalog is kept. Its methods block; they may be called from any thread."""

    def generation(self) -> object:
        """Something that differs after every change of the content; None while it is being changed. Cheap: it is asked
        every second."""

    def load(self) -> CatalogContent:
        """Raises `CatalogError` for content that makes no sense."""

    def signing_key(self) -> bytes | None:
        """The secret that all servers on this catalog share, to sign tokens and URLs; None if it keeps none."""


def _without_cloud(name: str) -> str:
    """An option has several spellings."""
    lower = name.lower()
    found = _CLOUD.match(lower)
    return lower[found.end() :] if found else lower
