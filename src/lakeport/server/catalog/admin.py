"""Changes to the shares, schemas and tables in a database. Renaming keeps ids, and so grants and signed URLs.

All methods raise `CatalogError`, and change nothing, if a name is taken or unknown, or if the result would be invalid.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy import Table as SqlTable

from lakeport.errors import CatalogError
from lakeport.server.catalog.database import RECIPIENTS, SCHEMAS, SHARES, TABLES, Database
from lakeport.server.catalog.model import Share, Table, normalize_location
from lakeport.server.catalog.rules import check_content, check_object_name, check_share, check_table
from lakeport.server.catalog.sql_source import read_content, read_share, read_table


def new_id() -> str:
    return str(uuid.uuid4())


class ShareAdmin:
    """Adds, changes and removes shares, schemas and tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Check the result; not after removals, which may repair a catalog."""
        with self._database.changing() as connection:
            yield connection
            check_content(read_content(connection))

    def add_share(self, name: str, /, **fields: Any) -> Share:
        """Add a share with the given fields of `Share`."""
        share = Share(**fields, id=new_id(), name=name)
        check_share(share)
        with self._changing() as connection:
            refuse_taken(connection, "share", share.name, SHARES)
            connection.execute(insert(SHARES).values(asdict(share) | {"key": share.name.lower()}))
            return share

    def update_share(self, name: str, /, **changes: Any) -> Share:
        """Change fields of a share; its id is fixed."""
        with self._changing() as connection:
            share = read_share(find_share(connection, name))
            changed = replace(share, **changes)
            check_share(changed)
            if changed.name.lower() != name.lower():
                refuse_taken(connection, "share", changed.name, SHARES)
            values = asdict(changed) | {"key": changed.name.lower()}
            connection.execute(update(SHARES).where(SHARES.c.id == share.id).values(values))
            return changed

    def remove_share(self, name: str, *, force: bool = False) -> None:
        """Refuses a share with tables unless forced."""
        with self._database.changing() as connection:
            share = find_share(connection, name)
            held = select(func.count()).select_from(TABLES.join(SCHEMAS)).where(SCHEMAS.c.share_id == share.id)
            _refuse_full("share", share.name, connection.scalar(held) or 0, force)
            connection.execute(delete(SHARES).where(SHARES.c.id == share.id))

    def add_schema(self, share: str, name: str) -> None:
        check_object_name("schema", name)
        with self._changing() as connection:
            share_id = find_share(connection, share).id
            refuse_taken(connection, "schema", name, SCHEMAS, share_id=share_id)
            _insert_schema(connection, share_id, name)

    def rename_schema(self, share: str, name: str, new_name: str) -> None:
        check_object_name("schema", new_name)
        with self._changing() as connection:
            schema = find_schema(connection, share, name)
            if new_name.lower() != name.lower():
                refuse_taken(connection, "schema", new_name, SCHEMAS, share_id=schema.share_id)
            values = {"name": new_name, "key": new_name.lower()}
            connection.execute(update(SCHEMAS).where(SCHEMAS.c.id == schema.id).values(values))

    def remove_schema(self, share: str, name: str, *, force: bool = False) -> None:
        """Refuses a schema with tables unless forced."""
        with self._database.changing() as connection:
            schema = find_schema(connection, share, name)
            held = select(func.count()).select_from(TABLES).where(TABLES.c.schema_id == schema.id)
            _refuse_full("schema", f"{share}.{schema.name}", connection.scalar(held) or 0, force)
            connection.execute(delete(SCHEMAS).where(SCHEMAS.c.id == schema.id))

    def add_table(self, share: str, schema: str, name: str, /, **fields: Any) -> Table:
        """Add a table with the given fields of `Table`. Its share must exist; its schema is created if needed."""
        table = Table(**_parsed(fields), id=new_id(), share=share, schema=schema, name=name)
        check_object_name("schema", schema)
        check_table(table)
        with self._changing() as connection:
            share_id = find_share(connection, share).id
            owner = _find(connection, SCHEMAS, schema, share_id=share_id)
            schema_id = _insert_schema(connection, share_id, schema) if owner is None else owner.id
            refuse_taken(connection, "table", name, TABLES, schema_id=schema_id)
            connection.execute(insert(TABLES).values(_columns(table) | {"schema_id": schema_id}))
            return table

    def update_table(self, share: str, schema: str, name: str, /, **changes: Any) -> Table:
        """Change fields of a table; its id, share and schema are fixed."""
        with self._changing() as connection:
            row = find_table(connection, share, schema, name)
            table = read_table((share, schema), row)
            changed = replace(table, **_parsed(changes))
            check_table(changed)
            if changed.name.lower() != name.lower():
                refuse_taken(connection, "table", changed.name, TABLES, schema_id=row.schema_id)
            connection.execute(update(TABLES).where(TABLES.c.id == table.id).values(_columns(changed)))
            return changed

    def remove_table(self, share: str, schema: str, name: str) -> None:
        with self._database.changing() as connection:
            table = find_table(connection, share, schema, name)
            connection.execute(delete(TABLES).where(TABLES.c.id == table.id))


def find_share(connection: Connection, name: str) -> Row[Any]:
    return _found(_find(connection, SHARES, name), "share", name)


def find_schema(connection: Connection, share: str, name: str) -> Row[Any]:
    share_id = find_share(connection, share).id
    return _found(_find(connection, SCHEMAS, name, share_id=share_id), "schema", f"{share}.{name}")


def find_table(connection: Connection, share: str, schema: str, name: str) -> Row[Any]:
    schema_id = find_schema(connection, share, schema).id
    return _found(_find(connection, TABLES, name, schema_id=schema_id), "table", f"{share}.{schema}.{name}")


def find_recipient(connection: Connection, name: str) -> Row[Any]:
    return _found(_find(connection, RECIPIENTS, name), "recipient", name)


def _find(connection: Connection, table: SqlTable, name: str, **parents: str) -> Row[Any] | None:
    wanted = select(table).where(table.c.key == name.lower())
    return connection.execute(wanted.filter_by(**parents)).one_or_none()


def _found(row: Row[Any] | None, kind: str, name: str) -> Row[Any]:
    if row is None:
        raise CatalogError(f"there is no {kind} {name!r}: `lakeport {kind} list` lists all")
    return row


def refuse_taken(connection: Connection, kind: str, name: str, table: SqlTable, **parents: str) -> None:
    if _find(connection, table, name, **parents) is not None:
        raise CatalogError(f"{kind} {name!r} exists already; names are case-insensitive")


def _refuse_full(kind: str, name: str, tables: int, force: bool) -> None:
    if tables and not force:
        raise CatalogError(f"{kind} {name!r} still has tables ({tables}): pass force=True to remove them too")


def _insert_schema(connection: Connection, share_id: str, name: str) -> str:
    schema_id = new_id()
    row = {"id": schema_id, "share_id": share_id, "name": name, "key": name.lower()}
    connection.execute(insert(SCHEMAS).values(row))
    return schema_id


def _parsed(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, with normalised locations."""
    parsed = dict(fields)
    if "location" in fields:
        parsed["location"] = normalize_location(fields["location"])
    if "auxiliary_locations" in fields:
        parsed["auxiliary_locations"] = tuple(map(normalize_location, fields["auxiliary_locations"]))
    return parsed


def _columns(table: Table) -> dict[str, Any]:
    values = asdict(table)
    del values["share"], values["schema"]
    return values | {"key": table.name.lower()}
