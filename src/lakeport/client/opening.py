"""Open shared tables, with a recipient's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal, TypedDict

from lakeport.client.auth.profiles import GivenProfile, open_profile
from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import USER_AGENT, HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions
from lakeport.client.rest.pages import FORMATS
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DirectoryTable
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.file_cache import DEFAULT_LIMIT, FileCache
from lakeport.client.tables.offered import OfferedTable
from lakeport.sharing.names import TableName
from lakeport.source import TableSource

AccessMode = Literal["url", "dir"]


class ClientChoices(TypedDict, total=False):
    """The fields of `ClientOptions`, all optional."""

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
    """Raises `ValueError` for an unknown access mode, or one that does not support the cache."""

    access: AccessMode | None = None
    """`url`: files by signed URLs. `dir`: the table's own directory, with temporary credentials. None uses what the
    provider offers, preferring signed URLs."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Obstore's, for the storage of a directory: `region`, `endpoint` …"""
    formats: tuple[str, ...] = FORMATS
    """Response formats that the server may choose from."""
    caller_org: str | None = None
    """The caller's organization, for the provider's logs; sent in the User-Agent."""
    proxy: str | None = None
    """The URL of a proxy; None uses the environment (HTTPS_PROXY, NO_PROXY …)."""
    ca_file: str | None = None
    """A PEM file of certificates to trust in addition to the system's."""
    connect_seconds: float = 15.0
    read_seconds: float = 60.0
    """The longest time without a single byte."""
    cache: str | PathLike[str] | None = None
    """A cache directory for file contents read by signed URLs. Files in a table's own directory are not cached: nothing
    distinguishes a file from one that replaced it."""
    cache_bytes: int = DEFAULT_LIMIT
    """The maximum size of the cache."""
    retries: int = 8
    """The number of retries per request."""
    total_seconds: float = 300.0
    """The time limit for retries."""

    def __post_init__(self) -> None:
        if self.access not in ("url", "dir", None):
            raise ValueError(f"{self.access!r} is not an access mode: use 'url' or 'dir'")
        if self.access == "dir" and self.cache is not None:
            raise ValueError("files in a table's own directory are not cached: drop cache or access='dir'")

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


def open_server(profile: GivenProfile, options: ClientOptions) -> SharingServer:
    """A profile's server. Sends no request yet. Raises the errors of `open_profile`."""
    return SharingServer(open_profile(profile), HttpPool(options.http), formats=options.formats)


def open_table(server: SharingServer, name: TableName, options: ClientOptions) -> TableSource:
    """A table by the chosen access mode, or the one its provider offers. Sends no request yet."""
    by_urls = SharedTable(server, name, options.open_cache())
    by_directory = DirectoryTable(server, name, options.storage_options)
    ways: dict[str | None, list[TableSource]] = {"url": [by_urls], "dir": [by_directory], None: [by_urls, by_directory]}
    return OfferedTable(server, name, *ways[options.access])
