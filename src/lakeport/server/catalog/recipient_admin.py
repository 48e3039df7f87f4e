"""Changes to the recipients in a database: their tokens and grants.

A token is shown once, when it is created; only its digest is stored. All methods raise `CatalogError`, and change
nothing, if a name is taken or unknown. Times are in milliseconds since the epoch.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, update

from lakeport.errors import CatalogError
from lakeport.server.catalog.admin import find_recipient, find_schema, find_share, find_table, new_id, refuse_taken
from lakeport.server.catalog.database import GRANTS, PROFILES, RECIPIENTS, TOKENS, Database
from lakeport.server.catalog.index import EVERYTHING, token_digest
from lakeport.server.catalog.model import Recipient
from lakeport.server.catalog.rules import check_recipient

_TOKEN_BYTES = 32
_KINDS: tuple[tuple[int, str, Callable[..., Row[Any]]], ...] = (
    (1, "share_id", find_share),
    (2, "schema_id", find_schema),
    (3, "table_id", find_table),
)
"""For each kind of grant: its number of name parts, its column, and the function that finds its target."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The contents of a recipient's last profile; defaults for the next."""

    endpoint: str | None
    """None if unknown: old catalogs did not store it."""
    lifetime: int | None
    """The token's lifetime in milliseconds; None if it does not expire."""


class RecipientAdmin:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        name: str,
        now: int,
        *,
        expires: int | None = None,
        ip_allow_list: Sequence[str] = (),
        endpoint: str | None = None,
    ) -> str:
        """Add a recipient without grants. Return its token. `endpoint` is the one in its profile."""
        check_recipient(Recipient(id="", name=name, ip_allow_list=tuple(ip_allow_list)))
        with self._database.changing() as connection:
            refuse_taken(connection, "recipient", name, RECIPIENTS)
            recipient_id = new_id()
            row = {"id": recipient_id, "name": name, "key": name.lower(), "ip_allow_list": list(ip_allow_list)}
            connection.execute(insert(RECIPIENTS).values(row))
            return _add_token(connection, recipient_id, now, expires, endpoint)

    def update(self, name: str, *, new_name: str | None = None, ip_allow_list: Sequence[str] | None = None) -> None:
        """Change the name or the IP allow list; None keeps the current value."""
        with self._database.changing() as connection:
            recipient = find_recipient(connection, name)
            if new_name is not None and new_name.lower() != name.lower():
                refuse_taken(connection, "recipient", new_name, RECIPIENTS)
            called = new_name or recipient.name
            allowed = recipient.ip_allow_list if ip_allow_list is None else list(ip_allow_list)
            check_recipient(Recipient(id="", name=called, ip_allow_list=tuple(allowed)))
            values = {"name": called, "key": called.lower(), "ip_allow_list": allowed}
            connection.execute(update(RECIPIENTS).where(RECIPIENTS.c.id == recipient.id).values(values))

    def terms(self, name: str) -> Terms:
        """The terms of its last profile."""
        with self._database.reading() as connection:
            recipient = find_recipient(connection, name)
            kept = connection.execute(select(PROFILES).filter_by(recipient_id=recipient.id)).one_or_none()
            if kept is not None:
                return Terms(kept.endpoint, kept.lifetime)
            newest = select(TOKENS).filter_by(recipient_id=recipient.id).order_by(TOKENS.c.created.desc())
            token = connection.execute(newest).first()
            return Terms(None, None if token is None or token.expires is None else token.expires - token.created)

    def rotate(
        self, name: str, now: int, *, overlap: int = 0, expires: int | None = None, endpoint: str | None = None
    ) -> str:
        """Return a new token. Older ones expire after the overlap; expired ones are deleted."""
        with self._database.changing() as connection:
            recipient = find_recipient(connection, name)
            own = TOKENS.c.recipient_id == recipient.id
            connection.execute(delete(TOKENS).where(own, TOKENS.c.expires <= now))
            later = or_(TOKENS.c.expires.is_(None), TOKENS.c.expires > now + overlap)
            connection.execute(update(TOKENS).where(own, later).values(expires=now + overlap))
            return _add_token(connection, recipient.id, now, expires, endpoint)

    def revoke(self, name: str) -> None:
        """Delete all its tokens: the recipient remains, but cannot read anything until it gets a new one."""
        with self._database.changing() as connection:
            recipient = find_recipient(connection, name)
            connection.execute(delete(TOKENS).where(TOKENS.c.recipient_id == recipient.id))

    def remove(self, name: str) -> None:
        with self._database.changing() as connection:
            recipient = find_recipient(connection, name)
            connection.execute(delete(RECIPIENTS).where(RECIPIENTS.c.id == recipient.id))

    def grant(self, name: str, target: str) -> None:
        """Grant a share, a schema, a table or everything (`*`). Idempotent."""
        with self._database.changing() as connection:
            row = {"recipient_id": find_recipient(connection, name).id} | _resolve(connection, target)
            if connection.execute(select(GRANTS).filter_by(**row)).first() is None:
                connection.execute(insert(GRANTS).values(row))

    def ungrant(self, name: str, target: str) -> None:
        """Revoke a grant exactly as it was made, not part of a wider one."""
        with self._database.changing() as connection:
            row = {"recipient_id": find_recipient(connection, name).id} | _resolve(connection, target)
            found = connection.execute(select(GRANTS.c.id).filter_by(**row)).first()
            if found is None:
                raise CatalogError(f"{target!r} is not granted to {name!r}: `lakeport grant list` lists all grants")
            connection.execute(delete(GRANTS).where(GRANTS.c.id == found.id))


def _add_token(connection: Connection, recipient_id: str, now: int, expires: int | None, endpoint: str | None) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    row = {"digest": token_digest(token), "recipient_id": recipient_id, "created": now, "expires": expires}
    connection.execute(insert(TOKENS).values(row))
    lifetime = None if expires is None else expires - now
    connection.execute(delete(PROFILES).filter_by(recipient_id=recipient_id))
    connection.execute(insert(PROFILES).values(recipient_id=recipient_id, endpoint=endpoint, lifetime=lifetime))
    return token


def _resolve(connection: Connection, target: str) -> dict[str, str | None]:
    """The target of a grant: one of the three ids, or none for everything."""
    nothing: dict[str, str | None] = {"share_id": None, "schema_id": None, "table_id": None}
    if target == EVERYTHING:
        return nothing
    # A share's name may contain periods; the catalog's rules ensure that only one kind fits.
    for number, column, find in _KINDS:
        parts = target.rsplit(".", number - 1)
        if len(parts) == number:
            with suppress(CatalogError):
                return nothing | {column: find(connection, *parts).id}
    raise CatalogError(
        f"there is no share, schema or table {target!r}: write share, share.schema, share.schema.table, or * for all"
    )
