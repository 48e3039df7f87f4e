"""`Connection`: a provider's shares, schemas and tables, and frames over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from lakeport.frame import Frame
from lakeport.sharing.models import Schema, Share, Table
from lakeport.sharing.names import TableName, parse_table_name

if TYPE_CHECKING:
    from lakeport.client import ClientChoices, ClientOptions, GivenProfile, SharingServer


def connect(profile: GivenProfile = None, **options: Unpack[ClientChoices]) -> Connection:
    """Connect to the server of a profile: a path, JSON text, a dict, or None for the environment (LAKEPORT_PROFILE, or
    LAKEPORT_ENDPOINT and LAKEPORT_BEARER_TOKEN). Sends no request yet.

    `options` are the fields of `lakeport.client.ClientOptions`: `proxy`, `ca_file`, `connect_seconds`, `read_seconds`,
    `retries`, `total_seconds`, `access`, `storage_options`, `cache`, `cache_bytes`.

    Raises `ValueError` for an invalid profile and `OSError` if its file cannot be read. Warns if the token expires
    within a week; once it has expired, every request raises `AuthenticationError`."""
    from lakeport.client import ClientOptions, open_server  # lazy: local tables do not need the client's memory

    chosen = ClientOptions(**options)
    return Connection(open_server(profile, chosen), chosen)


class Connection:
    """A sharing server, as a recipient sees it. Thread-safe. Requests raise `SharingError`."""

    def __init__(self, server: SharingServer, options: ClientOptions) -> None:
        self._server, self._options = server, options

    def __repr__(self) -> str:
        return f"Connection({self._server.host!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. Frames stay readable; they open new ones."""
        self._server.close()

    def shares(self) -> list[Share]:
        return self._server.shares()

    def schemas(self, share: str) -> list[Schema]:
        return self._server.schemas(share)

    def tables(self, share: str, schema: str) -> list[Table]:
        return self._server.tables(share, schema)

    def all_tables(self, share: str | None = None) -> list[Table]:
        """The tables in all schemas of a share, or of every share."""
        if share is not None:
            return self._server.all_tables(share)
        return [table for found in self.shares() for table in self._server.all_tables(found.name)]

    def scan(self, table: str | Table | TableName) -> Frame:
        """The rows of a table, given as `share.schema.table` or as an item of a listing. Sends no request yet.

        Raises `ValueError` for an invalid table name."""
        from lakeport.client import open_table

        return Frame.of(open_table(self._server, _name(table), self._options))


def _name(table: str | Table | TableName) -> TableName:
    match table:
        case TableName():
            return table
        case Table():
            return TableName(table.share, table.schema, table.name)
        case _:
            return parse_table_name(str(table))
