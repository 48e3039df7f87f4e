"""Open shared tables, with a recipient's options and the access mode that the provider offers, and suggest names for
tables that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import PathLike
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar

from lakeport.client.auth import GivenProfile, open_profile
from lakeport.client.http.connections import ConnectionOptions
from lakeport.client.http.pool import USER_AGENT, HttpOptions, HttpPool
from lakeport.client.http.retrying import RetryOptions
from lakeport.client.rest.pages import FORMATS
from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DIRECTORY_ONLY, DirectoryTable
from lakeport.client.tables.by_urls import SharedTable
from lakeport.client.tables.file_cache import DEFAULT_LIMIT, FileCache
from lakeport.errors import SharingError
from lakeport.kernel.engine import Engine
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
    """A cache directory for file contents read by signed URLs. Files in a table's own directory are not cached, because
    a replaced file cannot be told from the original."""
    cache_bytes: int = DEFAULT_LIMIT
    """The maximum size of the cache."""
    retries: int = 8
    """The number of retries per request."""
    total_seconds: float = 300.0
    """Seconds to keep retrying, counted from the start of the request or its last received byte."""

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
    access_modes: dict[str | None, list[TableSource]] = {
        "url": [by_urls],
        "dir": [by_directory],
        None: [by_urls, by_directory],
    }
    return FallbackTable(server, name, *access_modes[options.access])


P = ParamSpec("P")
T = TypeVar("T")
Mode = TypeVar("Mode")

_NEAR = 0.8
_MOST_NAMES = 3


def read_first_offered(access_modes: Sequence[Mode], read: Callable[[Mode], T]) -> tuple[Mode, T]:
    """Read in the first access mode that the provider offers: signed URLs, or the directory. Raises `SharingError`."""
    for mode in access_modes[:-1]:
        try:
            return mode, read(mode)
        except SharingError as error:
            if error.code != DIRECTORY_ONLY:
                raise
    return access_modes[-1], read(access_modes[-1])


def _offered(method: Callable[Concatenate[TableSource, P], T]) -> Callable[Concatenate[FallbackTable, P], T]:
    """The same method, in the access mode that the provider offers."""

    def read(self: FallbackTable, /, *args: P.args, **options: P.kwargs) -> T:
        found: T = self._read(lambda mode: getattr(mode, method.__name__)(*args, **options))
        return found

    return read


class FallbackTable:
    """A `TableSource` that tries its access modes in order, and stays with the one that the provider offers."""

    def __init__(self, server: SharingServer, name: TableName, *access_modes: TableSource) -> None:
        self._server, self._name, self._access_modes = server, name, access_modes

    @property
    def engine(self) -> Engine:
        return self._access_modes[0].engine

    @property
    def target(self) -> str:
        return str(self._name)

    @property
    def prunes(self) -> bool:
        return self._access_modes[0].prunes

    head = _offered(TableSource.head)
    snapshot = _offered(TableSource.snapshot)
    changes = _offered(TableSource.changes)
    history = _offered(TableSource.history)
    latest_version = _offered(TableSource.latest_version)
    version_since = _offered(TableSource.version_since)
    commits = _offered(TableSource.commits)
    forget = _offered(TableSource.forget)
    engine_for = _offered(TableSource.engine_for)

    def _read(self, read: Callable[[TableSource], T]) -> T:
        access_modes = self._access_modes
        try:
            mode, found = read_first_offered(access_modes, read)
        except SharingError as error:
            if error.status != 404:
                raise
            raise self._not_found(error) from error
        if mode is not access_modes[0]:
            self._access_modes = (mode,)
        return found

    def _not_found(self, error: SharingError) -> SharingError:
        near = near_names(self._server, self._name)
        advice = f"; did you mean {' or '.join(near)}?" if near else ""
        return type(error)(f"{error}{advice}", status=error.status, code=error.code)


def near_names(server: SharingServer, name: TableName) -> list[str]:
    """Similar names of shared tables; empty if the server does not list them, or lists this exact name."""
    try:
        shares = [share.name for share in server.shares()]
        like = [share for share in shares if share.lower() == name.share.lower()] or _close(name.share, shares)
        tables = [f"{t.share}.{t.schema}.{t.name}" for share in like for t in server.all_tables(share)]
    except SharingError:
        return []
    is_there = str(name).lower() in (table.lower() for table in tables)
    return [] if is_there else _close(str(name), tables)


def _close(text: str, names: list[str]) -> list[str]:
    """The closest names, ignoring case."""
    by_key = {name.lower(): name for name in names}
    return [by_key[key] for key in get_close_matches(text.lower(), by_key, _MOST_NAMES, _NEAR)]
