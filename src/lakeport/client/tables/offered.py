"""A shared table through the access mode that its provider offers, and hints for one that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import TypeVar

from lakeport.client.rest.server import SharingServer
from lakeport.client.tables.by_directory import DIRECTORY_ONLY
from lakeport.errors import SharingError
from lakeport.kernel.changes import ChangeFile, TableChanges, TableCommits
from lakeport.kernel.engine import Engine
from lakeport.kernel.expressions import Expression
from lakeport.kernel.log import CommitInfo
from lakeport.kernel.scan import ScanFile
from lakeport.kernel.snapshot import Snapshot
from lakeport.sharing.names import TableName
from lakeport.source import At, Moment, TableSource

T = TypeVar("T")

_NEAR = 0.8
_MOST_NAMES = 3


class OfferedTable:
    """A `TableSource` that uses the first access mode until the server says that only the second is offered."""

    def __init__(self, server: SharingServer, name: TableName, way: TableSource, other: TableSource | None = None):
        self._server, self._name = server, name
        self._ways = (way, other)
        """The current access mode, and the other one while it may still turn out to be the only one offered."""

    @property
    def _way(self) -> TableSource:
        return self._ways[0]

    @property
    def engine(self) -> Engine:
        return self._way.engine

    @property
    def target(self) -> str:
        return str(self._name)

    @property
    def prunes(self) -> bool:
        return self._way.prunes

    def head(self, at: At) -> Snapshot:
        return self._read(lambda way: way.head(at))

    def snapshot(self, at: At, condition: Expression | None = None, limit: int | None = None) -> Snapshot:
        return self._read(lambda way: way.snapshot(at, condition, limit))

    def changes(self, start: At, end: At) -> TableChanges:
        return self._read(lambda way: way.changes(start, end))

    def history(self, snapshot: Snapshot, limit: int | None) -> Iterator[CommitInfo]:
        return self._read(lambda way: way.history(snapshot, limit))

    def latest_version(self) -> int:
        return self._read(lambda way: way.latest_version())

    def version_since(self, moment: Moment) -> int:
        return self._read(lambda way: way.version_since(moment))

    def commits(self, start: int, end: int) -> TableCommits:
        return self._read(lambda way: way.commits(start, end))

    def forget(self, root: str) -> None:
        self._way.forget(root)

    def engine_for(self, files: Iterable[ScanFile | ChangeFile]) -> Engine:
        return self._way.engine_for(files)

    def _read(self, read: Callable[[TableSource], T]) -> T:
        way, other = self._ways
        try:
            return read(way)
        except SharingError as error:
            if error.status == 404:
                raise self._not_found(error) from error
            if error.code != DIRECTORY_ONLY or other is None:
                raise
        self._ways = (other, None)
        return self._read(read)

    def _not_found(self, error: SharingError) -> SharingError:
        near = near_names(self._server, self._name)
        advice = f"; did you mean {' or '.join(near)}?" if near else ""
        return type(error)(f"{error}{advice}", status=error.status, code=error.code)


def near_names(server: SharingServer, name: TableName) -> list[str]:
    """Similar names of shared tables; empty if the server does not list them, or lists this very one."""
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
