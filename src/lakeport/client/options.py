"""What a recipient can choose about reading shared tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, TypedDict

from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import USER_AGENT, HttpOptions
from lakeport.client.http.retrying import RetryOptions
from lakeport.client.rest.pages import FORMATS
from lakeport.client.tables.file_cache import DEFAULT_LIMIT, FileCache

AccessMode = Literal["url", "dir"]


class ClientChoices(TypedDict, total=False):
    """The fields of `ClientOptions`, all of which can be left out."""

    access: AccessMode | None
    storage_options: Mapping[str, Any]
    formats: tuple[str, ...]
    caller_org: str | None
    proxy: str | None
    ca_file: str | None
    connect_seconds: float
    read_seconds: float
    cache: str | PathLike[str] | None
    cache_bytes: int
    retries: int
    total_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Raises `ValueError` for an access mode that there is not, or that has no cache."""

    access: AccessMode | None = None
    """`url`: files by signed URLs. `dir`: the table's own directory, by temporary credentials. None takes what the
    provider offers, and signed URLs if both are."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Obstore's, for the storage that a directory is in: `region`, `endpoint` …"""
    formats: tuple[str, ...] = FORMATS
    """In which the server may answer about tables; it chooses."""
    caller_org: str | None = None
    """Who is asking, for the provider's logs; told in the User-Agent."""
    proxy: str | None = None
    """The URL of a proxy; None takes what the environment says (HTTPS_PROXY, NO_PROXY …)."""
    ca_file: str | None = None
    """A file of certificates, in PEM, that are trusted beside those of the system."""
    connect_seconds: float = 15.0
    read_seconds: float = 60.0
    """The longest time without a single byte."""
    cache: str | PathLike[str] | None = None
    """A directory where contents of files are kept, so that they are fetched only once, by signed URLs. What is read in
    a table's own directory is not kept: there is nothing that tells a file from another one that took its place."""
    cache_bytes: int = DEFAULT_LIMIT
    """As much is kept, at most."""
    retries: int = 8
    """How often a request is tried again."""
    total_seconds: float = 300.0
    """For how long it is."""

    def __post_init__(self) -> None:
        if self.access not in ("url", "dir", None):
            raise ValueError(f"{self.access!r} is no access mode: there are 'url' and 'dir'")
        if self.access == "dir" and self.cache is not None:
            raise ValueError("what is read in a table's own directory is not cached: leave out cache, or access='dir'")

    def open_cache(self) -> FileCache | None:
        return None if self.cache is None else FileCache(self.cache, self.cache_bytes)

    @property
    def http(self) -> HttpOptions:
        connections = ConnectionOptions(
            proxy=self.proxy,
            ca_file=self.ca_file,
            connect_seconds=self.connect_seconds,
            read_seconds=self.read_seconds,
        )
        retries = RetryOptions(retries=self.retries, total_seconds=self.total_seconds)
        caller = "" if self.caller_org is None else f" callerOrg-{self.caller_org}"
        return HttpOptions(connections=connections, retries=retries, user_agent=USER_AGENT + caller)
