"""A shared table through the access mode that its provider offers, and hints for one that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Concatenate, ParamSpec, TypeVar

from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DIRECTORY_ONLY
from lakeport.errors import SharingError
from lakeport.kernel.engine import Engine
from lakeport.sharing.names import TableName
from lakeport.source import TableSource

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")

_NEAR = 0.8
_MOST_NAMES = 3


def read_offered(ways: Sequence[W], read: Callable[[W], T]) -> tuple[W, T]:
    """Read in the first access mode that the provider offers: signed URLs, or the directory. Raises `SharingError`."""
    for way in ways[:-1]:
        try:
            return way, read(way)
        except SharingError as error:
            if error.code != DIRECTORY_ONLY:
                raise
    return ways[-1], read(ways[-1])


def _offered(method: Callable[Concatenate[TableSource, P], T]) -> Callable[Concatenate[OfferedTable, P], T]:
    """The same method, in the access mode that the provider offers."""

    def read(self: OfferedTable, /, *args: P.args, **options: P.kwargs) -> T:
        found: T = self._read(lambda way: getattr(way, method.__name__)(*args, **options))
        return found

    return read


class OfferedTable:
    """A `TableSource` that tries its access modes in order, and stays with the one that the provider offers."""

    def __init__(self, server: SharingServer, name: TableName, *ways: TableSource) -> None:
        self._server, self._name, self._ways = server, name, ways

    @property
    def engine(self) -> Engine:
        return self._ways[0].engine

    @property
    def target(self) -> str:
        return str(self._name)

    @property
    def prunes(self) -> bool:
        return self._ways[0].prunes

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
        ways = self._ways
        try:
            way, found = read_offered(ways, read)
        except SharingError as error:
            if error.status != 404:
                raise
            raise self._not_found(error) from error
        if way is not ways[0]:
            self._ways = (way,)
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
