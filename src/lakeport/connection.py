"""`Connection`: what a provider shares, and the frames over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from lakeport.frame import Frame
from lakeport.sharing.models import Schema, Share, Table
from lakeport.sharing.names import TableName, parse_table_name

if TYPE_CHECKING:
    from lakeport.client import ClientOptions, GivenProfile, SharingServer
    from lakeport.client.options import ClientChoices


def connect(profile: GivenProfile = None, **options: Unpack[ClientChoices]) -> Connection:
    """The server that a profile leads to: the path of a profile, its JSON text, its content as a dict, or None for what
    the environment says (LAKEPORT_PROFILE, or LAKEPORT_ENDPOINT and LAKEPORT_BEARER_TOKEN). Nothing is asked of it yet.

    `options` are those of `lakeport.client.ClientOptions`: `proxy`, `ca_file`, `connect_seconds`, `read_seconds`,
    `retries`, `total_seconds`, `access`, `storage_options`, `cache`, `cache_bytes`.

    Raises `ValueError` for what is no profile, and `OSError` if its file cannot be read. A token that expires within a
    week is warned of; with one that has expired, every question raises `AuthenticationError`."""
    from lakeport.client import ClientOptions, open_server  # who reads a table on a disk need not pay for its memory

    chosen = ClientOptions(**options)
    return Connection(open_server(profile, chosen), chosen)


class Connection:
    """A sharing server, as a recipient sees it. Its questions raise `SharingError`. Threads can share it."""

    def __init__(self, server: SharingServer, options: ClientOptions) -> None:
        self._server, self._options = server, options

    def __repr__(self) -> str:
        return f"Connection({self._server.host!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are not in use. Frames can still be read; they open others."""
        self._server.close()

    def shares(self) -> list[Share]:
        return self._server.shares()

    def schemas(self, share: str) -> list[Schema]:
        return self._server.schemas(share)

    def tables(self, share: str, schema: str) -> list[Table]:
        return self._server.tables(share, schema)

    def all_tables(self, share: str | None = None) -> list[Table]:
        """The tables of all schemas of a share, or of all shares."""
        if share is not None:
            return self._server.all_tables(share)
        return [table for found in self.shares() for table in self._server.all_tables(found.name)]

    def scan(self, table: str | Table | TableName) -> Frame:
        """The rows of a table, named as `share.schema.table` or taken from a list. Nothing is asked of the server yet.

        Raises `ValueError` for what cannot be the name of a table."""
        from lakeport.client import open_table

        return Frame(open_table(self._server, _name(table), self._options))


def _name(table: str | Table | TableName) -> TableName:
    match table:
        case TableName():
            return table
        case Table():
            return TableName(table.share, table.schema, table.name)
        case _:
            return parse_table_name(str(table))
