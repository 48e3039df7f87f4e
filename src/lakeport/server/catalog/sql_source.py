"""A catalog in a database: SQLite, or PostgreSQL for servers on several machines."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, select

from lakeport.server.catalog.database import GRANTS, RECIPIENTS, SCHEMAS, SHARES, STATE, TABLES, TOKENS, Database
from lakeport.server.catalog.index import EVERYTHING
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table


class SqlSource(Database):
    """The catalog in a database; its tables are created if missing."""

    def load(self) -> CatalogContent:
        with self.reading() as connection:
            return read_content(connection)

    def signing_key(self) -> bytes | None:
        with self.reading() as connection:
            key: bytes | None = connection.scalar(select(STATE.c.signing_key))
            return key


def read_content(connection: Connection) -> CatalogContent:
    """The catalog as the transaction sees it."""
    shares = {row.id: read_share(row) for row in connection.execute(select(SHARES).order_by("key"))}
    schemas = {row.id: (shares[row.share_id].name, row.name) for row in connection.execute(select(SCHEMAS))}
    tables = {row.id: read_table(schemas[row.schema_id], row) for row in connection.execute(select(TABLES))}
    return CatalogContent(
        shares=tuple(shares.values()),
        schemas=tuple(sorted(schemas.values())),
        tables=tuple(tables.values()),
        recipients=_recipients(connection, _grants(connection, shares, schemas, tables)),
    )


def read_share(row: Row[Any]) -> Share:
    return Share(
        id=row.id, name=row.name, display_name=row.display_name, comment=row.comment, properties=row.properties
    )


def read_table(schema: tuple[str, str], row: Row[Any]) -> Table:
    return Table(
        id=row.id,
        share=schema[0],
        schema=schema[1],
        name=row.name,
        location=row.location,
        history_shared=row.history_shared,
        start_version=row.start_version,
        auxiliary_locations=tuple(row.auxiliary_locations),
        access_modes=tuple(row.access_modes),
        storage=row.storage,
    )


def _recipients(connection: Connection, grants: dict[str, list[str]]) -> tuple[Recipient, ...]:
    tokens: dict[str, list[BearerToken]] = defaultdict(list)
    for row in connection.execute(select(TOKENS).order_by("created")):
        tokens[row.recipient_id].append(BearerToken(digest=row.digest, expires=row.expires))
    return tuple(
        Recipient(
            id=row.id,
            name=row.name,
            tokens=tuple(tokens[row.id]),
            ip_allow_list=tuple(row.ip_allow_list),
            grants=tuple(sorted(grants[row.id])),
        )
        for row in connection.execute(select(RECIPIENTS).order_by("key"))
    )


def _grants(
    connection: Connection, shares: dict[str, Share], schemas: dict[str, tuple[str, str]], tables: dict[str, Table]
) -> dict[str, list[str]]:
    """The names in each recipient's grants, by recipient id."""

    def name(row: Row[Any]) -> str:
        if row.table_id is not None:
            table = tables[row.table_id]
            return f"{table.share}.{table.schema}.{table.name}"
        if row.schema_id is not None:
            return ".".join(schemas[row.schema_id])
        return EVERYTHING if row.share_id is None else shares[row.share_id].name

    grants: dict[str, list[str]] = defaultdict(list)
    for row in connection.execute(select(GRANTS)):
        grants[row.recipient_id].append(name(row))
    return grants
