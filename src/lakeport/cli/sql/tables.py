"""The tables named in SQL: shared tables, and Delta tables by their paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from lakeport.frame import Frame, open_source, scan
from lakeport.queries import NamedTable, is_place
from lakeport.sharing.names import TableName, is_table_url

if TYPE_CHECKING:
    from lakeport.client import ClientChoices, GivenProfile
    from lakeport.connection import Connection


class Catalog:
    """Opens frames over the tables that SQL names. Without profiles, uses the one in the environment when needed."""

    def __init__(self, profiles: Sequence[GivenProfile], **options: Unpack[ClientChoices]) -> None:
        """Raises `ValueError` for options that do not fit together."""
        if options.get("access") is not None:
            from lakeport.client import ClientOptions

            ClientOptions(**options)
        self._profiles, self._options = profiles, options

    @cached_property
    def connections(self) -> list[Connection]:
        """Raises `ValueError` if there is no profile."""
        from lakeport.connection import connect  # imports the client

        return [connect(profile, **self._options) for profile in self._profiles or [None]]

    def close(self) -> None:
        for connection in self.__dict__.get("connections", []):
            connection.close()

    def open(self, table: NamedTable) -> Frame | None:
        """Return the frame over a table, or None to leave the name to DuckDB."""
        if table.database and table.schema:
            return self._connection(table).scan(TableName(*table))
        if table.schema or not is_place(table.name):
            return None
        if is_table_url(table.name):
            return Frame.of(open_source(table.name, **self._options))
        return scan(table.name, storage_options=self._options.get("storage_options"))

    def _connection(self, table: NamedTable) -> Connection:
        """The connection that has the share."""
        if len(self.connections) == 1:
            return self.connections[0]
        having = [c for c in self.connections if table.database.lower() in self._shares[c]]
        if len(having) > 1:
            raise ValueError(
                f"more than one profile has a share {table.database!r}: write 'PROFILE#{'.'.join(table)}', with quotes"
            )
        if not having:
            shares = sorted(name for names in self._shares.values() for name in names)
            raise ValueError(f"no profile has a share {table.database!r}; available: {', '.join(shares) or 'none'}")
        return having[0]

    @cached_property
    def _shares(self) -> dict[Connection, set[str]]:
        return {c: {share.name.lower() for share in c.shares()} for c in self.connections}

    def names(self) -> Iterator[str]:
        """The names of all shared tables."""
        for connection in self.connections:
            for table in connection.all_tables():
                yield f"{table.share}.{table.schema}.{table.name}"
